// A launch of linear as plain pointers and numbers, which is all that target regions see.
#pragma once

#include "kernel/linear.h"

namespace flare::kernel::linear {

// Shares begin at multiples of this many output rows, so that most blocks of rows are whole.
inline constexpr int64_t kRowGrain = 16;
inline constexpr int64_t kMaxWidth = 16;  // weight rows of the widest int8 panel

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
  int64_t n_stored() const { return output == LinearOutput::kSwiglu ? n_outputs / 2 : n_outputs; }
};
// At capacity the pointers are null.
Problem problem_of(const LaunchArgs& args);

// Room in a launch's workspace, behind the kernel's own part, for the rows of x̂ and of the product
// that wait for what stands behind it. Null where the launch has no need of it.
struct Room {
  float* rows = nullptr;  // [max(T, members), rows_stride]
  int64_t rows_stride = 0;
  float* product = nullptr;  // [T, N]
  uint64_t bytes = 0;        // of the whole workspace
};
Room room_of(const Problem& problem, uint64_t own_bytes, int n_members);
// Own parts: the tiles of all members; the same or x as bf16 words; quantised x and panels.
uint64_t tile_bytes(int n_members);
uint64_t bf16_bytes(const Problem& problem, int n_members);
uint64_t int8_bytes(const Problem& problem, int n_members);

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

// The planes of rows of a row-split object; high is null where the format has none.
struct RowPlanes {
  const std::byte* base = nullptr;
  const std::byte* high = nullptr;
  const std::byte* scale = nullptr;
  int64_t base_stride = 0, high_stride = 0, scale_stride = 0;  // bytes from row to row
};
// `width` rows from the piece's first on. A shorter piece is copied to `spare` and filled up with
// zero rows, so that nothing outside it is read.
RowPlanes panel_rows(const Piece& piece, int64_t width, std::byte* spare);
// First word and words a row of a contiguous object.
const std::byte* contiguous_row(const codec::Segment& segment, int64_t row);

// Exact values of rows × [col, col + n_cols), `stride` floats from row to row.
void decode_tile(const Piece& piece, int64_t col, int64_t n_cols, float* tile, int64_t stride);

// Activations as int8 for one launch, in the launch's workspace. Rows lie in blocks of
// `block` (the last may be shorter, r rows); a block of rows [t0, t0 + r) holds at
// codes + t0·padded_k, for every group and step: 4 bytes of row 0, …, 4 bytes of row r − 1.
// scales and sums of a block lie at t0·groups, per group r values.
struct Quantised {
  int8_t* codes = nullptr;
  float* scales = nullptr;
  int32_t* sums = nullptr;  // −offset · Σ codes of the group
  int64_t padded_k = 0;
  int64_t groups = 0;
  int64_t block = 0;
};
enum class StepOrder {
  kPlain,      // step s holds lanes 4s … 4s+3
  kEvensOdds,  // of eight lanes: step 2s the even ones, step 2s+1 the odd ones (packed nibbles)
};
Quantised quantised_in(const Problem& problem, int64_t group, int64_t block);
// This member's share of the codes; the caller puts a barrier behind it. `offset` is what unpacked
// weight codes are too large by.
void quantise(const Problem& problem, const Quantised& to, int64_t group, StepOrder order,
              int32_t offset, const Member& member);
// This member's panel: kMaxWidth unpacked weight rows with their scales. Alignment 64.
std::byte* panel_of(const Problem& problem, const Quantised& quantised, const Member& member);
// This member's room for kMaxWidth stored rows.
std::byte* spare_of(const Problem& problem, const Quantised& quantised, const Member& member);

}  // namespace flare::kernel::linear
