// What decoders have in common: sizes, the attention half of a layer, mixtures of experts.
#pragma once

#include <string>
#include <vector>

#include "prepare/import/builder.h"
#include "prepare/import/config_reader.h"

namespace flare::prepare {

struct DecoderSizes {
  uint64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0,
           positions = 0;
  uint64_t query() const;
  uint64_t key() const;
};

// What a family takes for keys that its config lacks. 0: for heads, vocabulary and positions an
// error, for kv_heads as many as heads, for head_dim hidden / heads.
struct DecoderDefaults {
  uint64_t heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0, positions = 0;
};

// Widths and counts; kBinding where they contradict each other.
DecoderSizes read_decoder_sizes(ConfigReader& config, const DecoderDefaults& absent = {});

// Members that every normalised text config begins with (spec/artifact.md §15.2). `types`: of each
// layer.
Json decoder_config(std::string_view architecture, std::string_view model_type,
                    const DecoderSizes& sizes, bool tied, double eps,
                    const std::vector<std::string>& types, Json rope);

// Of a layer whose names begin with `layer` here and with `source` in the checkpoint: input_norm;
// attention/query, key and value, each before its bias; query_norm and key_norm.
struct AttentionParts {
  bool biases = false;      // of query, key and value
  bool head_norms = false;  // over each head of query and key
};
void add_attention_inputs(ComponentBuilder& build, const DecoderSizes& sizes,
                          const std::string& layer, const std::string& source,
                          AttentionParts parts);
// attention/output, and the groups of §15.3: query | key | value, query | key.
void add_attention_output(ComponentBuilder& build, const DecoderSizes& sizes,
                          const std::string& layer, const std::string& source);

// num_experts and num_experts_per_tok; the count of experts has two spellings.
struct ExpertCounts {
  uint64_t experts = 0, per_token = 0;
};
ExpertCounts read_expert_counts(ConfigReader& config);

// `{moe}router` [experts, hidden], which general recipes never quantise.
void add_router(ComponentBuilder& build, const std::string& layer, std::string_view source,
                uint64_t experts, uint64_t hidden);

// Every expert's gate, up and down. `source` is what their names begin with: tensors of their own
// ("5.gate_proj.weight"), a stack of all experts for each role ("gate_proj") or for gate and up
// together, gate rows before up rows in each expert ("gate_up_proj").
void add_experts(ComponentBuilder& build, const TensorPool& tensors, const std::string& layer,
                 const std::string& source, uint64_t experts, uint64_t width, uint64_t hidden);

// The groups of §15.3: gate_0 | up_0 | gate_1 | …, then every down.
void add_expert_groups(ImportedComponent& component, const std::string& layer, uint64_t experts);

}  // namespace flare::prepare
