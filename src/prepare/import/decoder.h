// What configs of decoders with mixtures of experts have in common.
#pragma once

#include <string>

#include "prepare/import/builder.h"
#include "prepare/import/config_reader.h"

namespace flare::prepare {

struct DecoderSizes {
  uint64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0,
           positions = 0;
  uint64_t query() const;
  uint64_t key() const;
};

// Widths and counts; kBinding where they contradict each other.
DecoderSizes read_decoder_sizes(ConfigReader& config);

// Members that every normalised text config begins with (spec/artifact.md §15.2).
Json decoder_config(std::string_view architecture, std::string_view model_type,
                    const DecoderSizes& sizes, bool tied, double eps);

// num_experts and num_experts_per_tok; the count of experts has two spellings.
struct ExpertCounts {
  uint64_t experts = 0, per_token = 0;
};
ExpertCounts read_expert_counts(ConfigReader& config);

// `{moe}router` [experts, hidden], which general recipes never quantise.
void add_router(ComponentBuilder& build, const std::string& layer, std::string_view source,
                uint64_t experts, uint64_t hidden);

// The groups of §15.3: gate_0 | up_0 | gate_1 | …, then every down.
void add_expert_groups(ImportedComponent& component, const std::string& layer, uint64_t experts);

}  // namespace flare::prepare
