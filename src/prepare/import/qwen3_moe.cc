// Qwen3 with mixtures of experts: the attention of Qwen3, experts in some or all layers
// (spec/models/llama_qwen3.md).
#include <set>

#include "prepare/import/adapters.h"
#include "prepare/import/decoder.h"
#include "prepare/import/rope.h"

namespace flare::prepare {
namespace {

struct Feed {
  uint64_t intermediate = 0, expert_width = 0;
  ExpertCounts counts;
  bool renormalised = false;  // the chosen experts' weights sum to 1
  std::vector<bool> sparse;   // by layer
};

Feed read_feed(ConfigReader& config, uint64_t layers) {
  Feed feed;
  feed.intermediate = config.count("intermediate_size");
  feed.expert_width = config.count("moe_intermediate_size");
  feed.counts = read_expert_counts(config);
  feed.renormalised = config.flag_or("norm_topk_prob", false);
  const uint64_t step = config.count_or("decoder_sparse_step", 1);
  std::set<uint64_t> dense;
  if (const Json* list = config.take("mlp_only_layers"); list != nullptr) {
    if (!list->is_array())
      throw Error(Code::kBinding, "{}: 'mlp_only_layers' is {}, expected a list of layers",
                  config.where(), quote(list->to_text()));
    for (const Json& layer : list->as_array())
      dense.insert(layer.as_u64(config.where() + ": mlp_only_layers"));
  }
  for (uint64_t i = 0; i < layers; ++i)
    feed.sparse.push_back(!dense.contains(i) && (i + 1) % step == 0);
  return feed;
}

void add_mixture(ComponentBuilder& build, const TensorPool& tensors, ImportedComponent& text,
                 const Feed& feed, uint64_t hidden, const std::string& b, const std::string& hf) {
  build.plain(b + "post_attention_norm", hf + "post_attention_layernorm.weight", {hidden});
  add_router(build, b, hf + "mlp.gate.weight", feed.counts.experts, hidden);
  add_experts(build, tensors, b, hf + "mlp.experts.", feed.counts.experts, feed.expert_width,
              hidden);
  add_expert_groups(text, b, feed.counts.experts);
}

Json normalised(const DecoderSizes& s, const Feed& feed, bool tied, double eps, Json rope) {
  Json out = decoder_config("Qwen3MoeForCausalLM", "qwen3_moe", s, tied, eps,
                            std::vector<std::string>(s.layers, "full_attention"), std::move(rope));
  out.set("intermediate_size", feed.intermediate);
  out.set("num_experts", feed.counts.experts);
  out.set("num_experts_per_tok", feed.counts.per_token);
  out.set("moe_intermediate_size", feed.expert_width);
  out.set("norm_topk_prob", feed.renormalised);
  Json::Array types;
  for (const bool sparse : feed.sparse) types.emplace_back(sparse ? "sparse" : "dense");
  out.set("mlp_layer_types", std::move(types));
  return out;
}

}  // namespace

void import_qwen3_moe(std::string_view, const Json& json, const std::string& where,
                      TensorPool& tensors, ImportedModel& model) {
  ConfigReader config(json, where);
  config.expect("model_type", {"qwen3_moe"});
  const DecoderSizes s = read_decoder_sizes(config);
  check_layer_count(s.layers, tensors, where);
  const Feed feed = read_feed(config, s.layers);
  const double eps = config.positive_real_or("rms_norm_eps", 1e-6);
  Json rope = plain_rope(config, 10000, s.positions);
  config.expect("hidden_act", {"silu"});
  config.expect("attention_bias", {false});
  config.expect("use_sliding_window", {false});
  constexpr std::string_view unused[] = {"sliding_window", "max_window_layers"};
  config.ignore(unused);
  const bool tie_flag = config.flag_or("tie_word_embeddings", false);
  config.ignore(neutral_keys());
  config.finish();

  ImportedComponent& text = model.components.emplace_back();
  text.id = "text";
  ComponentBuilder build(tensors, text);
  const bool tied =
      build.embedding_head_norm("model.", s.vocabulary, s.hidden, tie_flag, model.notes);
  text.config = normalised(s, feed, tied, eps, std::move(rope));
  for (uint64_t i = 0; i < s.layers; ++i) {
    const std::string b = fmt::format("text/layers/{}/", i);
    const std::string hf = fmt::format("model.layers.{}.", i);
    add_attention_inputs(build, s, b, hf, {.head_norms = true});
    add_attention_output(build, s, b, hf);
    if (feed.sparse[i])
      add_mixture(build, tensors, text, feed, s.hidden, b, hf);
    else
      build.norm_and_mlp(b, hf, s.hidden, feed.intermediate);
  }
  tensors.skip_derived(".rotary_emb.inv_freq");
}

}  // namespace flare::prepare
