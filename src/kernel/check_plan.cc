// One table says what every op takes; one function per shape rule says how widths relate.
#include "kernel/check_plan.h"

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/checked.h"
#include "base/error.h"
#include "codec/panels.h"
#include "kernel/kernels.h"
#include "kernel/linear.h"

namespace flare::kernel {
namespace {

using graph::DType;
using graph::Op;
using graph::Operand;
using graph::Space;

// What an operand may be.
enum class Kind : uint8_t {
  kValue,     // f32 in the arena, or an f32 input or output
  kMaybe,     // such a value, or absent
  kWeight,    // a matrix
  kConst,     // an f32 table
  kOptional,  // an f32 table, or absent
  kColumns,   // an i32 table
  kIndices,   // i32 input or output
  kParams,    // sampling parameters
  kPage,      // f32, bf16 or fp8_e4m3 region
  kRow,       // f32 field
};
std::string_view kind_text(Kind kind) {
  constexpr std::string_view kText[] = {
      "an f32 value",     "an f32 value or nothing",    "a weight",
      "an f32 constant",  "an f32 constant or nothing", "an i32 constant",
      "i32 step indices", "sampling parameters",        "an f32, bf16 or fp8_e4m3 page region",
      "an f32 row field"};
  return kText[static_cast<int>(kind)];
}

struct OpRule {
  Op op;
  uint32_t n_immediates;
  uint32_t n_operands;
  std::array<Kind, kMaxOperands> kinds;
};
constexpr OpRule kRules[] = {
    {Op::kEmbed, 1, 3, {Kind::kIndices, Kind::kWeight, Kind::kValue}},
    {Op::kLinear,
     kLinearImmediates,
     kLinearOperands,
     {Kind::kValue, Kind::kWeight, Kind::kOptional, Kind::kValue, Kind::kOptional, Kind::kMaybe,
      Kind::kMaybe}},
    {Op::kRmsNorm, 2, 3, {Kind::kValue, Kind::kConst, Kind::kValue}},
    {Op::kAdd, 0, 3, {Kind::kValue, Kind::kValue, Kind::kValue}},
    {Op::kSwiglu, 0, 3, {Kind::kValue, Kind::kValue, Kind::kValue}},
    {Op::kGateMul, 0, 3, {Kind::kValue, Kind::kValue, Kind::kValue}},
    {Op::kRope, 4, 4, {Kind::kValue, Kind::kConst, Kind::kIndices, Kind::kValue}},
    {Op::kKvWrite, 1, 4, {Kind::kValue, Kind::kValue, Kind::kPage, Kind::kPage}},
    {Op::kAttention, 5, 5, {Kind::kValue, Kind::kPage, Kind::kPage, Kind::kOptional, Kind::kValue}},
    {Op::kConvCausal, 1, 4, {Kind::kValue, Kind::kConst, Kind::kRow, Kind::kValue}},
    {Op::kGatedDelta,
     4,
     9,
     {Kind::kValue, Kind::kValue, Kind::kValue, Kind::kConst, Kind::kConst, Kind::kConst,
      Kind::kRow, Kind::kRow, Kind::kValue}},
    {Op::kGatedNorm, 1, 4, {Kind::kValue, Kind::kValue, Kind::kConst, Kind::kValue}},
    {Op::kGatherRows, 0, 3, {Kind::kValue, Kind::kIndices, Kind::kValue}},
    {Op::kTap, 0, 2, {Kind::kValue, Kind::kValue}},
    {Op::kSample, 0, 3, {Kind::kValue, Kind::kParams, Kind::kIndices}},
    {Op::kAttentionInput,
     7,
     10,
     {Kind::kValue, Kind::kValue, Kind::kValue, Kind::kPage, Kind::kPage, Kind::kOptional,
      Kind::kOptional, Kind::kConst, Kind::kIndices, Kind::kValue}},
    {Op::kGatedDeltaVerify,
     4,
     10,
     {Kind::kValue, Kind::kValue, Kind::kValue, Kind::kConst, Kind::kConst, Kind::kConst,
      Kind::kRow, Kind::kRow, Kind::kValue, Kind::kValue}},
    {Op::kGatedDeltaCommit,
     5,
     5,
     {Kind::kValue, Kind::kValue, Kind::kIndices, Kind::kRow, Kind::kRow}},
    {Op::kGatherColumns, 0, 3, {Kind::kValue, Kind::kColumns, Kind::kValue}},
    {Op::kGeglu, 0, 3, {Kind::kValue, Kind::kValue, Kind::kValue}},
    {Op::kNormAdd, 2, 4, {Kind::kValue, Kind::kConst, Kind::kValue, Kind::kValue}},
};
constexpr bool rules_in_order() {
  if (std::size(kRules) != graph::kOps) return false;
  for (int i = 0; i < graph::kOps; ++i)
    if (static_cast<int>(kRules[i].op) != i) return false;
  return true;
}
static_assert(rules_in_order());

DType io_dtype(uint32_t index) {
  switch (static_cast<graph::Io>(index)) {
    case graph::Io::kTokenIds:
    case graph::Io::kPositions:
    case graph::Io::kLogitsRows:
    case graph::Io::kSampled:
    case graph::Io::kAccepted:
      return DType::kI32;
    case graph::Io::kSampling:
      return DType::kU8;
    default:
      return DType::kF32;
  }
}

class LaunchCheck {
 public:
  LaunchCheck(const graph::Plan& plan, const PlanBindings& bindings, size_t index)
      : plan_(plan), bindings_(bindings), launch_(plan.launches[index]), index_(index) {}

  void run() {
    if (launch_.kernel >= kKernels)
      fail("kernel id " + std::to_string(launch_.kernel) + " is unknown, below " +
           std::to_string(kKernels) + " expected");
    const Op op = kernel_info(static_cast<KernelId>(launch_.kernel)).op;
    const OpRule& rule = kRules[static_cast<int>(op)];
    if (launch_.n_operands != rule.n_operands)
      fail(std::to_string(launch_.n_operands) + " operands, " + std::to_string(rule.n_operands) +
           " expected");
    if (launch_.n_immediates != rule.n_immediates)
      fail(std::to_string(launch_.n_immediates) + " immediates, " +
           std::to_string(rule.n_immediates) + " expected");
    operands_ = std::span(plan_.operands)
                    .subspan(checked_range(launch_.first_operand, launch_.n_operands,
                                           plan_.operands.size(), "operands"),
                             launch_.n_operands);
    immediates_ = std::span(plan_.immediates)
                      .subspan(checked_range(launch_.first_immediate, launch_.n_immediates,
                                             plan_.immediates.size(), "immediates"),
                               launch_.n_immediates);
    for (uint32_t i = 0; i < rule.n_operands; ++i) check_operand(i, rule.kinds[i]);
    check_shapes(op);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Code::kInvalid, "plan '{}': launch {} ({}): {}", plan_.role, index_,
                kernel_name(launch_.kernel), what);
  }
  [[noreturn]] void fail_operand(uint32_t i, const std::string& what) const {
    fail("operand " + std::to_string(i) + " " + what);
  }
  size_t checked_range(uint32_t first, uint32_t n, size_t size, std::string_view what) const {
    if (first > size || n > size - first)
      fail(std::string(what) + " [" + std::to_string(first) + ", +" + std::to_string(n) +
           ") leave the " + std::to_string(size) + " of the plan");
    return first;
  }

  void check_operand(uint32_t i, Kind kind) const {
    const Operand& o = operands_[i];
    if (!is_kind(o, kind))
      fail_operand(i, "is " + std::string(graph::dtype_name(o.dtype)) + " of space '" +
                          std::string(graph::space_name(o.space)) + "', " +
                          std::string(kind_text(kind)) + " expected");
    if (o.space == Space::kWeight && o.index >= bindings_.weights.size())
      fail_operand(i, "names weight " + std::to_string(o.index) + " of " +
                          std::to_string(bindings_.weights.size()));
    if (o.space == Space::kConst) check_constant(i, o);
    if (o.space == Space::kIo) check_io(i, o);
    if (o.space == Space::kArena) check_arena(i, o);
    if ((o.space == Space::kPage || o.space == Space::kRow) &&
        o.offset % graph::dtype_bytes(o.dtype) != 0)
      fail_operand(i, "has offset " + std::to_string(o.offset) + ", a multiple of " +
                          std::to_string(graph::dtype_bytes(o.dtype)) + " expected");
  }

  static bool is_kind(const Operand& o, Kind kind) {
    switch (kind) {
      case Kind::kValue:
        return (o.space == Space::kArena || o.space == Space::kIo) && o.dtype == DType::kF32;
      case Kind::kMaybe:
        return o.space == Space::kNone || is_kind(o, Kind::kValue);
      case Kind::kWeight:
        return o.space == Space::kWeight;
      case Kind::kConst:
        return o.space == Space::kConst && o.dtype == DType::kF32;
      case Kind::kOptional:
        return o.space == Space::kNone || is_kind(o, Kind::kConst);
      case Kind::kColumns:
        return o.space == Space::kConst && o.dtype == DType::kI32;
      case Kind::kIndices:
        return o.space == Space::kIo && o.dtype == DType::kI32;
      case Kind::kParams:
        return o.space == Space::kIo && o.dtype == DType::kU8;
      case Kind::kPage:
        return o.space == Space::kPage &&
               (o.dtype == DType::kF32 || o.dtype == DType::kBf16 || o.dtype == DType::kF8E4M3);
      case Kind::kRow:
        return o.space == Space::kRow && o.dtype == DType::kF32;
    }
    return false;
  }

  void check_constant(uint32_t i, const Operand& o) const {
    if (o.index >= bindings_.constants.size())
      fail_operand(i, "names constant " + std::to_string(o.index) + " of " +
                          std::to_string(bindings_.constants.size()));
    const Constant& c = bindings_.constants[o.index];
    if (c.rows < 1 || c.cols < 1 || (!c.values.empty() && !c.indices.empty()) ||
        c.elements() !=
            checked_mul(static_cast<uint64_t>(c.rows), static_cast<uint64_t>(c.cols), "constant"))
      fail_operand(i, "names a constant of " + std::to_string(c.elements()) + " values, " +
                          std::to_string(c.rows) + " × " + std::to_string(c.cols) + " expected");
    if (c.dtype() != o.dtype)
      fail_operand(i, "names a constant of " + std::string(graph::dtype_name(c.dtype())) + ", " +
                          std::string(graph::dtype_name(o.dtype)) + " expected");
  }

  void check_io(uint32_t i, const Operand& o) const {
    const uint64_t known = static_cast<uint64_t>(graph::Io::kTaps) + plan_.taps.size();
    if (o.index >= known)
      fail_operand(i, "names input or output " + std::to_string(o.index) + ", below " +
                          std::to_string(known) + " expected");
    if (o.dtype != io_dtype(o.index))
      fail_operand(i, "is " + std::string(graph::dtype_name(o.dtype)) + ", " +
                          std::string(graph::dtype_name(io_dtype(o.index))) + " expected");
    if (o.cols == 0) fail_operand(i, "has no columns");
  }

  void check_arena(uint32_t i, const Operand& o) const {
    const uint64_t rows = static_cast<uint64_t>(rows_of(o.extent, plan_.capacity));
    if (o.cols == 0) fail_operand(i, "has no columns");
    if (o.stride < o.cols)
      fail_operand(i, "has stride " + std::to_string(o.stride) + ", at least its " +
                          std::to_string(o.cols) + " columns expected");
    if (o.offset % sizeof(float) != 0)
      fail_operand(i, "has offset " + std::to_string(o.offset) + ", a multiple of 4 expected");
    if (rows == 0) return;
    const uint64_t elements = (rows - 1) * o.stride + o.cols;  // 31 + 32 bits
    if (o.offset > plan_.arena_bytes || elements > (plan_.arena_bytes - o.offset) / sizeof(float))
      fail_operand(i, "takes " + std::to_string(elements * sizeof(float)) + " bytes at " +
                          std::to_string(o.offset) + ", which leaves the arena of " +
                          std::to_string(plan_.arena_bytes));
  }

  uint64_t cols(uint32_t i) const {
    const Operand& o = operands_[i];
    if (o.space == Space::kWeight) return bindings_.weights[o.index].cols;
    if (o.space == Space::kConst) return static_cast<uint64_t>(bindings_.constants[o.index].cols);
    return o.cols;
  }
  void want_cols(uint32_t i, uint64_t expected) const {
    if (cols(i) != expected)
      fail_operand(i, "has " + std::to_string(cols(i)) + " columns, " + std::to_string(expected) +
                          " expected");
  }
  // Column count and row extent of operand a.
  void want_like(uint32_t i, uint32_t a) const {
    want_cols(i, cols(a));
    want_extent(i, operands_[a].extent);
  }
  void want_extent(uint32_t i, graph::Extent extent) const {
    if (operands_[i].extent != extent)
      fail_operand(i, "has rows '" + std::string(graph::extent_name(operands_[i].extent)) + "', '" +
                          std::string(graph::extent_name(extent)) + "' expected");
  }
  void want_io(uint32_t i, graph::Io io) const {
    if (operands_[i].index != static_cast<uint32_t>(io))
      fail_operand(i, "is input or output " + std::to_string(operands_[i].index) + ", " +
                          std::to_string(static_cast<uint32_t>(io)) + " expected");
  }
  // Operand i is n equal parts, n > 0.
  uint64_t part(uint32_t i, uint64_t n) const {
    if (n == 0 || cols(i) % n != 0 || cols(i) == 0)
      fail_operand(i, "has " + std::to_string(cols(i)) + " columns, a multiple of " +
                          std::to_string(n) + " expected");
    return cols(i) / n;
  }
  void want_apart(uint32_t a, uint32_t b) const {
    if (operands_[a].space == Space::kArena && operands_[b].space == Space::kArena &&
        operands_[a].offset == operands_[b].offset)
      fail_operand(b, "has the place of operand " + std::to_string(a) + ", another one expected");
  }
  // A count among the immediates, 1 … 2^24.
  uint64_t count(uint32_t i) const {
    const int64_t v = immediates_[i].i;
    if (v < 1 || v > (1 << 24))
      fail("immediate " + std::to_string(i) + " is " + std::to_string(v) +
           ", 1 to 16777216 expected");
    return static_cast<uint64_t>(v);
  }
  void want_weight_rows(uint32_t i, uint64_t n) const {
    const uint64_t rows = bindings_.weights[operands_[i].index].rows;
    if (rows != n)
      fail_operand(i, "has " + std::to_string(rows) + " rows, " + std::to_string(n) + " expected");
  }

  void check_shapes(Op op) const {
    switch (op) {
      case Op::kEmbed:
        want_io(0, graph::Io::kTokenIds);
        want_cols(2, cols(1));
        want_extent(2, graph::Extent::kRows);
        return;
      case Op::kLinear:
        return check_linear();
      case Op::kRmsNorm:
        part(0, cols(1));
        return want_like(2, 0);
      case Op::kAdd:
      case Op::kSwiglu:
      case Op::kGeglu:
      case Op::kGateMul:
        want_like(1, 0);
        return want_like(2, 0);
      case Op::kRope:
        return check_rope();
      case Op::kKvWrite:
        part(0, count(0));
        part(1, count(0));
        want_extent(0, graph::Extent::kRows);
        want_extent(1, graph::Extent::kRows);
        want_cols(2, cols(0));
        return want_cols(3, cols(1));
      case Op::kAttention:
        return check_attention();
      case Op::kConvCausal:
        want_extent(0, graph::Extent::kRows);
        want_cols(1, cols(0));
        want_like(3, 0);
        return want_apart(0, 3);
      case Op::kGatedDelta:
        return check_gated_delta();
      case Op::kGatedDeltaVerify:
        check_gated_delta();
        want_cols(9, cols(0) - count(0) * count(1) + count(2));
        want_extent(9, graph::Extent::kRows);
        for (uint32_t i : {0, 1, 2, 8}) want_apart(i, 9);
        return;
      case Op::kGatedDeltaCommit:
        want_io(2, graph::Io::kAccepted);
        want_cols(0, delta_cols());
        want_cols(1, cols(0) - count(0) * count(1) + count(2));
        want_cols(3, (count(4) - 1) * cols(0));
        return want_cols(4, count(2) * count(1) * count(3));
      case Op::kGatedNorm:
        part(0, cols(2));
        want_like(1, 0);
        return want_like(3, 0);
      case Op::kGatherRows:
        want_io(1, graph::Io::kLogitsRows);
        want_cols(2, cols(0));
        want_extent(0, graph::Extent::kRows);
        want_extent(2, graph::Extent::kLogits);
        return want_apart(0, 2);
      case Op::kTap:
        if (operands_[1].space != Space::kIo ||
            operands_[1].index < static_cast<uint32_t>(graph::Io::kTaps))
          fail_operand(1, "is no tap");
        return want_like(1, 0);
      case Op::kSample:
        want_io(0, graph::Io::kLogits);
        want_io(1, graph::Io::kSampling);
        want_io(2, graph::Io::kSampled);
        return want_extent(0, graph::Extent::kLogits);
      case Op::kAttentionInput:
        return check_attention_input();
      case Op::kGatherColumns:
        return check_gather_columns();
      case Op::kNormAdd:
        want_cols(1, cols(0));
        want_like(2, 0);
        return want_like(3, 0);
    }
  }

  bool is_there(uint32_t i) const { return operands_[i].space != Space::kNone; }
  void want_there(uint32_t i, bool expected) const {
    if (is_there(i) != expected)
      fail_operand(i, expected ? "is absent, one expected" : "is there, nothing expected");
  }
  // An immediate among 0 … most.
  int64_t choice(uint32_t i, int64_t most) const {
    const int64_t v = immediates_[i].i;
    if (v < 0 || v > most)
      fail("immediate " + std::to_string(i) + " is " + std::to_string(v) + ", 0 to " +
           std::to_string(most) + " expected");
    return v;
  }

  // Every segment in panels that begin and end with it; whole ones where two halves meet.
  void check_panels(bool halves) const {
    const std::vector<codec::Segment>& segments = bindings_.weights[operands_[1].index].segments;
    if (halves) part(3, codec::kPanelRows);
    if (segments.size() > kMaxPanelSegments)
      fail_operand(1, "has " + std::to_string(segments.size()) + " segments, at most " +
                          std::to_string(kMaxPanelSegments) + " expected");
    for (const codec::Segment& s : segments) {
      const bool is_whole = s.row_end % codec::kPanelRows == 0;
      if (s.layout != codec::LayoutId::kPanels16 || s.row_begin % codec::kPanelRows != 0 ||
          (!is_whole && (halves || s.row_end != s.geometry.rows)))
        fail_operand(1, "has rows " + std::to_string(s.row_begin) + " to " +
                            std::to_string(s.row_end) + " that are not panels of 16");
    }
  }

  void check_linear() const {
    choice(0, static_cast<int64_t>(graph::Policy::kAllowA4));
    const auto in = static_cast<LinearInput>(choice(1, 3));
    const auto out = static_cast<LinearOutput>(choice(2, 2));
    choice(4, 1);
    want_cols(1, cols(0));
    const uint64_t n = takes_halves(out) ? 2 * cols(3) : cols(3);
    want_weight_rows(1, n);
    if (is_there(2)) want_cols(2, n);
    want_extent(3, operands_[0].extent);
    want_apart(0, 3);
    want_there(4, in == LinearInput::kRmsNorm || in == LinearInput::kGatedNorm);
    if (in == LinearInput::kRmsNorm) want_cols(4, cols(0));
    if (in == LinearInput::kGatedNorm) part(0, cols(4));
    want_there(5, in == LinearInput::kGateMul || in == LinearInput::kGatedNorm);
    if (is_there(5)) {
      want_like(5, 0);
      want_apart(5, 3);
    }
    if (takes_halves(out)) want_there(6, false);
    if (is_there(6)) want_like(6, 3);
    if (reads_panels(static_cast<KernelId>(launch_.kernel))) check_panels(takes_halves(out));
  }

  void check_rope() const {
    const uint64_t width = count(0);
    part(0, 1);
    if (cols(0) % width != 0)
      fail_operand(0, "has " + std::to_string(cols(0)) + " columns, heads of width " +
                          std::to_string(width) + " expected");
    if (2 * cols(1) > width)
      fail_operand(1, "has " + std::to_string(cols(1)) + " frequencies, at most " +
                          std::to_string(width / 2) + " expected");
    want_io(2, graph::Io::kPositions);
    want_extent(0, graph::Extent::kRows);
    want_like(3, 0);
  }

  // Every number is that of a column of operand 0.
  void check_gather_columns() const {
    want_cols(2, cols(1));
    want_extent(2, operands_[0].extent);
    want_apart(0, 2);
    const Constant& columns = bindings_.constants[operands_[1].index];
    if (columns.rows != 1)
      fail_operand(1, "has " + std::to_string(columns.rows) + " rows, 1 expected");
    for (const int32_t c : columns.indices)
      if (c < 0 || static_cast<uint64_t>(c) >= cols(0))
        fail_operand(1, "holds column " + std::to_string(c) + ", 0 to " +
                            std::to_string(cols(0) - 1) + " expected");
  }

  void check_attention_input() const {
    const uint64_t nkv = count(0);
    const uint64_t width = count(1);
    choice(6, 1);
    if (part(0, 1) % width != 0)
      fail_operand(0, "has " + std::to_string(cols(0)) + " columns, heads of width " +
                          std::to_string(width) + " expected");
    want_cols(1, nkv * width);
    part(2, nkv);
    for (const uint32_t i : {0u, 1u, 2u}) want_extent(i, graph::Extent::kRows);
    want_cols(3, cols(1));
    want_cols(4, cols(2));
    for (const uint32_t i : {5u, 6u})
      if (is_there(i)) want_cols(i, width);
    if (2 * cols(7) > width)
      fail_operand(7, "has " + std::to_string(cols(7)) + " frequencies, at most " +
                          std::to_string(width / 2) + " expected");
    want_io(8, graph::Io::kPositions);
    want_like(9, 0);
    want_apart(1, 9);
    want_apart(2, 9);
  }

  void check_attention() const {
    const uint64_t nq = count(0);
    const uint64_t nkv = count(1);
    if (nq % nkv != 0)
      fail("immediate 0 is " + std::to_string(nq) + ", a multiple of the " + std::to_string(nkv) +
           " KV heads expected");
    if (immediates_[3].i < 0)
      fail("immediate 3 is " + std::to_string(immediates_[3].i) + ", a window >= 0 expected");
    if (!(immediates_[4].r >= 0 && immediates_[4].r <= 1e6))
      fail("immediate 4 is " + std::to_string(immediates_[4].r) + ", a softcap 0 to 1e6 expected");
    want_extent(0, graph::Extent::kRows);
    want_extent(4, graph::Extent::kRows);
    want_cols(1, part(0, nq) * nkv);
    want_cols(2, part(4, nq) * nkv);
    if (operands_[3].space != Space::kNone) want_cols(3, nq);
    want_apart(0, 4);
  }

  // Queries, keys and values of all heads of a gated delta rule.
  uint64_t delta_cols() const {
    const uint64_t nk = count(0);
    const uint64_t nv = count(2);
    if (nv % nk != 0)
      fail("immediate 2 is " + std::to_string(nv) + ", a multiple of the " + std::to_string(nk) +
           " K heads expected");
    return 2 * nk * count(1) + nv * count(3);
  }

  void check_gated_delta() const {
    for (uint32_t i : {0, 1, 2, 8}) want_extent(i, graph::Extent::kRows);
    want_cols(0, delta_cols());
    want_cols(3, cols(0));
    for (uint32_t i : {1, 2, 4, 5}) want_cols(i, count(2));
    want_cols(6, (bindings_.constants[operands_[3].index].rows - 1) * cols(0));
    want_cols(7, count(2) * count(1) * count(3));
    want_cols(8, count(2) * count(3));
    for (uint32_t i : {0, 1, 2}) want_apart(i, 8);
  }

  const graph::Plan& plan_;
  const PlanBindings& bindings_;
  const graph::Launch& launch_;
  const size_t index_;
  std::span<const Operand> operands_;
  std::span<const graph::Immediate> immediates_;
};

}  // namespace

int64_t rows_of(graph::Extent extent, const graph::PlanCapacity& capacity) {
  switch (extent) {
    case graph::Extent::kRows:
      return capacity.rows;
    case graph::Extent::kLogits:
      return capacity.logits;
    case graph::Extent::kOne:
      return 1;
  }
  return 0;
}

void check_plan(const graph::Plan& plan, const PlanBindings& bindings) {
  const graph::PlanCapacity& c = plan.capacity;
  if (c.rows < 0 || c.sequences < 0 || c.logits < 0)
    throw Error(Code::kInvalid,
                "plan '{}': capacity of {} rows, {} sequences, {} logits rows, none negative "
                "expected",
                plan.role, c.rows, c.sequences, c.logits);
  for (size_t i = 0; i < plan.launches.size(); ++i) LaunchCheck(plan, bindings, i).run();
}

}  // namespace flare::kernel
