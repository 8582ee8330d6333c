// Qwen3.5 text: Gated DeltaNet layers with gated full attention between them. qwen3_5.md §3–§6.
#include <algorithm>

#include "base/error.h"
#include "prepare/model/blocks.h"
#include "prepare/model/model.h"

namespace flare::prepare {
namespace {

// Gated attention: every query head has a gate of its own width; queries and keys are normed, then
// partly rotated (§4, §5).
graph::Value gated_attention(Binder& b, const Layer& l, const DecoderShape& shape,
                             const graph::Builder::Rope& rope, graph::Value h) {
  graph::Builder& g = b.graph();
  const auto qgkv = b.linear(h, l.name("mixer_input"),
                             {{l.name("attention/query"), shape.query_cols()},
                              {l.name("attention/key"), shape.kv_cols()},
                              {l.name("attention/gate"), shape.query_cols()},
                              {l.name("attention/value"), shape.kv_cols()}});
  const graph::Value q = l.head_norm(qgkv[0], "attention/query_norm", shape.head_dim);
  const graph::Value k = l.head_norm(qgkv[1], "attention/key_norm", shape.head_dim);
  const graph::Value a = attend(b, l, shape, rope, q, k, qgkv[3], /*window=*/0);
  return b.linear(g.gate_mul(a, qgkv[2]), l.name("attention/gated_output"),
                  l.name("attention/output"), shape.hidden);
}

// Gated DeltaNet (§6): projections, causal convolution with delta rule, gated norm. `d` comes with
// the shape alone.
graph::Value gated_delta_net(Binder& b, const Layer& l, const DecoderShape& shape,
                             graph::Builder::Delta d, graph::Value h) {
  graph::Builder& g = b.graph();
  const uint32_t key_cols = d.key_heads * d.key_dim;
  const uint32_t value_cols = d.value_heads * d.value_dim;
  const auto qkvz = b.linear(h, l.name("mixer_input"),
                             {{l.name("gdn/query"), key_cols},
                              {l.name("gdn/key"), key_cols},
                              {l.name("gdn/value"), value_cols},
                              {l.name("gdn/z"), value_cols}});
  const auto ab = b.linear(
      h, l.name("mixer_input"),
      {{l.name("gdn/a_projection"), d.value_heads}, {l.name("gdn/b_projection"), d.value_heads}});
  d.tail = g.state({l.name("conv_tail"), graph::StateInfo::Kind::kConvTail, graph::DType::kF32,
                    uint64_t{d.taps - 1} * d.conv_cols()});
  d.state = g.state({l.name("delta_state"), graph::StateInfo::Kind::kRecurrent, graph::DType::kF32,
                     uint64_t{d.value_heads} * d.key_dim * d.value_dim});
  const graph::Value u = {qkvz[0].id, qkvz[0].column,
                          d.conv_cols()};  // query, key, value lie together
  d.convolution = b.table(l.name("gdn/convolution"), d.taps, d.conv_cols());
  d.a_log = b.vector(l.name("gdn/a_log"), d.value_heads);
  d.dt_bias = b.vector(l.name("gdn/dt_bias"), d.value_heads);
  const graph::Value o = g.gated_delta(u, ab[0], ab[1], d);
  const graph::Value y =
      g.gated_norm(o, qkvz[3], b.vector(l.name("gdn/norm"), d.value_dim), shape.eps);
  const std::string input = l.name("gdn/gated_output"), output = l.name("gdn/output");
  return b.linear(y, input, output, shape.hidden);
}

graph::Builder::Rope partial_rope(Binder& b, const Config& c, uint32_t head_dim) {
  const Config rope = c.object("rope_parameters");
  const double share = rope.positive_real_or("partial_rotary_factor", 0.25);
  const auto dims = static_cast<uint32_t>(head_dim * std::min(share, 2.0));
  if (dims == 0 || dims % 2 != 0 || dims > head_dim)
    throw Error(Code::kBinding,
                "partial_rotary_factor gives {} of {} dims, an even number expected", dims,
                head_dim);
  const RopeTable table = make_rope_table(rope, dims);
  const std::vector<uint32_t> sections = rope.u32s("mrope_section");
  if (sections.size() != 3 || uint64_t{sections[0]} + sections[1] + sections[2] != dims / 2)
    throw Error(Code::kBinding, "mrope_section: three numbers with sum {} expected", dims / 2);
  return {b.computed("text/rope", table.frequencies), table.factor, sections[1], sections[2]};
}

graph::Builder::Delta delta_shape(const Config& c) {
  graph::Builder::Delta d;
  d.key_heads = c.u32("linear_num_key_heads");
  d.key_dim = c.u32("linear_key_head_dim");
  d.value_heads = c.u32("linear_num_value_heads");
  d.value_dim = c.u32("linear_value_head_dim");
  d.taps = c.u32("linear_conv_kernel_dim");
  if (d.value_heads % d.key_heads != 0)
    throw Error(Code::kBinding,
                "linear_num_value_heads {} is not a multiple of linear_num_key_heads {}",
                d.value_heads, d.key_heads);
  if (d.value_heads > 4096 || d.key_dim > 1024 || d.value_dim > 1024)
    throw Error(Code::kBinding, "{} linear heads of {} and {}: up to 4096 of up to 1024 expected",
                d.value_heads, d.key_dim, d.value_dim);
  if (d.taps < 2 || d.taps > 64)
    throw Error(Code::kBinding, "linear_conv_kernel_dim is {}, 2..64 expected", d.taps);
  return d;
}

}  // namespace

BoundGraph build_qwen3_5(ParameterSource& source, const ModelOptions& options) {
  Binder b(source, options, "text.step");
  const Config c = b.config("text");
  const std::vector<std::string> kinds = c.texts("layer_types");
  const bool has_attention = std::ranges::count(kinds, "full_attention") > 0;
  const bool has_delta = std::ranges::count(kinds, "linear_attention") > 0;
  const DecoderShape shape = decoder_shape(c, has_attention);
  if (kinds.size() != shape.layers)
    throw Error(Code::kBinding, "layer_types has {} entries, num_hidden_layers {} expected",
                kinds.size(), shape.layers);
  for (const std::string& kind : kinds)
    if (kind != "full_attention" && kind != "linear_attention")
      throw Error(Code::kBinding, "layer_types: {}, full_attention or linear_attention expected",
                  quote(kind));
  graph::Builder::Rope rope;
  if (has_attention) rope = partial_rope(b, c, shape.head_dim);
  graph::Builder::Delta delta;
  if (has_delta) delta = delta_shape(c);
  graph::Builder& g = b.graph();

  graph::Value x = g.embed(b.embedding("text/token_embedding", shape.vocab, shape.hidden));
  b.tap("hidden.0", x);
  for (uint32_t i = 0; i < shape.layers; ++i) {
    const Layer l(b, i, shape.eps, /*offset_norms=*/true);
    const graph::Value h = l.norm(x, "input_norm");
    x = g.add(x, kinds[i] == "full_attention" ? gated_attention(b, l, shape, rope, h)
                                              : gated_delta_net(b, l, shape, delta, h));
    x = g.add(x, swiglu_mlp(b, l, shape, l.norm(x, "post_attention_norm")));
    b.tap(l.tap_name(), x);
  }
  finish_text(b, shape, x, /*offset_norms=*/true);
  return b.finish();
}

}  // namespace flare::prepare
