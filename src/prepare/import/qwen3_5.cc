// Qwen3.5 family: the text model with gated attention and Gated DeltaNet, dense or with mixtures of
// experts, its draft layer and its vision tower (spec/models/qwen3_5.md; spec/artifact.md §15.2 to
// §15.4).
#include <algorithm>
#include <array>

#include "base/checked.h"
#include "prepare/import/adapters.h"
#include "prepare/import/decoder.h"
#include "prepare/import/rope.h"

namespace flare::prepare {
namespace {

// What the two kinds call themselves.
struct Kind {
  std::string_view architecture, model_type, family, mtp;
  bool mixture;
};
constexpr Kind kDense = {"Qwen3_5ForCausalLM", "qwen3_5_text", "qwen3_5", "Qwen3_5MTP", false};
constexpr Kind kMixture = {"Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", "qwen3_5_moe",
                           "Qwen3_5MoeMTP", true};
constexpr std::string_view kFull = "full_attention";
constexpr std::string_view kLinear = "linear_attention";

struct Sizes {
  uint64_t hidden, layers, vocabulary, positions, intermediate;
  uint64_t heads, kv_heads, head_dim;  // full attention
  uint64_t nk, nv, dk, dv, taps;       // linear attention
  // Of a mixture, which has no `intermediate`; all 0 where every layer is dense.
  ExpertCounts counts;
  uint64_t expert_width, shared_width;
  std::vector<std::string> types;
  bool any(std::string_view type) const {
    return std::find(types.begin(), types.end(), type) != types.end();
  }
  uint64_t query() const { return checked_mul(heads, head_dim, "attention width"); }
  uint64_t key() const { return checked_mul(kv_heads, head_dim, "key width"); }
  uint64_t kg() const { return checked_mul(nk, dk, "linear key width"); }
  uint64_t vg() const { return checked_mul(nv, dv, "linear value width"); }
};

void check_divides(const ConfigReader& config, std::string_view name, uint64_t value,
                   std::string_view divisor_name, uint64_t divisor) {
  if (value % divisor != 0)
    throw Error(Code::kBinding, "{}: {} is {}, expected a multiple of {} {}", config.where(), name,
                value, divisor_name, divisor);
}

void read_feed_forward(ConfigReader& config, const Kind& kind, Sizes& s) {
  if (!kind.mixture) {
    s.intermediate = config.count("intermediate_size");
    return;
  }
  s.counts = read_expert_counts(config);
  s.expert_width = config.count("moe_intermediate_size");
  s.shared_width = config.count("shared_expert_intermediate_size");
}

Sizes read_sizes(ConfigReader& config, const Kind& kind, const TensorPool& tensors) {
  Sizes s{};
  s.hidden = config.count("hidden_size");
  s.layers = config.count("num_hidden_layers");
  check_layer_count(s.layers, tensors, config.where());
  s.vocabulary = config.count("vocab_size");
  s.positions = config.count("max_position_embeddings");
  read_feed_forward(config, kind, s);
  s.types =
      read_layer_types(config, s.layers, kLinear, config.count_or("full_attention_interval", 4));
  if (s.any(kFull) || tensors.wants("mtp")) {
    s.heads = config.count("num_attention_heads");
    s.kv_heads = config.count("num_key_value_heads");
    s.head_dim = config.count_or("head_dim", 256);
    check_divides(config, "num_attention_heads", s.heads, "num_key_value_heads", s.kv_heads);
  }
  if (s.any(kLinear)) {
    s.nk = config.count("linear_num_key_heads");
    s.nv = config.count("linear_num_value_heads");
    s.dk = config.count("linear_key_head_dim");
    s.dv = config.count("linear_value_head_dim");
    s.taps = config.count("linear_conv_kernel_dim");
    check_divides(config, "linear_num_value_heads", s.nv, "linear_num_key_heads", s.nk);
  }
  // Present for the other kind of layer as well; unused then.
  constexpr std::string_view unused[] = {
      "num_attention_heads",   "num_key_value_heads",   "head_dim",
      "linear_num_key_heads",  "linear_key_head_dim",   "linear_num_value_heads",
      "linear_value_head_dim", "linear_conv_kernel_dim"};
  config.ignore(unused);
  return s;
}

// Pair r of the rotated dimensions turns with axis 1 if r%3 = 1 and r < 3·s1, with axis 2 if
// r%3 = 2 and r < 3·s2, else with axis 0: the section must equal those counts.
void check_sections(const ConfigReader& rope, const std::vector<uint64_t>& section,
                    uint64_t pairs) {
  std::array<uint64_t, 3> counts{};
  if (section.size() == 3)
    for (uint64_t r = 0; r < pairs; ++r) {
      const uint64_t axis = r % 3;
      ++counts[axis != 0 && r < 3 * section[axis] ? axis : 0];
    }
  if (section.size() != 3 || !std::equal(counts.begin(), counts.end(), section.begin()))
    throw Error(Code::kBinding,
                "{}: mrope_section is {}, expected three counts of interleaved axes that sum to {}",
                rope.where(), shape_text(section), pairs);
}

Json read_rope(ConfigReader& config, const Sizes& s) {
  const Json merged = merged_rope(config);
  if (!s.any(kFull)) return Json();
  ConfigReader rope(merged, config.where() + ": rope_parameters");
  rope.expect("rope_type", {"default"});
  rope.expect("mrope_interleaved", {true});
  const double theta = rope.positive_real_or("rope_theta", 1e7);
  const double factor = rope.positive_real_or("partial_rotary_factor", 0.25);
  const auto rotary = static_cast<uint64_t>(static_cast<double>(s.head_dim) * factor);
  if (factor > 1 || rotary == 0 || rotary % 2 != 0)
    throw Error(Code::kBinding,
                "{}: partial_rotary_factor is {} with head_dim {}, expected an even number of "
                "rotated dimensions in the head",
                rope.where(), factor, s.head_dim);
  const auto section = rope.counts("mrope_section").value_or(std::vector<uint64_t>{11, 11, 10});
  check_sections(rope, section, rotary / 2);
  rope.finish();
  Json out = Json::object({{"rope_theta", theta}, {"partial_rotary_factor", factor}});
  Json::Array items;
  for (uint64_t n : section) items.emplace_back(n);
  out.set("mrope_section", std::move(items));
  return out;
}

Json normalised(const Kind& kind, const Sizes& s, bool tied, double eps, Json rope) {
  Json out = Json::object({{"architectures", Json::array({kind.architecture})},
                           {"model_type", kind.model_type},
                           {"hidden_size", s.hidden},
                           {"vocab_size", s.vocabulary},
                           {"num_hidden_layers", s.layers},
                           {"max_position_embeddings", s.positions},
                           {"tie_word_embeddings", tied},
                           {"rms_norm_eps", eps}});
  Json::Array types;
  for (const std::string& type : s.types) types.emplace_back(type);
  out.set("layer_types", std::move(types));
  if (s.any(kFull)) {
    out.set("num_attention_heads", s.heads);
    out.set("num_key_value_heads", s.kv_heads);
    out.set("head_dim", s.head_dim);
    out.set("rope_parameters", std::move(rope));
  }
  if (s.any(kLinear)) {
    out.set("linear_num_key_heads", s.nk);
    out.set("linear_key_head_dim", s.dk);
    out.set("linear_num_value_heads", s.nv);
    out.set("linear_value_head_dim", s.dv);
    out.set("linear_conv_kernel_dim", s.taps);
  }
  if (!kind.mixture) {
    out.set("intermediate_size", s.intermediate);
    return out;
  }
  out.set("num_experts", s.counts.experts);
  out.set("num_experts_per_tok", s.counts.per_token);
  out.set("moe_intermediate_size", s.expert_width);
  out.set("shared_expert_intermediate_size", s.shared_width);
  return out;
}

void add_full_attention(ComponentBuilder& build, const Sizes& s, const std::string& b,
                        const std::string& hf) {
  const std::string input = b + "mixer_input";
  const std::string q_proj = hf + "q_proj.weight";
  const uint64_t q_rows = checked_mul(2, s.query(), "q_proj rows");
  build.check(q_proj, {q_rows, s.hidden});
  // q_proj holds, head after head, head_dim query rows and head_dim gate rows.
  std::vector<ComponentBuilder::Rows> query, gate;
  for (uint64_t h = 0; h < s.heads; ++h) {
    const uint64_t first = 2 * s.head_dim * h;
    query.push_back({first, first + s.head_dim});
    gate.push_back({first + s.head_dim, first + 2 * s.head_dim});
  }
  build.row_projection(b + "attention/query", input, q_proj, {q_rows, s.hidden}, query);
  build.row_projection(b + "attention/gate", input, q_proj, {q_rows, s.hidden}, gate);
  build.projection(b + "attention/key", input, hf + "k_proj.weight", s.key(), s.hidden);
  build.projection(b + "attention/value", input, hf + "v_proj.weight", s.key(), s.hidden);
  build.plain(b + "attention/query_norm", hf + "q_norm.weight", {s.head_dim});
  build.plain(b + "attention/key_norm", hf + "k_norm.weight", {s.head_dim});
  build.projection(b + "attention/output", b + "attention/gated_output", hf + "o_proj.weight",
                   s.hidden, s.query());
  build.packing_group(b + "attention/", {"query", "key", "gate", "value"});
  build.packing_group(b + "attention/", {"query", "key"});
  build.packing_group(b + "attention/", {"gate", "value"});
}

void add_linear_attention(ComponentBuilder& build, const Sizes& s, const std::string& b,
                          const std::string& hf) {
  const std::string input = b + "mixer_input";
  const uint64_t kg = s.kg(), vg = s.vg();
  const uint64_t channels = checked_add(checked_mul(2, kg), vg);
  build.plain(b + "gdn/a_log", hf + "A_log", {s.nv}).fp32_direct = true;
  build.plain(b + "gdn/dt_bias", hf + "dt_bias", {s.nv}).fp32_direct = true;
  ImportedParameter& taps =
      build.plain(b + "gdn/convolution", hf + "conv1d.weight", {channels, 1, s.taps});
  taps.shape = {s.taps, channels};
  taps.transform = Transform::kTransposeTaps;
  for (const char* which : {"a", "b"})
    build
        .projection(fmt::format("{}gdn/{}_projection", b, which), input,
                    fmt::format("{}in_proj_{}.weight", hf, which), s.nv, s.hidden)
        .kind = ParameterKind::kFineProjection;
  const std::string qkv = hf + "in_proj_qkv.weight";
  build.row_projection(b + "gdn/query", input, qkv, {channels, s.hidden}, {{0, kg}});
  build.row_projection(b + "gdn/key", input, qkv, {channels, s.hidden}, {{kg, 2 * kg}});
  build.row_projection(b + "gdn/value", input, qkv, {channels, s.hidden}, {{2 * kg, channels}});
  build.projection(b + "gdn/z", input, hf + "in_proj_z.weight", vg, s.hidden);
  build.plain(b + "gdn/norm", hf + "norm.weight", {s.dv});
  build.projection(b + "gdn/output", b + "gdn/gated_output", hf + "out_proj.weight", s.hidden, vg);
  build.packing_group(b + "gdn/", {"query", "key", "value", "z"});
  build.packing_group(b + "gdn/", {"query", "key"});
  build.packing_group(b + "gdn/", {"value", "z"});
  build.packing_group(b + "gdn/", {"a_projection", "b_projection"});
}

void add_feed_forward(ComponentBuilder& build, TensorPool& tensors, ImportedComponent& component,
                      const Sizes& s, const std::string& b, const std::string& hf) {
  const uint64_t experts = s.counts.experts;
  if (experts == 0) return build.norm_and_mlp(b, hf, s.hidden, s.intermediate);
  build.plain(b + "post_attention_norm", hf + "post_attention_layernorm.weight", {s.hidden});
  const std::string mlp = hf + "mlp.", input = b + "ffn_input", shared = mlp + "shared_expert.";
  add_router(build, b, mlp + "gate.weight", experts, s.hidden);
  build.projection(b + "moe/shared_score", input, mlp + "shared_expert_gate.weight", 1, s.hidden)
      .kind = ParameterKind::kFineProjection;
  add_experts(build, tensors, b, mlp + "experts.", experts, s.expert_width, s.hidden);
  for (const char* which : {"gate", "up"})
    build.projection(b + "moe/shared/" + which, input,
                     fmt::format("{}{}_proj.weight", shared, which), s.shared_width, s.hidden);
  build.projection(b + "moe/shared/down", b + "moe/shared/product", shared + "down_proj.weight",
                   s.hidden, s.shared_width);
  build.packing_group(b + "moe/", {"router", "shared_score"});
  add_expert_groups(component, b, experts);
  build.packing_group(b + "moe/shared/", {"gate", "up"});
}

void add_layer(ComponentBuilder& build, TensorPool& tensors, ImportedComponent& text,
               const Sizes& s, std::string_view prefix, uint64_t i) {
  const std::string b = fmt::format("text/layers/{}/", i);
  const std::string hf = fmt::format("{}layers.{}.", prefix, i);
  build.plain(b + "input_norm", hf + "input_layernorm.weight", {s.hidden});
  if (s.types[i] == kFull)
    add_full_attention(build, s, b, hf + "self_attn.");
  else
    add_linear_attention(build, s, b, hf + "linear_attn.");
  add_feed_forward(build, tensors, text, s, b, hf);
}

// Keys of the nested file around text_config. Returns tie_word_embeddings found there.
bool read_outer(const Json& json, const Kind& kind, const std::string& where) {
  ConfigReader outer(json, where);
  outer.expect("model_type", {kind.family});
  const bool tie_flag = outer.flag_or("tie_word_embeddings", false);
  constexpr std::string_view other[] = {"text_config",           "vision_config",
                                        "image_token_id",        "video_token_id",
                                        "vision_start_token_id", "vision_end_token_id"};
  outer.ignore(other);
  outer.ignore(neutral_keys());
  outer.finish();
  return tie_flag;
}

// One layer of full attention behind a projection of embedding and hidden state; its head is
// text's.
void import_mtp(TensorPool& tensors, const Kind& kind, const Sizes& s, ImportedModel& model) {
  for (ImportedParameter& parameter : model.components.front().parameters)
    if (parameter.kind == ParameterKind::kHead) parameter.inputs.emplace_back("mtp/final_hidden");
  ImportedComponent& mtp = model.components.emplace_back();
  mtp.id = "mtp";
  mtp.target = "text";
  mtp.config = Json::object({{"architectures", Json::array({kind.mtp})}});
  ComponentBuilder build(tensors, mtp);
  build.projection("mtp/input_projection", "mtp/stem_input", "mtp.fc.weight", s.hidden,
                   checked_mul(2, s.hidden, "mtp width"));
  build.plain("mtp/embedding_norm", "mtp.pre_fc_norm_embedding.weight", {s.hidden});
  build.plain("mtp/hidden_norm", "mtp.pre_fc_norm_hidden.weight", {s.hidden});
  build.plain("mtp/final_norm", "mtp.norm.weight", {s.hidden});
  const std::string b = "mtp/layers/0/", hf = "mtp.layers.0.";
  build.plain(b + "input_norm", hf + "input_layernorm.weight", {s.hidden});
  add_full_attention(build, s, b, hf + "self_attn.");
  add_feed_forward(build, tensors, mtp, s, b, hf);
}

}  // namespace

void import_qwen3_5(std::string_view architecture, const Json& json, const std::string& where,
                    TensorPool& tensors, ImportedModel& model) {
  const Kind& kind = architecture.starts_with("Qwen3_5Moe") ? kMixture : kDense;
  const Json* nested = json.find("text_config");
  const bool outer_tie = nested != nullptr && read_outer(json, kind, where);
  ConfigReader config(nested != nullptr ? *nested : json,
                      nested != nullptr ? where + ": text_config" : where);
  config.expect("model_type", {kind.model_type});
  const Sizes s = read_sizes(config, kind, tensors);
  const double eps = config.positive_real_or("rms_norm_eps", 1e-6);
  Json rope = read_rope(config, s);
  config.expect("hidden_act", {"silu"});
  config.expect("attention_bias", {false});
  config.expect("attn_output_gate", {true});
  config.expect("output_gate_type", {"swish", "silu"});
  config.expect("mamba_ssm_dtype", {"float32"});
  const bool tie_flag = config.flag_or("tie_word_embeddings", outer_tie);
  constexpr std::string_view other[] = {"mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"};
  config.ignore(other);
  config.ignore(neutral_keys());
  config.finish();

  const bool nested_names = tensors.has("model.language_model.embed_tokens.weight");
  const std::string_view prefix = nested_names ? "model.language_model." : "model.";
  ImportedComponent& text = model.components.emplace_back();
  text.id = "text";
  ComponentBuilder build(tensors, text);
  const bool tied =
      build.embedding_head_norm(prefix, s.vocabulary, s.hidden, tie_flag, model.notes);
  text.config = normalised(kind, s, tied, eps, std::move(rope));
  for (uint64_t i = 0; i < s.layers; ++i) add_layer(build, tensors, text, s, prefix, i);
  if (tensors.wants("mtp") && tensors.has("mtp.fc.weight")) import_mtp(tensors, kind, s, model);
  // What is left of a component that was imported belongs to nothing.
  if (model.find("mtp") == nullptr) tensors.skip_component("mtp", "mtp.", model.skipped);
  const Json* vision = json.find("vision_config");
  if (tensors.wants("vision") && vision != nullptr && vision->is_object())
    import_qwen3_5_vision(kind.family, *vision, where + ": vision_config", s.hidden, tensors,
                          model);
  if (model.find("vision") == nullptr)
    for (std::string_view visual : {"model.visual.", "visual."})
      tensors.skip_component("vision", visual, model.skipped);
  tensors.skip_derived(".rotary_emb.inv_freq");
}

}  // namespace flare::prepare
