// Llama, Mistral, Qwen2 and Qwen3: one decoder, with or without biases, head norms and a window
// (spec/models/llama_qwen3.md §1, §2).
#include "base/checked.h"
#include "prepare/import/adapters.h"
#include "prepare/import/builder.h"
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

struct Sizes {
  uint64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocabulary, positions;
  uint64_t query() const { return checked_mul(heads, head_dim, "attention width"); }
  uint64_t key() const { return checked_mul(kv_heads, head_dim, "key width"); }
};

Sizes read_sizes(ConfigReader& config) {
  Sizes s{};
  s.hidden = config.count("hidden_size");
  s.layers = config.count("num_hidden_layers");
  s.heads = config.count("num_attention_heads");
  s.kv_heads = config.count_or("num_key_value_heads", s.heads);
  if (s.heads % s.kv_heads != 0)
    throw Error(Code::kBinding,
                "{}: num_attention_heads is {}, expected a multiple of num_key_value_heads {}",
                config.where(), s.heads, s.kv_heads);
  s.head_dim = config.count_or("head_dim", 0);
  if (s.head_dim == 0 && s.hidden % s.heads != 0)
    throw Error(Code::kBinding,
                "{}: head_dim is missing and hidden_size {} is no multiple of "
                "num_attention_heads {}",
                config.where(), s.hidden, s.heads);
  if (s.head_dim == 0) s.head_dim = s.hidden / s.heads;
  if (s.head_dim % 2 != 0)
    throw Error(Code::kBinding, "{}: head_dim is {}, expected an even number", config.where(),
                s.head_dim);
  s.intermediate = config.count("intermediate_size");
  s.vocabulary = config.count("vocab_size");
  s.positions = config.count("max_position_embeddings");
  return s;
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

Json normalised(const Variant& variant, const Sizes& s, bool tied, double eps, uint64_t window,
                Json rope) {
  Json out = Json::object({{"architectures", Json::array({variant.architecture})},
                           {"model_type", variant.model_type},
                           {"hidden_size", s.hidden},
                           {"vocab_size", s.vocabulary},
                           {"num_hidden_layers", s.layers},
                           {"max_position_embeddings", s.positions},
                           {"tie_word_embeddings", tied},
                           {"rms_norm_eps", eps}});
  const char* type = window != 0 ? "sliding_attention" : "full_attention";
  out.set("layer_types", Json::Array(s.layers, Json(type)));
  out.set("num_attention_heads", s.heads);
  out.set("num_key_value_heads", s.kv_heads);
  out.set("head_dim", s.head_dim);
  out.set("rope_parameters", std::move(rope));
  out.set("attention_bias", variant.qkv_bias);
  if (window != 0) out.set("sliding_window", window);
  out.set("intermediate_size", s.intermediate);
  return out;
}

void add_layer(ComponentBuilder& build, const Variant& variant, const Sizes& s, uint64_t i) {
  const std::string b = fmt::format("text/layers/{}/", i);
  const std::string hf = fmt::format("model.layers.{}.", i);
  const std::string mixer_input = b + "mixer_input";
  build.plain(b + "input_norm", hf + "input_layernorm.weight", {s.hidden});
  const struct {
    const char *role, *source;
    uint64_t rows;
  } inputs[] = {
      {"query", "q_proj", s.query()}, {"key", "k_proj", s.key()}, {"value", "v_proj", s.key()}};
  for (const auto& p : inputs) {
    const std::string name = b + "attention/" + p.role;
    const std::string source = hf + "self_attn." + p.source;
    build.projection(name, mixer_input, source + ".weight", p.rows, s.hidden);
    if (variant.qkv_bias) build.plain(name + "_bias", source + ".bias", {p.rows});
  }
  if (variant.head_norms) {
    build.plain(b + "attention/query_norm", hf + "self_attn.q_norm.weight", {s.head_dim});
    build.plain(b + "attention/key_norm", hf + "self_attn.k_norm.weight", {s.head_dim});
  }
  build.projection(b + "attention/output", b + "attention/attended", hf + "self_attn.o_proj.weight",
                   s.hidden, s.query());
  build.packing_group(b + "attention/", {"query", "key", "value"});
  build.packing_group(b + "attention/", {"query", "key"});
  build.norm_and_mlp(b, hf, s.hidden, s.intermediate);
}

}  // namespace

void import_llama_family(std::string_view architecture, const Json& json, const std::string& where,
                         TensorPool& tensors, ImportedModel& model) {
  const Variant& variant = variant_of(architecture);
  ConfigReader config(json, where);
  config.expect("model_type", {variant.model_type});
  const Sizes s = read_sizes(config);
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
  text.config = normalised(variant, s, tied, eps, window, std::move(rope));
  for (uint64_t i = 0; i < s.layers; ++i) add_layer(build, variant, s, i);
  tensors.skip_derived(".rotary_emb.inv_freq");
}

}  // namespace flare::prepare
