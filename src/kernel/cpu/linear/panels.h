// Linear over weights in panels (codec/panels.h): what a launch works on.
//
// A launch has two phases. First x̂ is made: as int8 for every group width that a segment wants, by
// every member for itself where few rows make that cheaper than meeting, else row by row over the
// team with a barrier behind; or as binary32, row by row with a barrier. Then panels are dealt out.
// Few rows take shares of neighbouring panels and stream each one's bytes once for all rows, one
// panel after the other or, on CPUs where a core reads two streams faster than one, two together;
// with a gated unit a gate's panel comes with its up projection's. Many rows take runs of pairs of
// panels, two neighbours or a gate's and its up projection's, unpack slices of a pair's columns to
// bytes (or floats) and multiply blocks of rows with them.
#pragma once

#include "codec/panels.h"
#include "kernel/cpu/linear/problem.h"

namespace flare::kernel::linear {

inline constexpr auto kPanelRows = static_cast<int64_t>(codec::kPanelRows);
// Columns of a slice: unpacked, two panels of it and their scales stay in L1. A multiple of every
// block.
inline constexpr int64_t kSliceCols = 512;
// Columns of a slice as binary32 numbers.
inline constexpr int64_t kFloatSliceCols = 256;
// Rows of x and pairs of panels whose slices and totals stay in L2 together.
inline constexpr int64_t kRowsAtOnce = 264;
inline constexpr int64_t kPairsAtOnce = 4;
// Of these, at level amx, whose slices stay in L1 for a block of rows (codes of 8 KiB a panel).
inline constexpr int kPairsInL1 = 2;
// Rows up to which panels are streamed, eight rows at a time while a panel is in the caches. Level
// vnni at 16 / 24 / 32 rows of q4_g64: 63 to 78 % of int8 so, 51 to 66 % by slices; q8_g32 60 to 68
// against 42 to 58; v3 is the same either way.
inline constexpr int64_t kStreamRows = 32;
// The same at level amx: 16 rows of q4_g64 one way or the other 527 and 483 GOP/s a thread, 64 rows
// 592 and 901 (q8_g32: 426 and 325, 505 and 597).
inline constexpr int64_t kAmxStreamRows = 16;
// Elements of x̂ up to which every member quantises them for itself.
inline constexpr int64_t kOwnElements = 8192;

// x̂ as int8 with one scale for `group` columns of a row.
struct Quantised {
  int64_t group = 0;
  int64_t groups = 0;           // of a row
  int64_t stride = 0;           // bytes from row to row of codes
  int8_t* codes = nullptr;      // [T][stride]
  float* scales = nullptr;      // [T][groups]
  int32_t* neg_sums = nullptr;  // [T][groups] −Σ codes · 2^sum_bits
  int sum_bits = 0;             // kSumBits of the width
  float* neg_scaled = nullptr;  // [T][groups] −scale·Σ codes
  // Of many rows, and filled at level amx alone: the transposes of scales and neg_scaled.
  int64_t columns_stride = 0;           // T in whole blocks of rows
  float* scale_columns = nullptr;       // [groups][columns_stride]
  float* neg_scaled_columns = nullptr;  // [groups][columns_stride]
};

// The group widths of panel formats, in the order of PanelProblem::shared.
inline constexpr int64_t kGroupWidths[] = {64, 32, 16};
inline constexpr int kWidths = 3;
// A raised format's sums begin with −2^kOffsetBits·Σ codes: shifted once here for the format of a
// width that pays most.
inline constexpr int kSumBits[] = {3, 7, 5};
int width_index(uint64_t group_cols);

// Rows of one stored tensor that begin and end at panels.
struct PanelSegment {
  const std::byte* panels = nullptr;  // the first panel of the segment
  codec::FormatId format = codec::FormatId::kQ4G64;
  codec::PanelShape shape;
  int64_t n_panels = 0;
  int64_t rows = 0;
  int64_t output = 0;  // its first row among the outputs of the product
};

// One panel as an item of work.
struct PanelRef {
  const PanelSegment* segment = nullptr;
  const std::byte* data = nullptr;
  int64_t output = 0;  // of its first row
  int64_t rows = 0;    // 1 … 16
};

struct PanelProblem {
  Problem problem;
  PanelSegment segments[kMaxPanelSegments];
  int n_segments = 0;
  int64_t n_panels = 0;    // of all segments
  int64_t padded_k = 0;    // columns of whole blocks
  bool is_int8 = true;     // activations; else binary32
  bool is_paired = false;  // few rows stream two panels together
  bool is_wanted[kWidths] = {};
  Quantised shared[kWidths];  // in the launch's workspace
  float* rows = nullptr;      // x̂ as binary32, zeros up to padded_k
  int64_t rows_stride = 0;
  int64_t shared_bytes = 0;  // of the workspace; the members' room follows
};

PanelProblem panel_problem(const LaunchArgs& args, bool is_int8);
// Panel i of the concatenated segments.
PanelRef panel_at(const PanelProblem& p, int64_t i);

// n items in shares that a team takes by index: few of them, since each one's first bytes come
// late, and small ones last, so that members end together. There is a lane of neighbours for every
// member, and lanes take turns with three quarters of what they have left: members that ask by
// turns go on where they stopped. at(i) is empty behind the last share.
class Shares {
 public:
  Shares(int64_t n, int n_members)
      : n_(n), n_lanes_(n_members), lane_items_(n / n_members), rest_(lane_items_ * n_members) {}
  // `index` never falls from call to call.
  Range at(int64_t index);

 private:
  const int64_t n_, n_lanes_, lane_items_;
  int64_t index_ = 0;            // shares laid out so far
  int64_t lane_ = 0, done_ = 0;  // the next one's lane, and what of the lane lies before it
  int64_t rest_;                 // the first item behind all lanes that is left
  Range share_{0, 0};
};

// Room of one member.
struct PanelScratch {
  float* row = nullptr;             // x̂ of one row, K floats and padding
  Quantised own[kWidths];           // for launches of at most kOwnElements
  std::byte* slice = nullptr;       // 2·kPairsInL1 panels of kSliceCols columns, a byte a code
  float* slice_scales = nullptr;    // [2·kPairsInL1][kSliceCols / 16][16]
  float* slice_lows = nullptr;      // the same
  int32_t* slice_starts = nullptr;  // the same: what groups of signed codes begin with
  float* values = nullptr;          // [2][kFloatSliceCols][16]
  float* totals = nullptr;          // [kPairsAtOnce][rows at once][2][16], as binary32 twice that
  float* waste = nullptr;           // a block of rows of the same
};
PanelScratch scratch_of(const PanelProblem& p, const Member& member);

}  // namespace flare::kernel::linear
