// A launch of linear as plain pointers and numbers, which is all that target regions see.
#pragma once

#include "kernel/linear.h"

namespace flare::kernel::linear {

// Shares begin at multiples of this many output rows, so that most blocks of rows are whole.
inline constexpr int64_t kRowGrain = 16;

struct Range {
  int64_t begin, end;
};
Range share_of(const Member& member, int64_t n, int64_t grain);

struct Problem {
  int64_t n_rows = 0;     // T
  int64_t n_outputs = 0;  // N, of the product
  int64_t k = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  const float* bias = nullptr;  // null: none
  const codec::Segment* segments = nullptr;
  std::byte* workspace = nullptr;

  // What stands before the product (linear_prologue.inl.h).
  LinearInput input = LinearInput::kPlain;
  const float* norm = nullptr;  // weight of a norm
  int64_t norm_width = 0;       // its columns: K, or a head's
  float eps = 0;
  float norm_offset = 0;  // added to the weight: 0 or 1
  const float* gate = nullptr;
  int64_t gate_stride = 0;

  // What stands behind it (linear_epilogue.inl.h).
  LinearOutput output = LinearOutput::kPlain;
  const float* residual = nullptr;  // null: none
  int64_t residual_stride = 0;

  bool is_stored_at_once() const { return output == LinearOutput::kPlain && residual == nullptr; }
  // Columns of y.
  int64_t n_stored() const { return takes_halves(output) ? n_outputs / 2 : n_outputs; }
};
// At capacity the pointers are null.
Problem problem_of(const LaunchArgs& args);

// Pieces of a workspace begin at lines of the caches.
inline constexpr int64_t kLine = 64;
inline int64_t align_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Words from row to row of x̂, with `line` of them in a cache line: never a multiple of a page, by
// which rows would throw each other out of L1.
inline int64_t rows_apart(int64_t k, int64_t line) { return align_up(k, line) + line; }

// Room in a launch's workspace, behind the kernel's own part, for the rows of x̂ and of the product
// that wait for what stands behind it. Null where the launch has no need of it.
struct Room {
  float* rows = nullptr;  // [max(T, members), rows_stride]
  int64_t rows_stride = 0;
  float* product = nullptr;  // [T, N]
  uint64_t bytes = 0;        // of the whole workspace
};
Room room_of(const Problem& problem, uint64_t own_bytes, int n_members);
// Own parts: the tiles of all members; the same or x as bf16 words.
uint64_t tile_bytes(int n_members);
uint64_t bf16_bytes(const Problem& problem, int n_members);

// Neighbouring rows of one segment that are neighbouring outputs.
struct Piece {
  const codec::Segment* segment = nullptr;
  int64_t row = 0;     // of the segment's parent
  int64_t output = 0;  // first of
  int64_t rows = 0;
};

// Walks the pieces of outputs [begin, end), none longer than `longest`.
class Pieces {
 public:
  Pieces(const Problem& problem, Range outputs, int64_t longest);
  bool next(Piece* piece);

 private:
  const codec::Segment* segment_;
  int64_t in_segment_;  // rows of *segment_ before output_
  int64_t output_, end_, longest_;
};

// First word and words a row of a contiguous object.
const std::byte* contiguous_row(const codec::Segment& segment, int64_t row);

// Exact values of rows × [col, col + n_cols), `stride` floats from row to row.
void decode_tile(const Piece& piece, int64_t col, int64_t n_cols, float* tile, int64_t stride);

}  // namespace flare::kernel::linear
