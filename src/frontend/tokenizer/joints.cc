// Filling the table of joints.
#include "frontend/tokenizer/joints.h"

#include <bit>

namespace flare::frontend::tokenizer {

Joints::Joints(size_t count) : near_(kNear * kNear), pairs_(std::bit_ceil(count * 2 + 2), kNone) {}

void Joints::add(char32_t left, char32_t right) {
  const uint32_t l = near_index(left), r = near_index(right);
  if (l < kNear && r < kNear) {
    near_[l * kNear + r] = 1;
    return;
  }
  const uint64_t pair = pair_of(left, right);
  size_t slot = slot_of(pair);
  while (pairs_[slot] != kNone && pairs_[slot] != pair) slot = (slot + 1) & (pairs_.size() - 1);
  pairs_[slot] = pair;
}

}  // namespace flare::frontend::tokenizer
