// Gemma 3 text: sandwich norms, windows by layer, two rotary settings
// (spec/models/gemma4_gptoss.md §1; spec/artifact.md §15.8).
#include <algorithm>

#include "base/checked.h"
#include "prepare/import/adapters.h"
#include "prepare/import/builder.h"
#include "prepare/import/rope.h"

namespace flare::prepare {
namespace {

constexpr std::string_view kTextArchitecture = "Gemma3ForCausalLM";
constexpr std::string_view kTextModelType = "gemma3_text";
constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

struct Sizes {
  uint64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocabulary, positions;
  std::vector<std::string> types;
  uint64_t window;      // of the sliding layers; 0 if there are none
  double query_scalar;  // scores are scaled by its inverse root
  uint64_t query() const { return checked_mul(heads, head_dim, "attention width"); }
  uint64_t key() const { return checked_mul(kv_heads, head_dim, "key width"); }
  bool any(std::string_view type) const { return std::ranges::find(types, type) != types.end(); }
};

// Every `pattern`-th layer sees everything where the file lists no types.
std::vector<std::string> read_layer_types(ConfigReader& config, uint64_t layers) {
  uint64_t pattern = 6;
  for (const char* key : {"sliding_window_pattern", "_sliding_window_pattern"})
    pattern = config.count_or(key, pattern);
  return prepare::read_layer_types(config, layers, kSliding, pattern);
}

// Absent keys have the values of the family's configuration class: published files with a vision
// tower leave out what equals them.
Sizes read_sizes(ConfigReader& config, const TensorPool& tensors) {
  Sizes s{};
  s.hidden = config.count("hidden_size");
  s.layers = config.count("num_hidden_layers");
  check_layer_count(s.layers, tensors, config.where());
  s.heads = config.count_or("num_attention_heads", 8);
  s.kv_heads = config.count_or("num_key_value_heads", 4);
  if (s.heads % s.kv_heads != 0)
    throw Error(Code::kBinding,
                "{}: num_attention_heads is {}, expected a multiple of num_key_value_heads {}",
                config.where(), s.heads, s.kv_heads);
  s.head_dim = config.count_or("head_dim", 256);
  if (s.head_dim % 2 != 0)
    throw Error(Code::kBinding, "{}: head_dim is {}, expected an even number", config.where(),
                s.head_dim);
  s.intermediate = config.count("intermediate_size");
  s.vocabulary = config.count_or("vocab_size", 262208);
  s.positions = config.count_or("max_position_embeddings", 131072);
  s.types = read_layer_types(config, s.layers);
  const uint64_t window = config.count_or("sliding_window", 4096);
  s.window = s.any(kSliding) ? window : 0;
  s.query_scalar = config.positive_real_or("query_pre_attn_scalar", 256);
  return s;
}

// One object for each type of layer, whichever of the two spellings the file has.
Json read_rope(ConfigReader& config, const Sizes& s) {
  Json out = Json::object();
  const Json* nested = config.take("rope_parameters");
  const auto is_by_type = [&](const char* type) {
    return nested != nullptr && nested->is_object() && nested->find(type) != nullptr;
  };
  if (is_by_type(kFull) || is_by_type(kSliding)) {
    ConfigReader by_type(*nested, config.where() + ": rope_parameters");
    for (const auto& [type, theta] : {std::pair{kFull, 1e6}, std::pair{kSliding, 1e4}}) {
      const Json* found = by_type.take(type);
      const Json one =
          Json::object({{"rope_parameters", found != nullptr ? *found : Json::object()}});
      ConfigReader reader(one, fmt::format("{}: {}", by_type.where(), type));
      if (s.any(type)) out.set(type, plain_rope(reader, theta, s.positions));
    }
    by_type.finish();
    return out;
  }
  Json full = plain_rope(config, 1e6, s.positions);
  const double local = config.positive_real_or("rope_local_base_freq", 1e4);
  if (s.any(kFull)) out.set(kFull, std::move(full));
  if (s.any(kSliding))
    out.set(kSliding, Json::object({{"rope_type", "default"}, {"rope_theta", local}}));
  return out;
}

Json normalised(const Sizes& s, bool tied, double eps, Json rope) {
  Json out = Json::object({{"architectures", Json::array({kTextArchitecture})},
                           {"model_type", kTextModelType},
                           {"hidden_size", s.hidden},
                           {"vocab_size", s.vocabulary},
                           {"num_hidden_layers", s.layers},
                           {"max_position_embeddings", s.positions},
                           {"tie_word_embeddings", tied},
                           {"rms_norm_eps", eps}});
  Json::Array types;
  for (const std::string& type : s.types) types.emplace_back(type);
  out.set("layer_types", std::move(types));
  out.set("num_attention_heads", s.heads);
  out.set("num_key_value_heads", s.kv_heads);
  out.set("head_dim", s.head_dim);
  out.set("rope_parameters", std::move(rope));
  out.set("query_pre_attn_scalar", s.query_scalar);
  if (s.window != 0) out.set("sliding_window", s.window);
  out.set("intermediate_size", s.intermediate);
  return out;
}

void add_layer(ComponentBuilder& build, const Sizes& s, std::string_view prefix, uint64_t i) {
  const std::string b = fmt::format("text/layers/{}/", i);
  const std::string hf = fmt::format("{}layers.{}.", prefix, i);
  const std::string input = b + "mixer_input", attention = hf + "self_attn.";
  build.plain(b + "input_norm", hf + "input_layernorm.weight", {s.hidden});
  build.projection(b + "attention/query", input, attention + "q_proj.weight", s.query(), s.hidden);
  build.projection(b + "attention/key", input, attention + "k_proj.weight", s.key(), s.hidden);
  build.projection(b + "attention/value", input, attention + "v_proj.weight", s.key(), s.hidden);
  build.plain(b + "attention/query_norm", attention + "q_norm.weight", {s.head_dim});
  build.plain(b + "attention/key_norm", attention + "k_norm.weight", {s.head_dim});
  build.projection(b + "attention/output", b + "attention/attended", attention + "o_proj.weight",
                   s.hidden, s.query());
  build.packing_group(b + "attention/", {"query", "key", "value"});
  build.packing_group(b + "attention/", {"query", "key"});
  build.plain(b + "attention_output_norm", hf + "post_attention_layernorm.weight", {s.hidden});
  build.plain(b + "post_attention_norm", hf + "pre_feedforward_layernorm.weight", {s.hidden});
  build.mlp(b, hf, s.hidden, s.intermediate);
  build.plain(b + "ffn_output_norm", hf + "post_feedforward_layernorm.weight", {s.hidden});
}

// Keys of the file around text_config.
bool read_outer(const Json& json, const std::string& where) {
  ConfigReader outer(json, where);
  outer.expect("model_type", {"gemma3"});
  const bool tie_flag = outer.flag_or("tie_word_embeddings", true);
  constexpr std::string_view other[] = {"text_config",       "vision_config",
                                        "boi_token_index",   "eoi_token_index",
                                        "image_token_index", "mm_tokens_per_image"};
  outer.ignore(other);
  outer.ignore(neutral_keys());
  outer.finish();
  return tie_flag;
}

std::string_view prefix_of(const TensorPool& tensors) {
  for (std::string_view prefix : {"model.language_model.", "language_model.model."})
    if (tensors.has(fmt::format("{}embed_tokens.weight", prefix))) return prefix;
  return "model.";
}

}  // namespace

void import_gemma3(std::string_view, const Json& json, const std::string& where,
                   TensorPool& tensors, ImportedModel& model) {
  const Json* nested = json.find("text_config");
  const bool outer_tie = nested == nullptr || read_outer(json, where);
  ConfigReader config(nested != nullptr ? *nested : json,
                      nested != nullptr ? where + ": text_config" : where);
  config.expect("model_type", {kTextModelType});
  const Sizes s = read_sizes(config, tensors);
  const double eps = config.positive_real_or("rms_norm_eps", 1e-6);
  Json rope = read_rope(config, s);
  for (const char* key : {"hidden_activation", "hidden_act"})
    config.expect(key, {"gelu_pytorch_tanh"});
  config.expect("attention_bias", {false});
  config.expect("use_bidirectional_attention", {false});
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"})
    config.expect(key, {Json()});
  const bool tie_flag = config.flag_or("tie_word_embeddings", outer_tie);
  constexpr std::string_view other[] = {"cache_implementation"};
  config.ignore(other);
  config.ignore(neutral_keys());
  config.finish();

  const std::string_view prefix = prefix_of(tensors);
  ImportedComponent& text = model.components.emplace_back();
  text.id = "text";
  ComponentBuilder build(tensors, text);
  const bool tied =
      build.embedding_head_norm(prefix, s.vocabulary, s.hidden, tie_flag, model.notes);
  text.config = normalised(s, tied, eps, std::move(rope));
  for (uint64_t i = 0; i < s.layers; ++i) add_layer(build, s, prefix, i);
  for (std::string_view visual : {"vision_tower.", "model.vision_tower.", "multi_modal_projector.",
                                  "model.multi_modal_projector."})
    tensors.skip_component("vision", visual, model.skipped);
  tensors.skip_derived(".rotary_emb.inv_freq");
}

}  // namespace flare::prepare
