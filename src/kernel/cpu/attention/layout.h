// How attention is cut into blocks, and what the team's workspace holds.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernel/kernels.h"

namespace flare::kernel::attention {

// Tokens per online-softmax block; a block also ends where its page ends.
inline constexpr int64_t kBlockTokens = 64;
// Query heads × rows that share one pass over keys and values: enough to hide their conversion,
// few enough that queries and sums stay in the second-level cache.
inline constexpr int64_t kTargetRows = 32;
inline constexpr int64_t kMaxBlockRows = 16;
// A row at position p is summed in chunks of max(256, ⌈p+1⌉₂ / 16) tokens, folded in ascending
// order. The chunk depends on p alone, so one member or sixteen give the same bits.
inline constexpr int64_t kMaxChunks = 16;
inline constexpr int64_t kMinChunkTokens = 256;

inline int64_t chunk_tokens(int64_t position) {
  const int64_t octave = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(position) + 1));
  return std::max(kMinChunkTokens, octave / kMaxChunks);
}

struct Shape {
  int64_t nq = 0;
  int64_t nkv = 0;
  int64_t group = 0;  // query heads per KV head
  int64_t dk = 0;
  int64_t dv = 0;
  int64_t dk_padded = 0;  // to whole vectors of any level
  int64_t dv_padded = 0;
  // Rows of a sequence per block: a power of two; blocks start at its multiples in absolute
  // positions, so the rows of one block share a chunk length.
  int64_t block_rows = 1;
  int64_t rows() const { return block_rows * group; }
  // Floats of one partial result: sums [rows, dv_padded], then maxima and denominators [rows].
  int64_t partial_floats() const { return rows() * (dv_padded + 2); }
  // Floats of one member's own workspace: queries, one block of scores, two partial results, one
  // block of converted keys and values.
  int64_t member_floats() const {
    return rows() * (dk_padded + kBlockTokens) + 2 * partial_floats() + 4 * dk_padded +
           kBlockTokens * 64;
  }
};

inline Shape shape_of(const LaunchArgs& args) {
  Shape s;
  s.nq = args.immediates[0].i;
  s.nkv = args.immediates[1].i;
  s.group = s.nq / s.nkv;
  s.dk = args.operands[0].cols / s.nq;
  s.dv = args.operands[3].cols / s.nq;
  s.dk_padded = (s.dk + 15) / 16 * 16;
  s.dv_padded = (s.dv + 15) / 16 * 16;
  while (s.block_rows < kMaxBlockRows && 2 * s.block_rows * s.group <= kTargetRows)
    s.block_rows *= 2;
  return s;
}

// A step with fewer units than this splits each over its chunks, through partial results in the
// shared workspace.
inline int64_t split_below(int n_members) { return n_members > 1 ? 2 * n_members : 0; }

// Row blocks of sequence b.
inline int64_t row_blocks(const StepInputs& step, int64_t b, int64_t block_rows) {
  const int64_t n = step.sequence_begin[b + 1] - step.sequence_begin[b];
  if (n == 0) return 0;
  const int64_t past = step.sequence_past[b];
  return (past + n - 1) / block_rows - past / block_rows + 1;
}

// One unit of work: the rows of a block under one KV head.
struct Unit {
  int64_t sequence = 0;
  int64_t first_row = 0;  // of the step
  int64_t n_rows = 0;
  int64_t position = 0;  // of the first row
  int64_t kv_head = 0;
};

// Finds units by ascending index; keeps its place between calls.
class Units {
 public:
  Units(const StepInputs& step, const Shape& shape) : step_(step), shape_(shape) {
    for (int64_t b = 0; b < step.n_sequences; ++b)
      count_ += row_blocks(step, b, shape.block_rows) * shape.nkv;
  }
  int64_t count() const { return count_; }
  Unit at(int64_t index) {
    while (true) {
      const int64_t here = row_blocks(step_, sequence_, shape_.block_rows) * shape_.nkv;
      if (index < before_ + here) break;
      before_ += here;
      ++sequence_;
    }
    const int64_t past = step_.sequence_past[sequence_];
    const int64_t begin = step_.sequence_begin[sequence_];
    const int64_t n = step_.sequence_begin[sequence_ + 1] - begin;
    const int64_t block = past / shape_.block_rows + (index - before_) / shape_.nkv;
    Unit unit;
    unit.sequence = sequence_;
    unit.position = std::max(past, block * shape_.block_rows);
    unit.n_rows = std::min(past + n, (block + 1) * shape_.block_rows) - unit.position;
    unit.first_row = begin + unit.position - past;
    unit.kv_head = (index - before_) % shape_.nkv;
    return unit;
  }

 private:
  const StepInputs& step_;
  const Shape& shape_;
  int64_t count_ = 0;
  int64_t sequence_ = 0;
  int64_t before_ = 0;  // units of the sequences before
};

}  // namespace flare::kernel::attention
