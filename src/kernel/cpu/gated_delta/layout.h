// What one member's workspace of gated_delta and gated_delta_verify holds.
#pragma once

#include <cstdint>

#include "kernel/gated_delta.h"
#include "kernel/kernels.h"

namespace flare::kernel::gated_delta_layout {

// Rows per chunk, as in the reference; a run of at least kChunkFrom rows of a sequence takes the
// chunk form, a shorter one the recurrence: about there the products of rows with rows cost less
// than passing the state through the core once a row.
inline constexpr int64_t kChunk = 64;
inline constexpr int64_t kChunkFrom = 16;
static_assert(kDeltaPiece % kChunk == 0 && kDeltaPiece >= kChunkFrom);

struct Shape {
  int64_t nk = 0;
  int64_t dk = 0;
  int64_t nv = 0;
  int64_t dv = 0;
  int64_t dv_padded = 0;  // to whole panels of every level
  int64_t key_cols() const { return nk * dk; }
  int64_t conv_cols() const { return 2 * nk * dk + nv * dv; }
  // Columns of a row of factors: k̂, e^g, δ.
  int64_t decay_column() const { return key_cols(); }
  int64_t delta_column() const { return key_cols() + nv; }
  // q, k, kᵀ [kChunk, dk]; q·k, k·k [kChunk, kChunk]; v or Δ [kChunk, dv_padded]; a state
  // [dk, dv_padded]; four gates a row.
  int64_t member_floats() const {
    return 3 * kChunk * dk_padded() + 2 * kChunk * kChunk + kChunk * dv_padded + dk * dv_padded +
           4 * kChunk;
  }
  int64_t dk_padded() const { return (dk + 15) / 16 * 16; }  // keeps the arrays aligned
};

inline Shape shape_of(const LaunchArgs& args) {
  Shape s;
  s.nk = args.immediates[0].i;
  s.dk = args.immediates[1].i;
  s.nv = args.immediates[2].i;
  s.dv = args.immediates[3].i;
  s.dv_padded = (s.dv + 31) / 32 * 32;
  return s;
}

}  // namespace flare::kernel::gated_delta_layout
