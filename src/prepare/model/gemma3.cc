// Gemma 3 text: norms before and behind each branch, head norms, windows by layer, each type of
// layer with its own rotation. gemma4_gptoss.md §1.
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/float_types.h"
#include "prepare/model/blocks.h"
#include "prepare/model/model.h"

namespace flare::prepare {
namespace {

// √H, rounded to the weights' type: that of the reference's arithmetic, which is binary32 for exact
// runs, binary32 tables and GGUF blocks, and bf16 for the rest, encoded bf16 checkpoints included.
double embedding_scale(const Binder& b, graph::Weight table, uint32_t hidden) {
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(hidden)));
  const codec::Segment& stored = b.matrix(table).segments.front();
  const bool is_float32 = b.options().exact || stored.format == codec::FormatId::kFp32 ||
                          stored.layout == codec::LayoutId::kGgufBlocks;
  return is_float32 ? root : bf16_to_f32(f32_to_bf16(root));
}

std::vector<std::string> layer_types(const Config& c, uint32_t layers) {
  std::vector<std::string> types = c.texts("layer_types");
  if (types.size() != layers)
    throw Error(Code::kBinding, "layer_types has {} entries, num_hidden_layers {} expected",
                types.size(), layers);
  for (const std::string& type : types)
    if (type != "full_attention" && type != "sliding_attention")
      throw Error(Code::kBinding, "layer_types: {}, full_attention or sliding_attention expected",
                  quote(type));
  return types;
}

// What attention needs to know of a type of layer.
struct LayerType {
  graph::Builder::Rope rope;
  int64_t window = 0;
};
LayerType layer_type(Binder& b, const Config& c, uint32_t head_dim, const std::string& type) {
  LayerType out;
  out.rope = make_rope(b, c.object("rope_parameters").object(type), head_dim, "text/rope/" + type);
  if (type == "sliding_attention") out.window = c.u32("sliding_window");
  return out;
}

}  // namespace

BoundGraph build_gemma3(ParameterSource& source, const ModelOptions& options) {
  Binder b(source, options, "text.step");
  const Config c = b.config("text");
  const DecoderShape shape = decoder_shape(c);
  const double scale = 1 / std::sqrt(c.positive_real("query_pre_attn_scalar"));
  const std::vector<std::string> types = layer_types(c, shape.layers);
  std::map<std::string, LayerType> kinds;
  for (const std::string& type : types)
    if (!kinds.contains(type)) kinds.emplace(type, layer_type(b, c, shape.head_dim, type));
  graph::Builder& g = b.graph();

  const graph::Weight table = b.embedding("text/token_embedding", shape.vocab, shape.hidden);
  graph::Value x = g.embed(table, embedding_scale(b, table, shape.hidden));
  b.tap("hidden.0", x);
  for (uint32_t i = 0; i < shape.layers; ++i) {
    const Layer l(b, i, shape.eps, /*offset_norms=*/true);
    const LayerType& kind = kinds.at(types[i]);
    const graph::Value h = l.norm(x, "input_norm");
    const auto qkv = b.linear(h, l.name("mixer_input"),
                              {{l.name("attention/query"), shape.query_cols()},
                               {l.name("attention/key"), shape.kv_cols()},
                               {l.name("attention/value"), shape.kv_cols()}});
    const graph::Value q = l.head_norm(qkv[0], "attention/query_norm", shape.head_dim);
    const graph::Value k = l.head_norm(qkv[1], "attention/key_norm", shape.head_dim);
    const graph::Value a = attend(b, l, shape, kind.rope, q, k, qkv[2], kind.window, scale);
    const graph::Value mixed =
        b.linear(a, l.name("attention/attended"), l.name("attention/output"), shape.hidden);
    x = g.add(x, l.norm(mixed, "attention_output_norm"));
    const graph::Value fed = geglu_mlp(b, l, shape, l.norm(x, "post_attention_norm"));
    x = g.add(x, l.norm(fed, "ffn_output_norm"));
    b.tap(l.tap_name(), x);
  }
  finish_text(b, shape, x, /*offset_norms=*/true);
  return b.finish();
}

}  // namespace flare::prepare
