// Reading of the common members.
#include "prepare/import/decoder.h"

#include "base/checked.h"
#include "base/error.h"

namespace flare::prepare {

uint64_t DecoderSizes::query() const { return checked_mul(heads, head_dim, "attention width"); }
uint64_t DecoderSizes::key() const { return checked_mul(kv_heads, head_dim, "key width"); }

DecoderSizes read_decoder_sizes(ConfigReader& config, const DecoderDefaults& absent) {
  const auto count = [&](const char* key, uint64_t otherwise) {
    return otherwise == 0 ? config.count(key) : config.count_or(key, otherwise);
  };
  DecoderSizes s;
  s.hidden = config.count("hidden_size");
  s.layers = config.count("num_hidden_layers");
  s.heads = count("num_attention_heads", absent.heads);
  s.kv_heads =
      config.count_or("num_key_value_heads", absent.kv_heads != 0 ? absent.kv_heads : s.heads);
  if (s.heads % s.kv_heads != 0)
    throw Error(Code::kBinding,
                "{}: num_attention_heads is {}, expected a multiple of num_key_value_heads {}",
                config.where(), s.heads, s.kv_heads);
  s.head_dim = config.count_or("head_dim", absent.head_dim);
  if (s.head_dim == 0 && s.hidden % s.heads != 0)
    throw Error(Code::kBinding,
                "{}: head_dim is missing and hidden_size {} is no multiple of "
                "num_attention_heads {}",
                config.where(), s.hidden, s.heads);
  if (s.head_dim == 0) s.head_dim = s.hidden / s.heads;
  if (s.head_dim % 2 != 0)
    throw Error(Code::kBinding, "{}: head_dim is {}, expected an even number", config.where(),
                s.head_dim);
  s.vocabulary = count("vocab_size", absent.vocabulary);
  s.positions = count("max_position_embeddings", absent.positions);
  return s;
}

Json decoder_config(std::string_view architecture, std::string_view model_type,
                    const DecoderSizes& s, bool tied, double eps,
                    const std::vector<std::string>& types, Json rope) {
  Json::Array listed;
  for (const std::string& type : types) listed.emplace_back(type);
  return Json::object({{"architectures", Json::array({architecture})},
                       {"model_type", model_type},
                       {"hidden_size", s.hidden},
                       {"vocab_size", s.vocabulary},
                       {"num_hidden_layers", s.layers},
                       {"max_position_embeddings", s.positions},
                       {"tie_word_embeddings", tied},
                       {"rms_norm_eps", eps},
                       {"layer_types", std::move(listed)},
                       {"num_attention_heads", s.heads},
                       {"num_key_value_heads", s.kv_heads},
                       {"head_dim", s.head_dim},
                       {"rope_parameters", std::move(rope)}});
}

void add_attention_inputs(ComponentBuilder& build, const DecoderSizes& s, const std::string& layer,
                          const std::string& source, AttentionParts parts) {
  build.plain(layer + "input_norm", source + "input_layernorm.weight", {s.hidden});
  const struct {
    const char *role, *source;
    uint64_t rows;
  } inputs[] = {
      {"query", "q_proj", s.query()}, {"key", "k_proj", s.key()}, {"value", "v_proj", s.key()}};
  for (const auto& p : inputs) {
    const std::string name = layer + "attention/" + p.role;
    const std::string from = source + "self_attn." + p.source;
    build.projection(name, layer + "mixer_input", from + ".weight", p.rows, s.hidden);
    if (parts.biases) build.plain(name + "_bias", from + ".bias", {p.rows});
  }
  if (!parts.head_norms) return;
  build.plain(layer + "attention/query_norm", source + "self_attn.q_norm.weight", {s.head_dim});
  build.plain(layer + "attention/key_norm", source + "self_attn.k_norm.weight", {s.head_dim});
}

void add_attention_output(ComponentBuilder& build, const DecoderSizes& s, const std::string& layer,
                          const std::string& source) {
  build.projection(layer + "attention/output", layer + "attention/attended",
                   source + "self_attn.o_proj.weight", s.hidden, s.query());
  build.packing_group(layer + "attention/", {"query", "key", "value"});
  build.packing_group(layer + "attention/", {"query", "key"});
}

ExpertCounts read_expert_counts(ConfigReader& config) {
  const uint64_t local = config.count_or("num_local_experts", 0);
  const uint64_t experts = config.count_or("num_experts", local);
  if (experts == 0) config.count("num_experts");  // says that it is missing
  if (local != 0 && local != experts)
    throw Error(Code::kBinding, "{}: num_experts is {} but num_local_experts is {}, expected one",
                config.where(), experts, local);
  constexpr uint64_t kMost = 4096;  // parameters are listed before their tensors are looked up
  if (experts > kMost)
    throw Error(Code::kSupport, "{}: num_experts is {}, at most {} are supported", config.where(),
                experts, kMost);
  const uint64_t per_token = config.count("num_experts_per_tok");
  if (per_token > experts)
    throw Error(Code::kBinding, "{}: num_experts_per_tok is {}, expected at most the {} experts",
                config.where(), per_token, experts);
  return {experts, per_token};
}

void add_router(ComponentBuilder& build, const std::string& layer, std::string_view source,
                uint64_t experts, uint64_t hidden) {
  build.projection(layer + "moe/router", layer + "ffn_input", source, experts, hidden).kind =
      ParameterKind::kFineProjection;
}

void add_experts(ComponentBuilder& build, const TensorPool& tensors, const std::string& layer,
                 const std::string& source, uint64_t experts, uint64_t width, uint64_t hidden) {
  const std::string both = source + "gate_up_proj", gates = source + "gate_proj",
                    ups = source + "up_proj", downs = source + "down_proj";
  const bool in_one = tensors.has(both), in_two = tensors.has(gates);
  const codec::Shape pairs = {experts, checked_mul(2, width, "expert rows"), hidden},
                     in = {experts, width, hidden}, out = {experts, hidden, width};
  const std::string input = layer + "ffn_input";
  for (uint64_t e = 0; e < experts; ++e) {
    const std::string expert = fmt::format("{}moe/experts/{}/", layer, e);
    const std::string product = expert + "product";
    const uint64_t pair = e * pairs[1], row = e * width;
    if (in_one) {
      build.row_projection(expert + "gate", input, both, pairs, {{pair, pair + width}});
      build.row_projection(expert + "up", input, both, pairs, {{pair + width, pair + 2 * width}});
    } else if (in_two) {
      build.row_projection(expert + "gate", input, gates, in, {{row, row + width}});
      build.row_projection(expert + "up", input, ups, in, {{row, row + width}});
    } else {
      const std::string own = fmt::format("{}{}.", source, e);
      build.projection(expert + "gate", input, own + "gate_proj.weight", width, hidden);
      build.projection(expert + "up", input, own + "up_proj.weight", width, hidden);
      build.projection(expert + "down", product, own + "down_proj.weight", hidden, width);
      continue;
    }
    build.row_projection(expert + "down", product, downs, out, {{e * hidden, (e + 1) * hidden}});
  }
}

void add_expert_groups(ImportedComponent& component, const std::string& layer, uint64_t experts) {
  std::vector<std::string> inputs, outputs;
  for (uint64_t e = 0; e < experts; ++e) {
    const std::string expert = fmt::format("{}moe/experts/{}/", layer, e);
    inputs.push_back(expert + "gate");
    inputs.push_back(expert + "up");
    outputs.push_back(expert + "down");
  }
  component.packing.push_back(std::move(inputs));
  component.packing.push_back(std::move(outputs));
}

}  // namespace flare::prepare
