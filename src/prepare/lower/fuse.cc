// Fusion rules, each a search for one pattern. A rule moves reads and writes to another node's
// place, so it asks that nothing between the two places touches the same columns.
#include "prepare/lower/fuse.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "kernel/linear.h"

namespace flare::prepare {
namespace {

using graph::Node;
using graph::NodeOperand;
using graph::Op;
using graph::Value;
using Kind = graph::NodeOperand::Kind;
using kernel::LinearInput;
using kernel::LinearOutput;

// Operands of linear (kernel/linear.h).
enum LinearOperand { kX, kW, kBias, kY, kNorm, kGate, kResidual };

// Segments of a gated unit's weight end where panels of 16 rows end, so that a kernel finds gate
// and up of 16 outputs in one panel each.
constexpr uint64_t kHalfRows = 16;

bool overlap(Value a, Value b) {
  return a.id == b.id && a.column < b.column + b.cols && b.column < a.column + a.cols;
}
bool same(Value a, Value b) { return a.id == b.id && a.column == b.column && a.cols == b.cols; }
bool same_real(graph::Immediate a, graph::Immediate b) {
  return std::bit_cast<uint64_t>(a.r) == std::bit_cast<uint64_t>(b.r);
}
NodeOperand input(Value v) { return {Kind::kInput, v, 0}; }
NodeOperand output(Value v) { return {Kind::kOutput, v, 0}; }

class Fusion {
 public:
  Fusion(graph::Graph graph, std::span<const codec::Matrix> weights,
         std::span<const kernel::Constant> constants)
      : graph_(std::move(graph)), weights_(weights), constants_(constants) {}

  graph::Graph run() {
    for_each(Op::kGatherRows, [this](int n) { gather_first(n); });
    for (const Op op : {Op::kRmsNorm, Op::kGateMul, Op::kGatedNorm})
      for_each(op, [this](int n) { fold_before_linears(n); });
    fold_units(Op::kSwiglu, LinearOutput::kSwiglu);
    fold_units(Op::kGeglu, LinearOutput::kGeglu);
    for_each(Op::kAdd, [this](int n) { fold_add(n); });
    for_each(Op::kAdd, [this](int n) { fold_norm_add(n); });
    for_each(Op::kLinear, [this](int n) { add_in_place(n); });
    for_each(Op::kKvWrite, [this](int n) { fold_attention_input(n); });
    std::erase_if(graph_.nodes, [](const Node& n) { return n.operands.empty(); });
    return std::move(graph_);
  }

 private:
  struct Use {
    int node;
    size_t operand;
  };

  int n_nodes() const { return static_cast<int>(graph_.nodes.size()); }
  Node& node(int n) { return graph_.nodes[n]; }
  const Node& node(int n) const { return graph_.nodes[n]; }

  // A removed node has no operands.
  template <typename Rule>
  void for_each(Op op, const Rule& rule) {
    for (int n = 0; n < n_nodes(); ++n)
      if (node(n).op == op && !node(n).operands.empty()) rule(n);
  }
  void remove(int n) { node(n).operands.clear(); }

  // Operands of nodes [begin, end) that are of `kind` and overlap v.
  std::vector<Use> uses(Value v, Kind kind, int begin, int end) const {
    std::vector<Use> found;
    for (int n = begin; n < end; ++n)
      for (size_t i = 0; i < node(n).operands.size(); ++i)
        if (node(n).operands[i].kind == kind && overlap(node(n).operands[i].value, v))
          found.push_back({n, i});
    return found;
  }
  bool is_written(Value v, int begin, int end) const {
    return !uses(v, Kind::kOutput, begin, end).empty();
  }
  bool is_touched(Value v, int begin, int end) const {
    return is_written(v, begin, end) || !uses(v, Kind::kInput, begin, end).empty();
  }
  bool is_whole(Value v) const { return v.column == 0 && v.cols == graph_.values[v.id].cols; }

  // The node that alone makes the whole of v, if that is a node of `op`.
  std::optional<int> maker(Value v, Op op) const {
    if (!is_whole(v)) return std::nullopt;
    const std::vector<Use> made = uses(v, Kind::kOutput, 0, n_nodes());
    if (made.size() != 1 || node(made[0].node).op != op) return std::nullopt;
    if (!same(node(made[0].node).operands[made[0].operand].value, v)) return std::nullopt;
    return made[0].node;
  }
  // Likewise, if node `reader` alone reads it, once.
  std::optional<int> private_maker(Value v, Op op, int reader) const {
    const std::vector<Use> read = uses(v, Kind::kInput, 0, n_nodes());
    if (read.size() != 1 || read[0].node != reader) return std::nullopt;
    return maker(v, op);
  }
  bool norms_width(const Node& norm, uint32_t width) const {
    return constants_[norm.operands[1].index].cols == static_cast<int64_t>(width);
  }

  // norm, then gather_rows → gather_rows, then norm of the rows that are wanted.
  void gather_first(int gather) {
    const Value normed = node(gather).operands[0].value;
    const std::optional<int> norm = private_maker(normed, Op::kRmsNorm, gather);
    if (!norm) return;
    const NodeOperand x = node(*norm).operands[0], w = node(*norm).operands[1];
    const NodeOperand rows = node(gather).operands[1], y = node(gather).operands[2];
    std::swap(node(*norm), node(gather));
    graph_.values[normed.id].extent = graph_.values[y.value.id].extent;
    node(*norm).operands = {x, rows, output(normed)};
    node(gather).operands = {input(normed), w, y};
  }

  static bool has_plain_input(const Node& linear) {
    return linear.immediates[1].i == static_cast<int64_t>(LinearInput::kPlain);
  }
  static bool has_plain_output(const Node& linear) {
    return linear.immediates[2].i == static_cast<int64_t>(LinearOutput::kPlain) &&
           linear.operands[kResidual].kind == Kind::kNone;
  }

  // What a norm or gate becomes as the input of linear: operands x, norm weight, gate.
  struct Before {
    LinearInput input;
    NodeOperand x, w, gate;
    double eps = 0;
    int64_t offset = 0;
  };
  static Before before_linear(const Node& n) {
    const std::vector<NodeOperand>& o = n.operands;
    if (n.op == Op::kRmsNorm)
      return {LinearInput::kRmsNorm, o[0], o[1], {}, n.immediates[0].r, n.immediates[1].i};
    if (n.op == Op::kGateMul) return {LinearInput::kGateMul, o[0], {}, o[1]};
    return {LinearInput::kGatedNorm, o[0], o[2], o[1], n.immediates[0].r};
  }

  void fold_before_linears(int first) {
    const Before before = before_linear(node(first));
    const Value made = node(first).operands.back().value;
    if (before.input == LinearInput::kRmsNorm && !norms_width(node(first), made.cols)) return;
    if (maker(made, node(first).op) != first) return;
    const std::vector<Use> read = uses(made, Kind::kInput, 0, n_nodes());
    if (read.empty()) return;
    for (const Use& use : read) {
      const Node& linear = node(use.node);
      if (linear.op != Op::kLinear || use.operand != kX || !has_plain_input(linear) ||
          !same(linear.operands[kX].value, made))
        return;
    }
    // The last reader included: it may not write over what it reads.
    const int end = read.back().node + 1;
    if (is_written(before.x.value, first, end)) return;
    if (before.gate.kind == Kind::kInput && is_written(before.gate.value, first, end)) return;
    for (const Use& use : read) {
      Node& linear = node(use.node);
      linear.operands[kX] = before.x;
      linear.operands[kNorm] = before.w;
      linear.operands[kGate] = before.gate;
      linear.immediates[1] = graph::integer(static_cast<int64_t>(before.input));
      linear.immediates[3] = graph::real(before.eps);
      linear.immediates[4] = graph::integer(before.offset);
    }
    remove(first);
  }

  // Whether the linear may write v instead of its output, at its place instead of node `last`'s.
  bool may_write(int linear, Value v, int last) const {
    if (is_touched(v, linear + 1, last)) return false;
    return std::ranges::none_of(node(linear).operands, [&](const NodeOperand& o) {
      return o.kind == Kind::kInput && overlap(o.value, v);
    });
  }

  void fold_units(Op unit, LinearOutput becomes) {
    for_each(unit, [this, becomes](int n) { fold_unit(n, becomes); });
  }

  // A gated unit of the two halves of a linear's output.
  void fold_unit(int last, LinearOutput becomes) {
    const Value gate = node(last).operands[0].value, up = node(last).operands[1].value;
    const NodeOperand y = node(last).operands[2];
    if (gate.id != up.id || gate.column != 0 || up.column != gate.cols) return;
    if (gate.cols % kHalfRows != 0) return;  // both halves may lie in one segment
    const Value both = {gate.id, 0, 2 * gate.cols};
    const std::optional<int> linear = maker(both, Op::kLinear);
    if (!linear || !has_plain_output(node(*linear)) || !may_write(*linear, y.value, last)) return;
    for (const Use& use : uses(both, Kind::kInput, 0, n_nodes()))
      if (use.node != last) return;
    for (const codec::Segment& s : weights_[node(*linear).operands[kW].index].segments)
      if (s.rows() % kHalfRows != 0) return;
    node(*linear).operands[kY] = y;
    node(*linear).immediates[2] = graph::integer(static_cast<int64_t>(becomes));
    remove(last);
  }

  void fold_add(int last) {
    const NodeOperand y = node(last).operands[2];
    for (const int side : {1, 0}) {
      const Value product = node(last).operands[side].value;
      const NodeOperand other = node(last).operands[1 - side];
      const std::optional<int> linear = private_maker(product, Op::kLinear, last);
      if (!linear || !has_plain_output(node(*linear)) || !may_write(*linear, y.value, last) ||
          is_written(other.value, *linear, last))
        continue;
      node(*linear).operands[kY] = y;
      node(*linear).operands[kResidual] = other;
      return remove(last);
    }
  }

  // A norm of whole rows whose result is added to something.
  void fold_norm_add(int last) {
    const NodeOperand y = node(last).operands[2];
    for (const int side : {1, 0}) {
      const Value normed = node(last).operands[side].value;
      const NodeOperand other = node(last).operands[1 - side];
      const std::optional<int> norm = private_maker(normed, Op::kRmsNorm, last);
      if (!norm || !norms_width(node(*norm), normed.cols)) continue;
      const NodeOperand x = node(*norm).operands[0], w = node(*norm).operands[1];
      if (is_written(x.value, *norm + 1, last)) continue;
      node(last).op = Op::kNormAdd;
      node(last).operands = {x, w, other, y};
      node(last).immediates = node(*norm).immediates;
      return remove(*norm);
    }
  }

  // y = product + residual takes the residual's place where nothing needs that any more.
  void add_in_place(int n) {
    if (node(n).operands[kResidual].kind != Kind::kInput) return;
    const Value residual = node(n).operands[kResidual].value, y = node(n).operands[kY].value;
    if (!is_whole(residual) || maker(y, Op::kLinear) != n ||
        graph_.values[residual.id].extent != graph_.values[y.id].extent ||
        is_touched(residual, n + 1, n_nodes()))
      return;
    for (const int i : {kX, kGate})
      if (node(n).operands[i].kind == Kind::kInput && node(n).operands[i].value.id == residual.id)
        return;
    for (Node& each : graph_.nodes)
      for (NodeOperand& o : each.operands)
        if ((o.kind == Kind::kInput || o.kind == Kind::kOutput) && o.value.id == y.id)
          o.value.id = residual.id;
  }

  // One side (q or k) of what becomes attention_input: where it comes from and its norm, if any.
  struct Side {
    Value from;
    int rope = -1, norm = -1;
    const Node* norm_node = nullptr;
  };
  // The rotated value `v` that node `reader` alone reads.
  std::optional<Side> side_of(Value v, int reader) const {
    const std::optional<int> rope = private_maker(v, Op::kRope, reader);
    if (!rope) return std::nullopt;
    Side side{node(*rope).operands[0].value, *rope};
    const std::optional<int> norm = private_maker(side.from, Op::kRmsNorm, *rope);
    if (norm && norms_width(node(*norm), static_cast<uint32_t>(node(*rope).immediates[0].i)))
      side = {node(*norm).operands[0].value, *rope, *norm, &node(*norm)};
    return side;
  }
  void without_norm(Side& side) const { side = {node(side.rope).operands[0].value, side.rope}; }
  static bool same_rotation(const Node& a, const Node& b) {
    return a.operands[1].index == b.operands[1].index && a.immediates[0].i == b.immediates[0].i &&
           same_real(a.immediates[1], b.immediates[1]) && a.immediates[2].i == b.immediates[2].i &&
           a.immediates[3].i == b.immediates[3].i;
  }
  // The attention that reads the pages which node `write` fills.
  std::optional<int> attention_of(int write) const {
    for (int n = write + 1; n < n_nodes(); ++n)
      if (node(n).op == Op::kAttention && !node(n).operands.empty() &&
          node(n).operands[1].index == node(write).operands[2].index)
        return n;
    return std::nullopt;
  }

  void fold_attention_input(int write) {
    const std::optional<int> attention = attention_of(write);
    if (!attention) return;
    const Value turned = node(*attention).operands[0].value;
    std::optional<Side> q = side_of(turned, *attention);
    std::optional<Side> k = side_of(node(write).operands[0].value, write);
    if (!q || !k || q->rope > write) return;
    const Node rope = node(k->rope);
    if (!same_rotation(node(q->rope), rope)) return;
    if (rope.immediates[0].i * node(write).immediates[0].i != k->from.cols) return;
    if (q->norm_node && k->norm_node &&
        (!same_real(q->norm_node->immediates[0], k->norm_node->immediates[0]) ||
         q->norm_node->immediates[1].i != k->norm_node->immediates[1].i)) {
      without_norm(*q);
      without_norm(*k);
    }
    for (const Side& side : {*q, *k})
      if (is_written(side.from, side.norm_node ? side.norm : side.rope, write)) return;
    const NodeOperand v = node(write).operands[1];
    const bool in_place = !overlap(q->from, k->from) && !overlap(q->from, v.value) &&
                          !is_touched(q->from, write + 1, n_nodes());
    const Value y = in_place ? q->from : turned;
    const Node* norm = q->norm_node ? q->norm_node : k->norm_node;
    const auto weight = [](const Side& side) {
      return side.norm_node ? side.norm_node->operands[1] : NodeOperand{};
    };
    Node joined;
    joined.op = Op::kAttentionInput;
    joined.operands = {input(q->from),          input(k->from), v,          node(write).operands[2],
                       node(write).operands[3], weight(*q),     weight(*k), rope.operands[1],
                       rope.operands[2],        output(y)};
    joined.immediates = {node(write).immediates[0],
                         rope.immediates[0],
                         rope.immediates[1],
                         rope.immediates[2],
                         rope.immediates[3],
                         norm ? norm->immediates[0] : graph::real(0),
                         norm ? norm->immediates[1] : graph::integer(0)};
    for (const Side& side : {*q, *k}) {
      remove(side.rope);
      if (side.norm_node) remove(side.norm);
    }
    node(*attention).operands[0] = input(y);
    node(write) = std::move(joined);
  }

  graph::Graph graph_;
  std::span<const codec::Matrix> weights_;
  std::span<const kernel::Constant> constants_;
};

}  // namespace

graph::Graph fuse(graph::Graph graph, std::span<const codec::Matrix> weights,
                  std::span<const kernel::Constant> constants) {
  return Fusion(std::move(graph), weights, constants).run();
}

}  // namespace flare::prepare
