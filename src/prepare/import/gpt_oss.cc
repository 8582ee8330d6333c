// gpt-oss: attention with sinks and biases, experts with biases in every layer
// (spec/models/gemma4_gptoss.md §4).
#include "prepare/import/adapters.h"
#include "prepare/import/decoder.h"
#include "prepare/import/quantised/gpt_oss_experts.h"
#include "prepare/import/rope.h"

namespace flare::prepare {
namespace {

constexpr std::string_view kSliding = "sliding_attention";

void add_attention(ComponentBuilder& build, const DecoderSizes& s, const std::string& b,
                   const std::string& hf) {
  add_attention_inputs(build, s, b, hf, {.biases = true});
  build.plain(b + "attention/sinks", hf + "self_attn.sinks", {s.heads});
  add_attention_output(build, s, b, hf);
  build.plain(b + "attention/output_bias", hf + "self_attn.o_proj.bias", {s.hidden});
}

void add_projection(ComponentBuilder& build, const std::string& name, const std::string& input,
                    uint64_t cols, Piece weight, Piece bias) {
  const uint64_t rows = weight.row_end;
  ImportedParameter& parameter = build.encoded(name, {rows, cols}, std::move(weight));
  parameter.kind = ParameterKind::kProjection;
  parameter.inputs.push_back(input);
  build.encoded(name + "_bias", {rows}, std::move(bias));
}

// The experts of one layer: what their names begin with here and in the checkpoint.
struct Experts {
  uint64_t count, width, hidden;
  std::string layer, source;
};

// As Hugging Face has them: gate and up alternate, row by row.
void add_paired(ComponentBuilder& build, TensorPool& tensors, const Experts& x) {
  const GptOssExperts inputs(tensors, x.source + "gate_up_proj", x.count, 2 * x.width, x.hidden);
  const GptOssExperts outputs(tensors, x.source + "down_proj", x.count, x.hidden, x.width);
  const std::string input = x.layer + "ffn_input";
  for (uint64_t e = 0; e < x.count; ++e) {
    const std::string expert = fmt::format("{}moe/experts/{}/", x.layer, e);
    add_projection(build, expert + "gate", input, x.hidden, inputs.weight(e, 0, 2, x.width),
                   inputs.bias(e, 0, 2, x.width));
    add_projection(build, expert + "up", input, x.hidden, inputs.weight(e, 1, 2, x.width),
                   inputs.bias(e, 1, 2, x.width));
    add_projection(build, expert + "down", expert + "product", x.width,
                   outputs.weight(e, 0, 1, x.hidden), outputs.bias(e, 0, 1, x.hidden));
  }
}

// As GGUF files have them: a stack of matrices and one of biases for each role.
void add_stacked(ComponentBuilder& build, const Experts& x) {
  const struct {
    const char* role;
    uint64_t rows, cols;
  } roles[] = {{"gate", x.width, x.hidden}, {"up", x.width, x.hidden}, {"down", x.hidden, x.width}};
  for (uint64_t e = 0; e < x.count; ++e) {
    const std::string expert = fmt::format("{}moe/experts/{}/", x.layer, e);
    for (const auto& [role, rows, cols] : roles) {
      const std::string name = expert + role, stack = fmt::format("{}{}_proj", x.source, role);
      const bool is_output = std::string_view(role) == "down";
      build.row_projection(name, is_output ? expert + "product" : x.layer + "ffn_input", stack,
                           {x.count, rows, cols}, {{e * rows, (e + 1) * rows}});
      build.row_of_matrix(name + "_bias", stack + "_bias", {x.count, rows}, e);
    }
  }
}

void add_mixture(ComponentBuilder& build, TensorPool& tensors, ImportedComponent& text,
                 const Experts& experts, const std::string& hf) {
  const std::string& b = experts.layer;
  build.plain(b + "post_attention_norm", hf + "post_attention_layernorm.weight", {experts.hidden});
  add_router(build, b, hf + "mlp.router.weight", experts.count, experts.hidden);
  build.plain(b + "moe/router_bias", hf + "mlp.router.bias", {experts.count});
  if (tensors.checkpoint().gguf() != nullptr)
    add_stacked(build, experts);
  else
    add_paired(build, tensors, experts);
  add_expert_groups(text, b, experts.count);
}

}  // namespace

void import_gpt_oss(std::string_view, const Json& json, const std::string& where,
                    TensorPool& tensors, ImportedModel& model) {
  ConfigReader config(json, where);
  config.expect("model_type", {"gpt_oss"});
  const DecoderSizes s = read_decoder_sizes(config);
  check_layer_count(s.layers, tensors, where);
  const ExpertCounts counts = read_expert_counts(config);
  const uint64_t width = config.count("intermediate_size");
  const auto types = read_layer_types(config, s.layers, kSliding, 2);
  const uint64_t window = config.count("sliding_window");
  const double eps = config.positive_real_or("rms_norm_eps", 1e-5);
  Json rope = plain_rope(config, 150000, s.positions);
  config.expect("hidden_act", {"silu"});
  config.expect("attention_bias", {true});
  const double alpha = config.positive_real_or("swiglu_alpha", 1.702);
  const double limit = config.positive_real_or("swiglu_limit", 7.0);
  constexpr std::string_view unused[] = {"experts_per_token", "initial_context_length"};
  config.ignore(unused);
  const bool tie_flag = config.flag_or("tie_word_embeddings", false);
  config.ignore(neutral_keys());
  config.finish();

  ImportedComponent& text = model.components.emplace_back();
  text.id = "text";
  ComponentBuilder build(tensors, text);
  const bool tied =
      build.embedding_head_norm("model.", s.vocabulary, s.hidden, tie_flag, model.notes);
  text.config =
      decoder_config("GptOssForCausalLM", "gpt_oss", s, tied, eps, types, std::move(rope));
  text.config.set("attention_bias", true);
  text.config.set("sliding_window", window);
  text.config.set("num_experts", counts.experts);
  text.config.set("num_experts_per_tok", counts.per_token);
  text.config.set("moe_intermediate_size", width);
  text.config.set("swiglu_alpha", alpha);
  text.config.set("swiglu_limit", limit);
  for (uint64_t i = 0; i < s.layers; ++i) {
    const std::string b = fmt::format("text/layers/{}/", i);
    const std::string hf = fmt::format("model.layers.{}.", i);
    add_attention(build, s, b, hf);
    add_mixture(build, tensors, text, {counts.experts, width, s.hidden, b, hf + "mlp.experts."},
                hf);
  }
  tensors.skip_derived(".rotary_emb.inv_freq");
}

}  // namespace flare::prepare
