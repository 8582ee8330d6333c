// How attention is cut into blocks and items, and what the team's workspace holds.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernel/kernels.h"

namespace flare::kernel::attention {

// Tokens per online-softmax block; a block also ends where its page or chunk ends.
inline constexpr int64_t kBlockTokens = 128;
// Query heads × rows that share one pass over keys and values: enough to hide their conversion,
// few enough that queries and sums stay in the second-level cache.
inline constexpr int64_t kTargetRows = 64;
inline constexpr int64_t kMaxBlockRows = 64;
// Rows of a buffer are padded to this, so that a tile may take more rows than there are.
inline constexpr int64_t kRowPadding = 16;
// A token costs as much to read as the arithmetic of this many rows with it.
inline constexpr int64_t kRowsOfReading = 8;
// Columns of sums are padded to this: two vectors of the widest level.
inline constexpr int64_t kColumnPadding = 32;
// A row at position p is summed in chunks of max(512, ⌈p+1⌉₂ / 16) tokens, folded in ascending
// order. The chunk depends on p alone, so one member or sixteen give the same bits.
inline constexpr int64_t kMaxChunks = 16;
inline constexpr int64_t kMinChunkTokens = 512;

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
  int64_t dk_padded = 0;
  int64_t dv_padded = 0;
  int64_t window = 0;
  // Rows of a sequence per block: a power of two; blocks start at its multiples in absolute
  // positions, so the rows of one block share a chunk length.
  int64_t block_rows = 1;
  int64_t rows() const {
    return (block_rows * group + kRowPadding - 1) / kRowPadding * kRowPadding;
  }
  // Floats of one partial result: sums [rows, dv_padded], then maxima and denominators [rows].
  int64_t partial_floats() const { return rows() * (dv_padded + 2); }
  // Floats of a block of keys or values in the layout of pages, or widened.
  int64_t tile_floats() const { return kBlockTokens * std::max(dk_padded, dv_padded); }
  // Floats of one member's own workspace: queries; scores, weights and a factor per row; two
  // partial results; one block as it came, one widened.
  int64_t member_floats() const {
    return rows() * (dk_padded + 2 * kBlockTokens + 1) + 2 * partial_floats() + 2 * tile_floats();
  }
};

inline Shape shape_of(const LaunchArgs& args) {
  Shape s;
  s.nq = args.immediates[0].i;
  s.nkv = args.immediates[1].i;
  s.window = args.immediates[3].i;
  s.group = s.nq / s.nkv;
  s.dk = args.operands[0].cols / s.nq;
  s.dv = args.operands[4].cols / s.nq;
  s.dk_padded = (s.dk + kColumnPadding - 1) / kColumnPadding * kColumnPadding;
  s.dv_padded = (s.dv + kColumnPadding - 1) / kColumnPadding * kColumnPadding;
  while (s.block_rows < kMaxBlockRows && 2 * s.block_rows * s.group <= kTargetRows &&
         s.block_rows < args.operands[0].rows)
    s.block_rows *= 2;
  return s;
}

// The rows of one sequence that share a pass: a block under each KV head is one unit of work.
struct Block {
  int64_t sequence = 0;
  int64_t first_row = 0;  // of the step
  int64_t n_rows = 0;
  int64_t position = 0;  // of the first row
  // Chunks [first_chunk, end_chunk) of chunk_tokens each hold what the rows see.
  int64_t chunk_tokens = 0;
  int64_t first_chunk = 0;
  int64_t end_chunk = 0;
  int64_t first_token = 0;  // that the first row sees
  int64_t end_token = 0;
  // About the time of one unit.
  int64_t cost() const { return (end_token - first_token) * (kRowsOfReading + n_rows); }
};

inline Block block_at(const StepInputs& step, const Shape& shape, int64_t sequence, int64_t index) {
  const int64_t past = step.sequence_past[sequence];
  const int64_t begin = step.sequence_begin[sequence];
  const int64_t n = step.sequence_begin[sequence + 1] - begin;
  const int64_t block = past / shape.block_rows + index;
  Block b;
  b.sequence = sequence;
  b.position = std::max(past, block * shape.block_rows);
  b.n_rows = std::min(past + n, (block + 1) * shape.block_rows) - b.position;
  b.first_row = begin + b.position - past;
  b.chunk_tokens = chunk_tokens(b.position);
  b.first_token = shape.window > 0 ? std::max<int64_t>(0, b.position - shape.window + 1) : 0;
  b.end_token = b.position + b.n_rows;
  b.first_chunk = b.first_token / b.chunk_tokens;
  b.end_chunk = (b.end_token - 1) / b.chunk_tokens + 1;
  return b;
}

// Row blocks of sequence b.
inline int64_t row_blocks(const StepInputs& step, int64_t b, int64_t block_rows) {
  const int64_t n = step.sequence_begin[b + 1] - step.sequence_begin[b];
  if (n == 0) return 0;
  const int64_t past = step.sequence_past[b];
  return (past + n - 1) / block_rows - past / block_rows + 1;
}

// A unit of more than 1 / (2 members) of a step's work is split into pieces of whole chunks, which
// leave partial results in the shared workspace; there are fewer than 2 × members such units.
inline int64_t max_split_units(int n_members) { return n_members > 1 ? 2 * n_members : 0; }

// Walks the blocks of a step from the last to the first: later ones see more tokens, and long items
// are dealt out first.
class Blocks {
 public:
  Blocks(const StepInputs& step, const Shape& shape, int n_members)
      : step_(step), shape_(shape), n_members_(n_members) {
    reset();
    for (; !done(); next()) total_ += shape.nkv * current_.cost();
    reset();
  }
  void reset() {
    sequence_ = step_.n_sequences;
    left_ = 0;
    next();
  }
  bool done() const { return sequence_ < 0; }
  void next() {
    while (left_ == 0) {
      if (--sequence_ < 0) return;
      left_ = row_blocks(step_, sequence_, shape_.block_rows);
    }
    current_ = block_at(step_, shape_, sequence_, --left_);
  }
  const Block& block() const { return current_; }
  // Into how many items one unit of the current block falls.
  int64_t pieces() const {
    const int64_t share = total_ / std::max<int64_t>(1, max_split_units(n_members_));
    if (n_members_ == 1 || current_.cost() <= share) return 1;
    return std::min(current_.end_chunk - current_.first_chunk, current_.cost() / (share + 1) + 1);
  }

 private:
  const StepInputs& step_;
  const Shape& shape_;
  const int n_members_;
  int64_t total_ = 0;
  int64_t sequence_ = 0;
  int64_t left_ = 0;  // blocks of the sequence before the current one
  Block current_;
};

}  // namespace flare::kernel::attention
