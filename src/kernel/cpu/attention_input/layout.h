// A member's room in the workspace of attention_input.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel::attention_input {

// Cosines of a row, its sines, one key head; counted in floats. Each is padded to whole blocks.
struct Room {
  int64_t angles;
  int64_t floats;
};
inline Room room_of(const LaunchArgs& args) {
  constexpr int64_t kBlock = 64;
  const auto align = [](int64_t n) { return (n + kBlock - 1) / kBlock * kBlock; };
  const int64_t angles = align(args.operands[7].cols);
  return {angles, 2 * angles + align(args.immediates[1].i)};
}

}  // namespace flare::kernel::attention_input
