// Llama 2/3.x, Mistral (a window) and Qwen2 (query, key and value biases). llama_qwen3.md §1.
#include "prepare/model/blocks.h"
#include "prepare/model/model.h"

namespace flare::prepare {

BoundGraph build_llama(ParameterSource& source, const ModelOptions& options) {
  Binder b(source, options, "text.step");
  const Config c = b.config("text");
  const DecoderShape shape = decoder_shape(c);
  const graph::Builder::Rope rope = full_rope(b, c, shape.head_dim);
  const auto window = static_cast<int64_t>(c.u32_or("sliding_window", 0));
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
    const graph::Value a = attend(b, l, shape, rope, qkv[0], qkv[1], qkv[2], window);
    x = g.add(x,
              b.linear(a, l.name("attention/attended"), l.name("attention/output"), shape.hidden));
    x = g.add(x, swiglu_mlp(b, l, shape, l.norm(x, "post_attention_norm")));
    b.tap(l.tap_name(), x);
  }
  finish_text(b, shape, x, /*offset_norms=*/false);
  return b.finish();
}

}  // namespace flare::prepare
