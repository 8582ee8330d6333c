// The architecture table, and the config members that each architecture has.
#include "prepare/model/model.h"

#include <algorithm>
#include <span>

#include "base/error.h"

namespace flare::prepare {
namespace {

// The members of a text config are closed (spec/artifact.md §15.2): one that nothing here reads may
// change the mathematics.
constexpr std::string_view kMembers[] = {
    "architectures",       "model_type",          "hidden_size",
    "vocab_size",          "num_hidden_layers",   "max_position_embeddings",
    "tie_word_embeddings", "rms_norm_eps",        "layer_types",
    "num_attention_heads", "num_key_value_heads", "head_dim",
    "rope_parameters",     "intermediate_size",
};
constexpr std::string_view kBias[] = {"attention_bias"};
constexpr std::string_view kBiasAndWindow[] = {"attention_bias", "sliding_window"};
constexpr std::string_view kGemma[] = {"query_pre_attn_scalar", "sliding_window"};
constexpr std::string_view kLinear[] = {"linear_num_key_heads", "linear_key_head_dim",
                                        "linear_num_value_heads", "linear_value_head_dim",
                                        "linear_conv_kernel_dim"};

struct Architecture {
  std::string_view name;
  BoundGraph (*build)(ParameterSource&, const ModelOptions&);
  std::span<const std::string_view> own_members;
};

constexpr Architecture kArchitectures[] = {
    {"LlamaForCausalLM", build_llama, kBiasAndWindow},
    {"MistralForCausalLM", build_llama, kBiasAndWindow},
    {"Qwen2ForCausalLM", build_llama, kBiasAndWindow},
    {"Qwen3ForCausalLM", build_qwen3, kBias},
    {"Qwen3_5ForCausalLM", build_qwen3_5, kLinear},
    {"Gemma3ForCausalLM", build_gemma3, kGemma},
};

// Their tensors are imported, and that is all so far.
constexpr std::string_view kImportedOnly[] = {"Qwen3MoeForCausalLM", "GptOssForCausalLM"};

void check_members(const Json& config, const Architecture& architecture) {
  for (const auto& [key, value] : config.as_object())
    if (std::ranges::find(kMembers, key) == std::end(kMembers) &&
        std::ranges::find(architecture.own_members, key) == architecture.own_members.end())
      throw Error(
          Code::kBinding,
          "config key {} is unknown to {} and may change the mathematics, expected only the "
          "keys that the architecture defines",
          quote(key), architecture.name);
  const Config typed(config);
  typed.text_or("model_type", "");
  typed.flag_or("tie_word_embeddings", false);
}

// The graph adds the biases that it finds: the config says which must be there.
void check_biases(const ParameterSource& source, const Config& config) {
  if (!config.has("attention_bias")) return;
  const bool expected = config.flag_or("attention_bias", false);
  for (uint32_t i = 0; i < config.u32("num_hidden_layers"); ++i)
    for (const char* role : {"query", "key", "value"}) {
      const std::string name = fmt::format("text/layers/{}/attention/{}_bias", i, role);
      if (source.has(name) != expected)
        throw Error(Code::kBinding, "config key 'attention_bias' is {}, but parameter {} is {}",
                    expected, quote(name), expected ? "missing" : "there");
    }
}

}  // namespace

TextModel build_text_model(ParameterSource& source, const ModelOptions& options) {
  const Json& json = source.config("text");
  const Config config(json);
  const std::vector<std::string> names = config.texts("architectures");
  const std::string name = names.empty() ? "" : names[0];
  for (const Architecture& a : kArchitectures)
    if (a.name == name) {
      check_members(json, a);
      BoundGraph bound = a.build(source, options);
      check_biases(source, config);
      return {std::move(bound), config.u32("vocab_size"), config.u32("max_position_embeddings")};
    }
  if (std::ranges::find(kImportedOnly, name) != std::end(kImportedOnly))
    throw Error(Code::kSupport,
                "{}: architecture {} cannot be run yet: there is no graph for its experts; its "
                "weights can be converted and inspected",
                source.path().string(), name);
  std::string known;
  for (const Architecture& a : kArchitectures)
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  throw Error(Code::kSupport, "{}: architecture {} is unknown, one of {} expected",
              source.path().string(), quote(name), known);
}

}  // namespace flare::prepare
