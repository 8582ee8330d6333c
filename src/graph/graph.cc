// The builder's nodes, in the operand order of the op contracts, and the graph's text.
#include "graph/graph.h"

#include "base/error.h"

namespace flare::graph {
namespace {

NodeOperand input(Value v) { return {NodeOperand::Kind::kInput, v, 0}; }
NodeOperand output(Value v) { return {NodeOperand::Kind::kOutput, v, 0}; }
NodeOperand weight_operand(Weight w) { return {NodeOperand::Kind::kWeight, {}, w.index}; }
NodeOperand constant_operand(Constant c, DType dtype = DType::kF32) {
  FLARE_ASSERT(c.dtype == dtype);
  return {NodeOperand::Kind::kConstant, {}, c.index};
}
NodeOperand state_operand(State s) { return {NodeOperand::Kind::kState, {}, s.index}; }
NodeOperand io(Io which, uint32_t add = 0) {
  return {NodeOperand::Kind::kIo, {}, static_cast<int32_t>(static_cast<uint32_t>(which) + add)};
}

// Operands and immediates of a linear that is nothing but a product (kernel/linear.h).
void make_plain_linear(Node& n, NodeOperand x, Weight w, NodeOperand bias, NodeOperand y,
                       Policy policy) {
  n.policy = policy;
  n.operands = {x, weight_operand(w), bias, y, {}, {}, {}};
  n.immediates = {integer(static_cast<int64_t>(policy)), integer(0), integer(0), real(0),
                  integer(0)};
}

std::string_view io_name(int32_t index) {
  constexpr std::string_view names[] = {"token_ids", "positions", "logits_rows", "logits",
                                        "sampling",  "sampled",   "accepted",    "tap"};
  return names[std::min<int32_t>(index, std::size(names) - 1)];
}

}  // namespace

Builder::Builder(std::string role) { graph_.role = std::move(role); }

Weight Builder::weight(std::string_view name, uint32_t rows, uint32_t cols) {
  graph_.weight_names.emplace_back(name);
  return {static_cast<int32_t>(graph_.weight_names.size()) - 1, rows, cols};
}

Constant Builder::constant(std::string_view name, uint32_t cols, DType dtype) {
  FLARE_ASSERT(dtype == DType::kF32 || dtype == DType::kI32);
  graph_.constant_names.emplace_back(name);
  graph_.constant_dtypes.push_back(dtype);
  return {static_cast<int32_t>(graph_.constant_names.size()) - 1, cols, dtype};
}

State Builder::state(StateInfo info) {
  graph_.states.push_back(std::move(info));
  return {static_cast<int32_t>(graph_.states.size()) - 1};
}

Value Builder::result(Extent extent, uint32_t cols) {
  graph_.values.push_back({extent, cols});
  return {static_cast<int32_t>(graph_.values.size()) - 1, 0, cols};
}

Node& Builder::node(Op op) {
  graph_.nodes.push_back({});
  graph_.nodes.back().op = op;
  return graph_.nodes.back();
}

Value Builder::embed(Weight table, double scale) {
  const Value y = result(Extent::kRows, table.cols);
  Node& n = node(Op::kEmbed);
  n.operands = {io(Io::kTokenIds), weight_operand(table), output(y)};
  n.immediates = {real(scale)};
  return y;
}

Value Builder::buffer(Value like, uint32_t cols) {
  return result(graph_.values[like.id].extent, cols);
}

void Builder::linear_into(Value y, Value x, Weight w, Policy policy, std::optional<Constant> bias) {
  FLARE_ASSERT(x.cols == w.cols && y.cols == w.rows && (!bias || bias->cols == w.rows));
  make_plain_linear(node(Op::kLinear), input(x), w, bias ? constant_operand(*bias) : NodeOperand{},
                    output(y), policy);
}

Value Builder::rms_norm(Value x, Constant w, double eps, bool offset) {
  FLARE_ASSERT(w.cols > 0 && x.cols % w.cols == 0);
  const Value y = result(graph_.values[x.id].extent, x.cols);
  Node& n = node(Op::kRmsNorm);
  n.operands = {input(x), constant_operand(w), output(y)};
  n.immediates = {real(eps), integer(offset ? 1 : 0)};
  return y;
}

Value Builder::add(Value x, Value y) {
  FLARE_ASSERT(x.cols == y.cols);
  const Value z = result(graph_.values[x.id].extent, x.cols);
  node(Op::kAdd).operands = {input(x), input(y), output(z)};
  return z;
}

Value Builder::gated_unit(Op op, Value gate, Value up) {
  FLARE_ASSERT(gate.cols == up.cols);
  const Value a = result(graph_.values[gate.id].extent, gate.cols);
  node(op).operands = {input(gate), input(up), output(a)};
  return a;
}

Value Builder::swiglu(Value gate, Value up) { return gated_unit(Op::kSwiglu, gate, up); }
Value Builder::geglu(Value gate, Value up) { return gated_unit(Op::kGeglu, gate, up); }

Value Builder::gate_mul(Value x, Value gate) {
  FLARE_ASSERT(x.cols == gate.cols);
  const Value y = result(graph_.values[x.id].extent, x.cols);
  node(Op::kGateMul).operands = {input(x), input(gate), output(y)};
  return y;
}

Value Builder::gather_columns(Value x, Constant columns) {
  const Value y = result(graph_.values[x.id].extent, columns.cols);
  node(Op::kGatherColumns).operands = {input(x), constant_operand(columns, DType::kI32), output(y)};
  return y;
}

Value Builder::rope(Value x, uint32_t head_dim, const Rope& rope) {
  FLARE_ASSERT(x.cols % head_dim == 0 && 2 * rope.frequencies.cols <= head_dim);
  const Value y = result(graph_.values[x.id].extent, x.cols);
  Node& n = node(Op::kRope);
  n.operands = {input(x), constant_operand(rope.frequencies), io(Io::kPositions), output(y)};
  n.immediates = {integer(head_dim), real(rope.factor), integer(rope.section_h),
                  integer(rope.section_w)};
  return y;
}

Value Builder::attention(Value q, Value k, Value v, State keys, State values,
                         const Attention& shape) {
  FLARE_ASSERT(q.cols == shape.query_heads * shape.head_dim);
  FLARE_ASSERT(k.cols == shape.kv_heads * shape.head_dim && v.cols == k.cols);
  FLARE_ASSERT(shape.query_heads % shape.kv_heads == 0);
  FLARE_ASSERT(!shape.sinks || shape.sinks->cols == shape.query_heads);
  Node& write = node(Op::kKvWrite);
  write.operands = {input(k), input(v), state_operand(keys), state_operand(values)};
  write.immediates = {integer(shape.kv_heads)};
  const Value o = result(Extent::kRows, q.cols);
  Node& attend = node(Op::kAttention);
  attend.operands = {input(q), state_operand(keys), state_operand(values),
                     shape.sinks ? constant_operand(*shape.sinks) : NodeOperand{}, output(o)};
  attend.immediates = {integer(shape.query_heads), integer(shape.kv_heads), real(shape.scale),
                       integer(shape.window), real(shape.softcap)};
  return o;
}

Value Builder::conv_causal_silu(Value u, Constant w, uint32_t taps, State tail) {
  FLARE_ASSERT(w.cols == u.cols);
  FLARE_ASSERT(graph_.states[tail.index].elements == uint64_t{taps - 1} * u.cols);
  const Value c = result(Extent::kRows, u.cols);
  Node& n = node(Op::kConvCausal);
  n.operands = {input(u), constant_operand(w), state_operand(tail), output(c)};
  n.immediates = {integer(1)};
  return c;
}

Value Builder::add_gated_delta(Op op, Value u, Value a, Value b, const Delta& delta) {
  FLARE_ASSERT(u.cols == delta.conv_cols() && delta.convolution.cols == u.cols);
  FLARE_ASSERT(a.cols == delta.value_heads && b.cols == delta.value_heads);
  FLARE_ASSERT(delta.value_heads % delta.key_heads == 0);
  FLARE_ASSERT(graph_.states[delta.tail.index].elements == uint64_t{delta.taps - 1} * u.cols);
  const Value o = result(Extent::kRows, delta.value_heads * delta.value_dim);
  Node& n = node(op);
  n.operands = {input(u),
                input(a),
                input(b),
                constant_operand(delta.convolution),
                constant_operand(delta.a_log),
                constant_operand(delta.dt_bias),
                state_operand(delta.tail),
                state_operand(delta.state),
                output(o)};
  n.immediates = {integer(delta.key_heads), integer(delta.key_dim), integer(delta.value_heads),
                  integer(delta.value_dim)};
  return o;
}

Value Builder::gated_delta(Value u, Value a, Value b, const Delta& delta) {
  return add_gated_delta(Op::kGatedDelta, u, a, b, delta);
}

Builder::Verified Builder::gated_delta_verify(Value u, Value a, Value b, const Delta& delta) {
  const Value o = add_gated_delta(Op::kGatedDeltaVerify, u, a, b, delta);
  const Value factors = result(Extent::kRows, delta.factor_cols());
  graph_.nodes.back().operands.push_back(output(factors));
  return {o, factors};
}

void Builder::gated_delta_commit(Value u, Value factors, const Delta& delta) {
  FLARE_ASSERT(u.cols == delta.conv_cols() && factors.cols == delta.factor_cols());
  Node& n = node(Op::kGatedDeltaCommit);
  n.operands = {input(u), input(factors), io(Io::kAccepted), state_operand(delta.tail),
                state_operand(delta.state)};
  n.immediates = {integer(delta.key_heads), integer(delta.key_dim), integer(delta.value_heads),
                  integer(delta.value_dim), integer(delta.taps)};
}

Value Builder::gated_norm(Value x, Value z, Constant w, double eps) {
  FLARE_ASSERT(x.cols == z.cols && x.cols % w.cols == 0);
  const Value y = result(Extent::kRows, x.cols);
  Node& n = node(Op::kGatedNorm);
  n.operands = {input(x), input(z), constant_operand(w), output(y)};
  n.immediates = {real(eps)};
  return y;
}

void Builder::logits(Value x, Weight head, Policy policy) {
  FLARE_ASSERT(x.cols == head.cols);
  const Value wanted = result(Extent::kLogits, x.cols);
  node(Op::kGatherRows).operands = {input(x), io(Io::kLogitsRows), output(wanted)};
  make_plain_linear(node(Op::kLinear), input(wanted), head, {}, io(Io::kLogits), policy);
}

void Builder::sample(uint32_t) {
  node(Op::kSample).operands = {io(Io::kLogits), io(Io::kSampling), io(Io::kSampled)};
}

void Builder::tap(std::string_view name, Value x) {
  const auto k = static_cast<uint32_t>(graph_.taps.size());
  graph_.taps.emplace_back(name);
  node(Op::kTap).operands = {input(x), io(Io::kTaps, k)};
}

Graph Builder::finish() { return std::move(graph_); }

std::string graph_text(const Graph& graph) {
  std::string out = fmt::format("graph {}: {} nodes, {} weights, {} states\n", graph.role,
                                graph.nodes.size(), graph.weight_names.size(), graph.states.size());
  for (const StateInfo& s : graph.states) {
    constexpr std::string_view kinds[] = {"paged", "recurrent", "conv_tail"};
    out += fmt::format("  state {} {} {} × {}\n", s.name, kinds[static_cast<size_t>(s.kind)],
                       s.elements, dtype_name(s.dtype));
  }
  for (const Node& n : graph.nodes) {
    std::string results, arguments;
    const auto append = [](std::string& to, const std::string& text) {
      to += to.empty() ? text : ", " + text;
    };
    for (const NodeOperand& o : n.operands) {
      const auto value_text = [&] {
        const ValueInfo& info = graph.values[o.value.id];
        std::string text = fmt::format("%{}", o.value.id);
        if (o.value.cols != info.cols)
          text += fmt::format("[{}:{}]", o.value.column, o.value.column + o.value.cols);
        return text + fmt::format(" {}×{}", extent_name(info.extent), o.value.cols);
      };
      switch (o.kind) {
        case NodeOperand::Kind::kNone:
          break;
        case NodeOperand::Kind::kInput:
          append(arguments, value_text());
          break;
        case NodeOperand::Kind::kOutput:
          append(results, value_text());
          break;
        case NodeOperand::Kind::kWeight:
          append(arguments, "@" + graph.weight_names[o.index]);
          break;
        case NodeOperand::Kind::kConstant:
          append(arguments, "$" + graph.constant_names[o.index]);
          break;
        case NodeOperand::Kind::kState:
          append(arguments, "&" + graph.states[o.index].name);
          break;
        case NodeOperand::Kind::kIo:
          append(arguments, std::string(io_name(o.index)));
          break;
      }
    }
    out += fmt::format("  {}{}{}({}){}\n", results, results.empty() ? "" : " = ", op_name(n.op),
                       arguments,
                       n.op == Op::kLinear ? fmt::format(" {}", policy_name(n.policy)) : "");
  }
  return out;
}

}  // namespace flare::graph
