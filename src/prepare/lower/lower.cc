// Lowering: one launch per node, arena offsets by first fit over live intervals.
#include "prepare/lower/lower.h"

#include <algorithm>

#include "base/checked.h"
#include "kernel/kernels.h"

namespace flare::prepare {
namespace {

using graph::NodeOperand;
using graph::Operand;
using graph::Space;

// Offsets and row strides keep cache lines apart between values.
constexpr uint64_t kAlignment = 64;

kernel::KernelId kernel_of(const graph::Node& node, std::span<const codec::Matrix> weights) {
  using kernel::KernelId;
  switch (node.op) {
    case graph::Op::kLinear:
      return kernel::route_linear(weights[node.operands[1].index], node.policy);
    case graph::Op::kEmbed:
      return KernelId::kEmbed;
    case graph::Op::kRmsNorm:
      return KernelId::kRmsNorm;
    case graph::Op::kAdd:
      return KernelId::kAdd;
    case graph::Op::kSwiglu:
      return KernelId::kSwiglu;
    case graph::Op::kGateMul:
      return KernelId::kGateMul;
    case graph::Op::kRope:
      return KernelId::kRope;
    case graph::Op::kKvWrite:
      return KernelId::kKvWrite;
    case graph::Op::kAttention:
      return KernelId::kAttention;
    case graph::Op::kConvCausal:
      return KernelId::kConvCausal;
    case graph::Op::kGatedDelta:
      return KernelId::kGatedDelta;
    case graph::Op::kGatedNorm:
      return KernelId::kGatedNorm;
    case graph::Op::kGatherRows:
      return KernelId::kGatherRows;
    case graph::Op::kTap:
      return KernelId::kTap;
    case graph::Op::kSample:
      return KernelId::kSample;
    case graph::Op::kAttentionInput:
      return KernelId::kAttentionInput;
    case graph::Op::kGatedDeltaVerify:
      return KernelId::kGatedDeltaVerify;
    case graph::Op::kGatedDeltaCommit:
      return KernelId::kGatedDeltaCommit;
    case graph::Op::kGatherColumns:
      return KernelId::kGatherColumns;
    case graph::Op::kGeglu:
      return KernelId::kGeglu;
    case graph::Op::kNormAdd:
      return KernelId::kNormAdd;
  }
  FLARE_ASSERT(false);
}

// Arena offsets of values: a value lives from the first node that writes it to the last that
// touches it; offsets go to the lowest gap that is free for that whole time.
class Arena {
 public:
  Arena(const graph::Graph& graph, const graph::PlanCapacity& capacity);
  uint64_t offset(int32_t value) const { return slots_[value].offset; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Slot {
    int first = -1, last = -1;
    uint64_t offset = 0, bytes = 0;
  };
  void place(Slot& slot, std::vector<Slot>& placed);
  std::vector<Slot> slots_;
  uint64_t bytes_ = 0;
};

Arena::Arena(const graph::Graph& graph, const graph::PlanCapacity& capacity)
    : slots_(graph.values.size()) {
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    for (const NodeOperand& o : graph.nodes[n].operands) {
      if (o.kind != NodeOperand::Kind::kInput && o.kind != NodeOperand::Kind::kOutput) continue;
      Slot& slot = slots_[o.value.id];
      if (slot.first < 0) slot.first = n;
      slot.last = n;
    }
  std::vector<int32_t> order;
  for (size_t v = 0; v < slots_.size(); ++v) {
    const graph::ValueInfo& info = graph.values[v];
    const uint64_t rows = info.extent == graph::Extent::kLogits
                              ? static_cast<uint64_t>(capacity.logits)
                              : static_cast<uint64_t>(capacity.rows);
    slots_[v].bytes =
        checked_align_up(checked_mul(checked_mul(rows, info.cols, "arena"), sizeof(float), "arena"),
                         kAlignment, "arena");
    if (slots_[v].first >= 0) order.push_back(static_cast<int32_t>(v));
  }
  std::ranges::sort(order, {}, [&](int32_t v) { return slots_[v].first; });
  std::vector<Slot> placed;
  for (int32_t v : order) place(slots_[v], placed);
}

void Arena::place(Slot& slot, std::vector<Slot>& placed) {
  std::vector<std::pair<uint64_t, uint64_t>> busy;
  for (const Slot& other : placed)
    if (other.first <= slot.last && slot.first <= other.last)
      busy.emplace_back(other.offset, other.offset + other.bytes);
  std::ranges::sort(busy);
  uint64_t at = 0;
  for (const auto& [begin, end] : busy) {
    if (checked_add(at, slot.bytes, "arena") <= begin) break;
    at = std::max(at, end);
  }
  slot.offset = at;
  bytes_ = std::max(bytes_, checked_add(at, slot.bytes, "arena"));
  placed.push_back(slot);
}

struct Lowering {
  const graph::Graph& graph;
  const StateLayout& states;
  std::span<const codec::Matrix> weights;
  uint32_t vocab;
  Arena arena;

  Operand value_operand(graph::Value v) const {
    const graph::ValueInfo& info = graph.values[v.id];
    return {Space::kArena,
            graph::DType::kF32,
            info.extent,
            0,
            arena.offset(v.id) + uint64_t{v.column} * sizeof(float),
            v.cols,
            info.cols};
  }

  Operand io_operand(const graph::Node& node, int32_t index) const {
    using graph::DType;
    using graph::Extent;
    using graph::Io;
    const auto io = static_cast<uint32_t>(index);
    switch (static_cast<Io>(std::min(io, static_cast<uint32_t>(Io::kTaps)))) {
      case Io::kTokenIds:
        return {Space::kIo, DType::kI32, Extent::kRows, io, 0, 1, 1};
      case Io::kPositions:
        return {Space::kIo, DType::kI32, Extent::kRows, io, 0, 1, 1};
      case Io::kLogitsRows:
        return {Space::kIo, DType::kI32, Extent::kLogits, io, 0, 1, 1};
      case Io::kLogits:
        return {Space::kIo, DType::kF32, Extent::kLogits, io, 0, vocab, vocab};
      case Io::kSampling:
        return {Space::kIo, DType::kU8, Extent::kLogits, io, 0, 1, 1};
      case Io::kSampled:
        return {Space::kIo, DType::kI32, Extent::kLogits, io, 0, 1, 1};
      case Io::kAccepted:
        return {Space::kIo, DType::kI32, Extent::kOne, io, 0, 1, 1};
      case Io::kTaps: {
        const uint32_t cols = node.operands[0].value.cols;
        return {Space::kIo, DType::kF32, Extent::kRows, io, 0, cols, cols};
      }
    }
    return {};
  }

  Operand operand(const graph::Node& node, const NodeOperand& o) const {
    switch (o.kind) {
      case NodeOperand::Kind::kNone:
        return {};
      case NodeOperand::Kind::kInput:
      case NodeOperand::Kind::kOutput:
        return value_operand(o.value);
      case NodeOperand::Kind::kWeight: {
        const auto cols = static_cast<uint32_t>(weights[o.index].cols);
        return {Space::kWeight,
                graph::DType::kU8,
                graph::Extent::kOne,
                static_cast<uint32_t>(o.index),
                0,
                cols,
                cols};
      }
      case NodeOperand::Kind::kConstant:
        return {Space::kConst,
                graph.constant_dtypes[o.index],
                graph::Extent::kOne,
                static_cast<uint32_t>(o.index),
                0,
                0,
                0};
      case NodeOperand::Kind::kState:
        return states.operands[o.index];
      case NodeOperand::Kind::kIo:
        return io_operand(node, o.index);
    }
    return {};
  }
};

}  // namespace

StateLayout lay_out_states(const graph::Graph& graph, uint32_t page_tokens) {
  StateLayout layout;
  layout.page.tokens = page_tokens;
  for (size_t i = 0; i < graph.states.size(); ++i) {
    const graph::StateInfo& s = graph.states[i];
    const uint64_t bytes = checked_mul(s.elements, dtype_bytes(s.dtype), s.name);
    const auto cols = checked_cast<uint32_t>(s.elements, s.name);
    Operand o{Space::kRow, s.dtype, graph::Extent::kOne, static_cast<uint32_t>(i), 0, cols, cols};
    if (s.kind == graph::StateInfo::Kind::kPaged) {
      o.space = Space::kPage;
      o.offset = layout.page.bytes;
      const uint64_t region = checked_mul(bytes, page_tokens, s.name);
      layout.page.regions.push_back({s.name, o.offset, region, s.dtype});
      layout.page.bytes = checked_align_up(checked_add(o.offset, region), kAlignment);
    } else {
      o.offset = layout.row.bytes;
      const auto kind = s.kind == graph::StateInfo::Kind::kRecurrent
                            ? package::RowField::Kind::kRecurrent
                            : package::RowField::Kind::kConvTail;
      layout.row.fields.push_back({s.name, kind, o.offset, bytes, s.dtype});
      layout.row.bytes = checked_align_up(checked_add(o.offset, bytes), kAlignment);
    }
    layout.operands.push_back(o);
  }
  if (layout.page.bytes > 0) {
    layout.row.partial_page = layout.row.bytes;
    layout.row.fields.push_back({"partial_page", package::RowField::Kind::kPartialPage,
                                 layout.row.bytes, layout.page.bytes, graph::DType::kU8});
    layout.row.bytes = checked_add(layout.row.bytes, layout.page.bytes);
  }
  return layout;
}

graph::Plan lower(const graph::Graph& graph, const StateLayout& states,
                  std::span<const codec::Matrix> weights, uint32_t vocab,
                  const graph::PlanCapacity& capacity) {
  const Lowering lowering{graph, states, weights, vocab, Arena(graph, capacity)};
  graph::Plan plan;
  plan.role = graph.role;
  plan.capacity = capacity;
  plan.arena_bytes = lowering.arena.bytes();
  plan.taps = graph.taps;
  for (const graph::Node& node : graph.nodes) {
    graph::Launch launch;
    launch.kernel = static_cast<uint16_t>(kernel_of(node, weights));
    launch.first_operand = static_cast<uint32_t>(plan.operands.size());
    launch.n_operands = static_cast<uint32_t>(node.operands.size());
    launch.first_immediate = static_cast<uint32_t>(plan.immediates.size());
    launch.n_immediates = static_cast<uint32_t>(node.immediates.size());
    for (const NodeOperand& o : node.operands) plan.operands.push_back(lowering.operand(node, o));
    plan.immediates.insert(plan.immediates.end(), node.immediates.begin(), node.immediates.end());
    plan.launches.push_back(launch);
  }
  return plan;
}

}  // namespace flare::prepare
