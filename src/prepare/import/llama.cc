// Llama, Mistral, Qwen2 and Qwen3: one decoder, with or without biases, head norms and a window
// (spec/models/llama_qwen3.md §1, §2).
#include "prepare/import/adapters.h"
#include "prepare/import/decoder.h"
#include "prepare/import/rope.h"

namespace flare::prepare {
namespace {

struct Variant {
  std::string_view architecture;
  std::string_view model_type;
  bool qkv_bias;
  bool head_norms;
  bool window;        // sliding_window applies to every layer
  bool window_flags;  // use_sliding_window, max_window_layers and layer_types may be present
};

constexpr Variant kVariants[] = {
    {"LlamaForCausalLM", "llama", false, false, false, false},
    {"MistralForCausalLM", "mistral", false, false, true, false},
    {"Qwen2ForCausalLM", "qwen2", true, false, false, true},
    {"Qwen3ForCausalLM", "qwen3", false, true, false, true},
};

const Variant& variant_of(std::string_view architecture) {
  for (const Variant& variant : kVariants)
    if (variant.architecture == architecture) return variant;
  throw Error(Code::kInternal, "no variant for architecture {}", architecture);
}

// 0: no window.
uint64_t read_window(ConfigReader& config, const Variant& variant, uint64_t layers) {
  if (variant.window) return config.count_or("sliding_window", 0);
  if (!variant.window_flags) return 0;
  config.expect("use_sliding_window", {false});
  constexpr std::string_view unused[] = {"sliding_window", "max_window_layers"};
  config.ignore(unused);
  if (const auto types = config.texts("layer_types")) {
    if (types->size() != layers)
      throw Error(Code::kBinding, "{}: layer_types has {} items, expected {}", config.where(),
                  types->size(), layers);
    for (const std::string& type : *types)
      if (type != "full_attention")
        throw Error(Code::kSupport, "{}: layer_types has {}, only full_attention is supported",
                    config.where(), quote(type));
  }
  return 0;
}

void add_layer(ComponentBuilder& build, const Variant& variant, const DecoderSizes& s,
               uint64_t intermediate, uint64_t i) {
  const std::string b = fmt::format("text/layers/{}/", i);
  const std::string hf = fmt::format("model.layers.{}.", i);
  add_attention_inputs(build, s, b, hf,
                       {.biases = variant.qkv_bias, .head_norms = variant.head_norms});
  add_attention_output(build, s, b, hf);
  build.norm_and_mlp(b, hf, s.hidden, intermediate);
}

}  // namespace

void import_llama_family(std::string_view architecture, const Json& json, const std::string& where,
                         TensorPool& tensors, ImportedModel& model) {
  const Variant& variant = variant_of(architecture);
  ConfigReader config(json, where);
  config.expect("model_type", {variant.model_type});
  const DecoderSizes s = read_decoder_sizes(config);
  const uint64_t intermediate = config.count("intermediate_size");
  check_layer_count(s.layers, tensors, where);
  const double eps = config.positive_real_or("rms_norm_eps", 1e-6);
  const uint64_t window = read_window(config, variant, s.layers);
  Json rope = plain_rope(config, 10000, s.positions);
  config.expect("hidden_act", {"silu"});
  config.expect("attention_bias", {variant.qkv_bias});
  config.expect("mlp_bias", {false});
  const bool tie_flag = config.flag_or("tie_word_embeddings", false);
  config.ignore(neutral_keys());
  config.finish();

  ImportedComponent& text = model.components.emplace_back();
  text.id = "text";
  ComponentBuilder build(tensors, text);
  const bool tied =
      build.embedding_head_norm("model.", s.vocabulary, s.hidden, tie_flag, model.notes);
  const std::vector<std::string> types(s.layers,
                                       window != 0 ? "sliding_attention" : "full_attention");
  text.config = decoder_config(variant.architecture, variant.model_type, s, tied, eps, types,
                               std::move(rope));
  text.config.set("attention_bias", variant.qkv_bias);
  if (window != 0) text.config.set("sliding_window", window);
  text.config.set("intermediate_size", intermediate);
  for (uint64_t i = 0; i < s.layers; ++i) add_layer(build, variant, s, intermediate, i);
  tensors.skip_derived(".rotary_emb.inv_freq");
}

}  // namespace flare::prepare
