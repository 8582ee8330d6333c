// Pieces that every decoder of these families has: shapes, layer names, attention, MLP, head.
#pragma once

#include <string>
#include <string_view>

#include "prepare/model/binder.h"
#include "prepare/model/rope_table.h"

namespace flare::prepare {

struct DecoderShape {
  uint32_t vocab = 0, hidden = 0, layers = 0, intermediate = 0;
  uint32_t query_heads = 0, kv_heads = 0, head_dim = 0;
  double eps = 0;
  uint32_t query_cols() const { return query_heads * head_dim; }
  uint32_t kv_cols() const { return kv_heads * head_dim; }
};
// Reads and checks the widths; without attention the head counts stay 0.
DecoderShape decoder_shape(const Config& config, bool has_attention = true);

// Names and norms of layer i.
class Layer {
 public:
  Layer(Binder& binder, uint32_t index, double eps, bool offset_norms)
      : binder_(binder), index_(index), eps_(eps), offset_(offset_norms) {}
  // "text/layers/<i>/<leaf>".
  std::string name(std::string_view leaf) const;
  // "hidden.<i+1>": the residual stream behind this layer.
  std::string tap_name() const;
  graph::Value norm(graph::Value x, std::string_view leaf) const;
  // The same weight [head_dim] for every head.
  graph::Value head_norm(graph::Value x, std::string_view leaf, uint32_t head_dim) const;

 private:
  Binder& binder_;
  uint32_t index_;
  double eps_;
  bool offset_;
};

// Rotation over the whole head by an object like rope_parameters; `name` is that of its constant.
graph::Builder::Rope make_rope(Binder& binder, const Config& rope, uint32_t head_dim,
                               const std::string& name);
// The same by the config's rope_parameters.
graph::Builder::Rope full_rope(Binder& binder, const Config& config, uint32_t head_dim);

// Rotates queries and keys, then paged causal attention whose scores are scaled; declares the
// layer's key and value states. window 0: none.
graph::Value attend(Binder& binder, const Layer& layer, const DecoderShape& shape,
                    const graph::Builder::Rope& rope, graph::Value q, graph::Value k,
                    graph::Value v, int64_t window, double scale);
// With scale head_dim^−½.
graph::Value attend(Binder& binder, const Layer& layer, const DecoderShape& shape,
                    const graph::Builder::Rope& rope, graph::Value q, graph::Value k,
                    graph::Value v, int64_t window);

// down(silu(gate) ⊙ up).
graph::Value swiglu_mlp(Binder& binder, const Layer& layer, const DecoderShape& shape,
                        graph::Value h);

// down(gelu_tanh(gate) ⊙ up).
graph::Value geglu_mlp(Binder& binder, const Layer& layer, const DecoderShape& shape,
                       graph::Value h);

// Final norm and output head.
void finish_text(Binder& binder, const DecoderShape& shape, graph::Value x, bool offset_norms);

}  // namespace flare::prepare
