// What one member's workspace of gated_delta holds.
#pragma once

#include <cstdint>

#include "kernel/kernels.h"

namespace flare::kernel::gated_delta_layout {

// Rows per chunk, as in the reference; a run of at least kChunkFrom rows of a sequence takes the
// chunk form, a shorter one the recurrence: about there the products of rows with rows cost less
// than passing the state through the core once a row.
inline constexpr int64_t kChunk = 64;
inline constexpr int64_t kChunkFrom = 16;

struct Shape {
  int64_t nk = 0;
  int64_t dk = 0;
  int64_t nv = 0;
  int64_t dv = 0;
  int64_t dv_padded = 0;
  // q, k [kChunk, dk]; kᵀ, weighted kᵀ [dk, kChunk]; q·k, k·k [kChunk, kChunk];
  // Δ, o [kChunk, dv_padded]; a state padded to whole vectors [dk, dv_padded]; three gates a row.
  int64_t member_floats() const {
    return 4 * kChunk * dk + 2 * kChunk * kChunk + 2 * kChunk * dv_padded + dk * dv_padded +
           3 * kChunk;
  }
};

inline Shape shape_of(const LaunchArgs& args) {
  Shape s;
  s.nk = args.immediates[0].i;
  s.dk = args.immediates[1].i;
  s.nv = args.immediates[2].i;
  s.dv = args.immediates[3].i;
  s.dv_padded = (s.dv + 15) / 16 * 16;
  return s;
}

}  // namespace flare::kernel::gated_delta_layout
