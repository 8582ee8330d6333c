// Implementation of the common decoder pieces.
#include "prepare/model/blocks.h"

#include <cmath>

#include "base/error.h"

namespace flare::prepare {

DecoderShape decoder_shape(const Config& config, bool has_attention) {
  DecoderShape s;
  s.vocab = config.u32("vocab_size");
  s.hidden = config.u32("hidden_size");
  s.layers = config.u32("num_hidden_layers");
  s.intermediate = config.u32("intermediate_size");
  s.eps = config.positive_real("rms_norm_eps");
  // Added to a mean square: from 1 on it is no guard against division by zero but other
  // mathematics.
  if (s.eps >= 1)
    throw Error(Code::kBinding, "config key 'rms_norm_eps' is {}, a number in (0, 1) expected",
                s.eps);
  if (!has_attention) return s;
  s.query_heads = config.u32("num_attention_heads");
  s.kv_heads = config.u32("num_key_value_heads");
  s.head_dim = config.u32("head_dim");
  if (s.query_heads % s.kv_heads != 0)
    throw Error(Code::kBinding,
                "num_attention_heads {} is not a multiple of num_key_value_heads {}", s.query_heads,
                s.kv_heads);
  if (s.head_dim % 2 != 0 || s.head_dim > 1024 || s.query_heads > 4096)
    throw Error(Code::kBinding, "{} heads of {}: an even head_dim up to 1024 expected",
                s.query_heads, s.head_dim);
  return s;
}

std::string Layer::name(std::string_view leaf) const {
  return fmt::format("text/layers/{}/{}", index_, leaf);
}

std::string Layer::tap_name() const { return fmt::format("hidden.{}", index_ + 1); }

graph::Value Layer::norm(graph::Value x, std::string_view leaf) const {
  return binder_.graph().rms_norm(x, binder_.vector(name(leaf), x.cols), eps_, offset_);
}

graph::Value Layer::head_norm(graph::Value x, std::string_view leaf, uint32_t head_dim) const {
  return binder_.graph().rms_norm(x, binder_.vector(name(leaf), head_dim), eps_, offset_);
}

graph::Builder::Rope make_rope(Binder& binder, const Config& rope, uint32_t head_dim,
                               const std::string& name) {
  const RopeTable table = make_rope_table(rope, head_dim);
  return {binder.computed(name, table.frequencies), table.factor, 0, 0};
}

graph::Builder::Rope full_rope(Binder& binder, const Config& config, uint32_t head_dim) {
  return make_rope(binder, config.object("rope_parameters"), head_dim, "text/rope");
}

graph::Value attend(Binder& binder, const Layer& layer, const DecoderShape& shape,
                    const graph::Builder::Rope& rope, graph::Value q, graph::Value k,
                    graph::Value v, int64_t window, double scale) {
  graph::Builder& g = binder.graph();
  const graph::DType dtype = binder.options().kv_dtype;
  const auto paged = graph::StateInfo::Kind::kPaged;
  const graph::State keys = g.state({layer.name("key"), paged, dtype, shape.kv_cols()});
  const graph::State values = g.state({layer.name("value"), paged, dtype, shape.kv_cols()});
  // One statement each: the order of nodes must not depend on the compiler.
  q = g.rope(q, shape.head_dim, rope);
  k = g.rope(k, shape.head_dim, rope);
  return g.attention(q, k, v, keys, values,
                     {shape.query_heads, shape.kv_heads, shape.head_dim, scale, window});
}

graph::Value attend(Binder& binder, const Layer& layer, const DecoderShape& shape,
                    const graph::Builder::Rope& rope, graph::Value q, graph::Value k,
                    graph::Value v, int64_t window) {
  return attend(binder, layer, shape, rope, q, k, v, window,
                1 / std::sqrt(static_cast<double>(shape.head_dim)));
}

namespace {

std::vector<graph::Value> gate_and_up(Binder& binder, const Layer& layer, const DecoderShape& shape,
                                      graph::Value h) {
  return binder.linear(
      h, layer.name("ffn_input"),
      {{layer.name("mlp/gate"), shape.intermediate}, {layer.name("mlp/up"), shape.intermediate}});
}

graph::Value down(Binder& binder, const Layer& layer, const DecoderShape& shape,
                  graph::Value product) {
  return binder.linear(product, layer.name("mlp/product"), layer.name("mlp/down"), shape.hidden);
}

}  // namespace

graph::Value swiglu_mlp(Binder& binder, const Layer& layer, const DecoderShape& shape,
                        graph::Value h) {
  const auto both = gate_and_up(binder, layer, shape, h);
  return down(binder, layer, shape, binder.graph().swiglu(both[0], both[1]));
}

graph::Value geglu_mlp(Binder& binder, const Layer& layer, const DecoderShape& shape,
                       graph::Value h) {
  const auto both = gate_and_up(binder, layer, shape, h);
  return down(binder, layer, shape, binder.graph().geglu(both[0], both[1]));
}

void finish_text(Binder& binder, const DecoderShape& shape, graph::Value x, bool offset_norms) {
  const graph::Value n = binder.graph().rms_norm(x, binder.vector("text/final_norm", shape.hidden),
                                                 shape.eps, offset_norms);
  binder.tap("hidden.final", n);
  binder.logits(n, "text/final_hidden", "text/output_head", shape.vocab);
}

}  // namespace flare::prepare
