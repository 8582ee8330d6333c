// Segments as panels, and where a launch's workspace keeps what.
#include "kernel/cpu/linear/panels.h"

#include <algorithm>

#include "base/cpu.h"
#include "kernel/cpu/linear/linear.h"

namespace flare::kernel {
namespace linear {
namespace {

constexpr int64_t kMostBlockRows = 16;  // of x, in any level's kernel
constexpr int64_t kBlockCols = 128;     // rows of panels are padded to multiples of this
// Rows a power of two apart would throw each other out of L1.
constexpr int64_t kStridePadding = 64;

// Hands out aligned pieces of a block of memory that may not be there yet.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  template <typename T>
  T* take(int64_t count) {
    std::byte* at = base_ + bytes_;
    bytes_ += align_up(count * static_cast<int64_t>(sizeof(T)), kLine);
    return reinterpret_cast<T*>(at);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
};

Quantised carve_quantised(Carver& carver, int64_t rows, int64_t k, int width) {
  Quantised q;
  q.group = kGroupWidths[width];
  q.sum_bits = kSumBits[width];
  q.groups = align_up(k, kBlockCols) / q.group;
  q.stride = align_up(q.groups * q.group, kLine) + kStridePadding;
  q.codes = carver.take<int8_t>(rows * q.stride);
  q.scales = carver.take<float>(rows * q.groups);
  q.neg_sums = carver.take<int32_t>(rows * q.groups);
  q.neg_scaled = carver.take<float>(rows * q.groups);
  if (rows <= kAmxStreamRows) return q;
  q.columns_stride = align_up(rows, kMostBlockRows);
  q.scale_columns = carver.take<float>(q.groups * q.columns_stride);
  q.neg_scaled_columns = carver.take<float>(q.groups * q.columns_stride);
  return q;
}

void carve_shared(Carver& carver, PanelProblem& p) {
  if (!p.is_int8) {
    p.rows_stride = align_up(p.padded_k, kLine / 4) + kLine / 4;
    p.rows = carver.take<float>(p.problem.n_rows * p.rows_stride);
    return;
  }
  for (int w = 0; w < kWidths; ++w)
    if (p.is_wanted[w]) p.shared[w] = carve_quantised(carver, p.problem.n_rows, p.problem.k, w);
}

// In whole blocks of rows: a block reads totals of rows that are not there.
int64_t totals_rows(const PanelProblem& p) {
  return kPairsAtOnce * align_up(std::min(kRowsAtOnce, p.problem.n_rows), kMostBlockRows) +
         kMostBlockRows;
}

PanelScratch carve_scratch(Carver& carver, const PanelProblem& p) {
  PanelScratch s;
  const int64_t k = p.problem.k;
  if (!p.is_int8) {
    s.values = carver.take<float>(2 * kPanelRows * kFloatSliceCols);
    s.totals = carver.take<float>(totals_rows(p) * 4 * kPanelRows);
    return s;
  }
  s.row = carver.take<float>(p.padded_k);
  const int64_t own_rows = std::min(p.problem.n_rows, kOwnElements / k);
  for (int w = 0; w < kWidths; ++w)
    if (p.is_wanted[w]) s.own[w] = carve_quantised(carver, own_rows, k, w);
  if (p.problem.n_rows <= kAmxStreamRows) return s;
  s.slice = carver.take<std::byte>(2 * kPairsInL1 * kPanelRows * kSliceCols);
  s.slice_scales = carver.take<float>(2 * kPairsInL1 * kPanelRows * kSliceCols / 16);
  s.slice_lows = carver.take<float>(2 * kPairsInL1 * kPanelRows * kSliceCols / 16);
  s.slice_starts = carver.take<int32_t>(2 * kPairsInL1 * kPanelRows * kSliceCols / 16);
  s.totals = carver.take<float>(totals_rows(p) * 2 * kPanelRows);
  s.waste = carver.take<float>(kMostBlockRows * 2 * kPanelRows);
  return s;
}

int64_t scratch_bytes(const PanelProblem& p) {
  Carver carver(nullptr);
  carve_scratch(carver, p);
  return carver.bytes();
}

void add_segments(const codec::Matrix& weight, PanelProblem& p) {
  int64_t output = 0;
  for (const codec::Segment& from : weight.segments) {
    PanelSegment& to = p.segments[p.n_segments++];
    to.format = from.format;
    to.shape = codec::panel_shape(from.format, from.geometry.cols);
    to.panels = from.object + from.row_begin / codec::kPanelRows * to.shape.bytes;
    to.rows = static_cast<int64_t>(from.rows());
    to.n_panels = static_cast<int64_t>(codec::n_panels(from.rows()));
    to.output = output;
    output += to.rows;
    p.n_panels += to.n_panels;
    p.is_wanted[width_index(to.shape.group_cols)] = true;
  }
}

// Intel's prefetchers stop at the end of a page of 4 KiB and 20 lines ahead, so that one stream
// leaves a core a quarter below what two read (measured: bench/README.md).
bool reads_in_pairs() {
  static const bool is_intel = is_intel_cpu();
  return is_intel;
}

}  // namespace

int width_index(uint64_t group_cols) {
  for (int w = 0; w < kWidths; ++w)
    if (kGroupWidths[w] == static_cast<int64_t>(group_cols)) return w;
  return 0;  // panels have no other
}

PanelProblem panel_problem(const LaunchArgs& args, bool is_int8) {
  PanelProblem p;
  p.is_int8 = is_int8;
  p.is_paired = reads_in_pairs();
  p.problem = problem_of(args);
  add_segments(*args.operands[1].weight, p);
  p.padded_k = static_cast<int64_t>(p.segments[0].shape.blocks * p.segments[0].shape.block_cols);
  Carver carver(p.problem.workspace);
  carve_shared(carver, p);
  p.shared_bytes = carver.bytes();
  return p;
}

PanelRef panel_at(const PanelProblem& p, int64_t i) {
  const PanelSegment* s = p.segments;
  while (i >= s->n_panels) i -= (s++)->n_panels;
  const int64_t first = i * kPanelRows;
  return {s, s->panels + i * static_cast<int64_t>(s->shape.bytes), s->output + first,
          std::min(kPanelRows, s->rows - first)};
}

Range Shares::at(int64_t index) {
  for (; index_ <= index; ++index_) {
    if (done_ == lane_items_) {
      share_ = {std::min(rest_, n_), std::min(rest_ + 1, n_)};
      ++rest_;
      continue;
    }
    const int64_t begin = lane_ * lane_items_ + done_;
    const int64_t items = std::max<int64_t>(1, (lane_items_ - done_) * 3 / 4);
    share_ = {begin, begin + items};
    if (++lane_ < n_lanes_) continue;
    lane_ = 0;
    done_ += items;
  }
  return share_;
}

PanelScratch scratch_of(const PanelProblem& p, const Member& member) {
  Carver carver(p.problem.workspace + p.shared_bytes + scratch_bytes(p) * member.index());
  return carve_scratch(carver, p);
}

}  // namespace linear

namespace {

uint64_t workspace_bytes(const linear::PanelProblem& p, int n_members) {
  return static_cast<uint64_t>(p.shared_bytes + linear::scratch_bytes(p) * n_members);
}

}  // namespace

uint64_t linear_panels_workspace(const LaunchArgs& at_capacity, int n_members) {
  return workspace_bytes(linear::panel_problem(at_capacity, /*is_int8=*/true), n_members);
}

uint64_t linear_panel_floats_workspace(const LaunchArgs& at_capacity, int n_members) {
  return workspace_bytes(linear::panel_problem(at_capacity, /*is_int8=*/false), n_members);
}

}  // namespace flare::kernel
