// Gemma 3 text: sandwich norms, windows by layer, two rotary settings
// (spec/models/gemma4_gptoss.md §1; spec/artifact.md §15.8).
#include <algorithm>

#include "prepare/import/adapters.h"
#include "prepare/import/decoder.h"
#include "prepare/import/rope.h"

namespace flare::prepare {
namespace {

constexpr std::string_view kTextArchitecture = "Gemma3ForCausalLM";
constexpr std::string_view kTextModelType = "gemma3_text";
constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

struct Sizes : DecoderSizes {
  uint64_t intermediate = 0;
  std::vector<std::string> types;
  uint64_t window = 0;      // of the sliding layers; 0 if there are none
  double query_scalar = 0;  // scores are scaled by its inverse root
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
  Sizes s{read_decoder_sizes(
      config,
      {.heads = 8, .kv_heads = 4, .head_dim = 256, .vocabulary = 262208, .positions = 131072})};
  check_layer_count(s.layers, tensors, config.where());
  s.intermediate = config.count("intermediate_size");
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
  Json out =
      decoder_config(kTextArchitecture, kTextModelType, s, tied, eps, s.types, std::move(rope));
  out.set("query_pre_attn_scalar", s.query_scalar);
  if (s.window != 0) out.set("sliding_window", s.window);
  out.set("intermediate_size", s.intermediate);
  return out;
}

void add_layer(ComponentBuilder& build, const Sizes& s, std::string_view prefix, uint64_t i) {
  const std::string b = fmt::format("text/layers/{}/", i);
  const std::string hf = fmt::format("{}layers.{}.", prefix, i);
  add_attention_inputs(build, s, b, hf, {.head_norms = true});
  add_attention_output(build, s, b, hf);
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
