// Qwen3 dense: Llama with a norm on every query and key head before the rotation. llama_qwen3.md
// §2.
#include "prepare/model/blocks.h"
#include "prepare/model/model.h"

namespace flare::prepare {

BoundGraph build_qwen3(ParameterSource& source, const ModelOptions& options) {
  Binder b(source, options, "text.step");
  const Config c = b.config("text");
  const DecoderShape shape = decoder_shape(c);
  const graph::Builder::Rope rope = full_rope(b, c, shape.head_dim);
  graph::Builder& g = b.graph();

  graph::Value x = g.embed(b.embedding("text/token_embedding", shape.vocab, shape.hidden));
  b.tap("hidden.0", x);
  for (uint32_t i = 0; i < shape.layers; ++i) {
    const Layer l(b, i, shape.eps, /*offset_norms=*/false);
    const graph::Value h = l.norm(x, "input_norm");
    const auto qkv = b.linear(h, l.name("mixer_input"),
                              {{l.name("attention/query"), shape.query_cols()},
                               {l.name("attention/key"), shape.kv_cols()},
                               {l.name("attention/value"), shape.kv_cols()}});
    const graph::Value q = l.head_norm(qkv[0], "attention/query_norm", shape.head_dim);
    const graph::Value k = l.head_norm(qkv[1], "attention/key_norm", shape.head_dim);
    const graph::Value a = attend(b, l, shape, rope, q, k, qkv[2], /*window=*/0);
    x = g.add(x,
              b.linear(a, l.name("attention/attended"), l.name("attention/output"), shape.hidden));
    x = g.add(x, swiglu_mlp(b, l, shape, l.norm(x, "post_attention_norm")));
    b.tap(l.tap_name(), x);
  }
  finish_text(b, shape, x, /*offset_norms=*/false);
  return b.finish();
}

}  // namespace flare::prepare
