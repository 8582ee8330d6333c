// Picking of members, type by type.
#include "prepare/convert/legacy_config.h"

#include "base/error.h"
#include "prepare/import/config_reader.h"

namespace flare::prepare {
namespace {

// Numbers of spec/models/qwen3_5.md §1 for the models that version 1 and 2 artifacts were made of.
constexpr std::string_view kDense27b = R"({
  "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
  "text_config": {
    "model_type": "qwen3_5_text", "hidden_size": 5120, "vocab_size": 248320,
    "num_hidden_layers": 64, "max_position_embeddings": 262144, "rms_norm_eps": 1e-6,
    "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256,
    "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_num_value_heads": 48,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "intermediate_size": 17408},
  "vision_config": {
    "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16,
    "patch_size": 16, "temporal_patch_size": 2, "spatial_merge_size": 2,
    "num_position_embeddings": 2304}})";
constexpr std::string_view kMixture35b = R"({
  "architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe",
  "text_config": {
    "model_type": "qwen3_5_moe_text", "hidden_size": 2048, "vocab_size": 248320,
    "num_hidden_layers": 40, "max_position_embeddings": 262144, "rms_norm_eps": 1e-6,
    "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
    "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_num_value_heads": 32,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "num_experts": 256,
    "num_experts_per_tok": 8, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512},
  "vision_config": {
    "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16,
    "patch_size": 16, "temporal_patch_size": 2, "spatial_merge_size": 2,
    "num_position_embeddings": 2304}})";
constexpr std::pair<std::string_view, std::string_view> kKnown[] = {
    {"qwen3.6-27b", kDense27b}, {"qwen3.8-27b", kDense27b}, {"qwen3.6-35b-a3b", kMixture35b}};

void add_counts(ConfigReader& from, std::initializer_list<const char*> names, Json& to) {
  for (const char* name : names) to.set(name, from.count(name));
}

bool is_mixture(const Json& text) { return text.find("num_experts") != nullptr; }

Json layer_types(ConfigReader& text, uint64_t layers) {
  Json::Array out;
  const uint64_t interval = text.count_or("full_attention_interval", 4);
  if (const auto types = text.texts("layer_types")) {
    if (types->size() != layers)
      throw Error(Code::kBinding, "{}: layer_types has {} items, expected {}", text.where(),
                  types->size(), layers);
    for (const std::string& type : *types) out.emplace_back(type);
  } else {
    for (uint64_t i = 0; i < layers; ++i)
      out.emplace_back((i + 1) % interval == 0 ? "full_attention" : "linear_attention");
  }
  return Json(std::move(out));
}

bool has_layer(const Json& types, std::string_view type) {
  for (const Json& one : types.as_array())
    if (one.as_string() == type) return true;
  return false;
}

// rope_parameters, or the same members beside the others in older files.
Json rope_parameters(const Json& config, const std::string& where, bool with_sections) {
  const Json* nested = config.find("rope_parameters");
  ConfigReader rope(nested != nullptr && nested->is_object() ? *nested : config,
                    where + ": rope_parameters");
  Json out = Json::object({{"rope_theta", rope.positive_real_or("rope_theta", 1e7)}});
  if (!with_sections) return out;
  out.set("partial_rotary_factor", rope.positive_real_or("partial_rotary_factor", 0.25));
  Json::Array sections;
  for (uint64_t n : rope.counts("mrope_section").value_or(std::vector<uint64_t>{11, 11, 10}))
    sections.emplace_back(n);
  out.set("mrope_section", std::move(sections));
  return out;
}

}  // namespace

std::optional<Json> known_config(std::string_view model_id) {
  for (const auto& [id, text] : kKnown)
    if (id == model_id) return parse_json(text, "config of " + std::string(id));
  return std::nullopt;
}

Json text_config(const Json& config, bool is_tied, bool with_attention, const std::string& file) {
  const Json* nested = config.find("text_config");
  const Json& json = nested != nullptr ? *nested : config;
  const std::string where = nested != nullptr ? file + ": text_config" : file;
  ConfigReader text(json, where);
  const bool mixture = is_mixture(json);
  Json out = Json::object(
      {{"architectures", Json::array({mixture ? "Qwen3_5MoeForCausalLM" : "Qwen3_5ForCausalLM"})},
       {"model_type", mixture ? "qwen3_5_moe_text" : "qwen3_5_text"}});
  add_counts(text, {"hidden_size", "vocab_size", "num_hidden_layers", "max_position_embeddings"},
             out);
  out.set("tie_word_embeddings", is_tied);
  out.set("rms_norm_eps", text.positive_real_or("rms_norm_eps", 1e-6));
  const Json types = layer_types(text, out.at("num_hidden_layers").as_u64());
  out.set("layer_types", types);
  if (with_attention || has_layer(types, "full_attention")) {
    add_counts(text, {"num_attention_heads", "num_key_value_heads"}, out);
    out.set("head_dim", text.count_or("head_dim", 256));
    out.set("rope_parameters", rope_parameters(json, where, true));
  }
  if (has_layer(types, "linear_attention"))
    add_counts(text,
               {"linear_num_key_heads", "linear_key_head_dim", "linear_num_value_heads",
                "linear_value_head_dim", "linear_conv_kernel_dim"},
               out);
  if (mixture)
    add_counts(text,
               {"num_experts", "num_experts_per_tok", "moe_intermediate_size",
                "shared_expert_intermediate_size"},
               out);
  else
    add_counts(text, {"intermediate_size"}, out);
  return out;
}

Json vision_config(const Json& config, const std::string& file) {
  const Json* nested = config.find("vision_config");
  if (nested == nullptr)
    throw Error(Code::kBinding, "{}: vision_config is missing, the artifact has component vision",
                file);
  ConfigReader vision(*nested, file + ": vision_config");
  const Json* text = config.find("text_config");
  const bool mixture = text != nullptr && is_mixture(*text);
  Json out = Json::object({{"model_type", mixture ? "qwen3_5_moe_vision" : "qwen3_5_vision"}});
  add_counts(vision,
             {"depth", "hidden_size", "intermediate_size", "num_heads", "patch_size",
              "temporal_patch_size", "spatial_merge_size", "num_position_embeddings"},
             out);
  return out;
}

Json mtp_config(const Json& text) {
  return Json::object(
      {{"architectures", Json::array({is_mixture(text) ? "Qwen3_5MoeMTP" : "Qwen3_5MTP"})}});
}

Json draft_config(const Json& config, bool is_second, const std::string& where) {
  ConfigReader draft(config, where);
  Json out = Json::object(
      {{"architectures", Json::array({is_second ? "DFlash2DraftModel" : "DFlashDraftModel"})},
       {"model_type", "qwen3"}});
  add_counts(draft,
             {"intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
              "num_hidden_layers", "max_position_embeddings"},
             out);
  out.set("rms_norm_eps", draft.positive_real_or("rms_norm_eps", 1e-6));
  out.set("rope_parameters", rope_parameters(config, where, false));
  const Json types = layer_types(draft, out.at("num_hidden_layers").as_u64());
  out.set("layer_types", types);
  if (has_layer(types, "sliding_attention")) add_counts(draft, {"sliding_window"}, out);
  const Json* nested = config.find("dflash_config");
  if (nested == nullptr) throw Error(Code::kBinding, "{}: dflash_config is missing", where);
  Json inner = Json::object();
  for (const char* name : {"target_layer_ids", "mask_token_id"})
    inner.set(name, nested->at(name, where));
  if (is_second)
    for (const char* name :
         {"conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"})
      inner.set(name, nested->at(name, where));
  out.set("dflash_config", std::move(inner));
  return out;
}

}  // namespace flare::prepare
