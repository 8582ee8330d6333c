// GGUF files seen as Hugging Face checkpoints: configuration, tensor names, and what the converter
// changed (spec/models/quantised_checkpoints.md §8).
#pragma once

#include <string>
#include <string_view>

#include "base/json/json.h"
#include "checkpoint/safetensors.h"
#include "prepare/import/imported_model.h"

namespace flare::prepare {

struct GgufConfig {
  Json config;                              // as a config.json of the same model
  uint64_t layers = 0;                      // without those of the MTP head
  uint64_t mtp_layers = 0;                  // they follow the others
  uint64_t head_dim = 0;                    // of the rotated heads
  uint64_t rotary_rows = 0;                 // rows of a head stored in pairs of neighbours; 0: none
  uint64_t nk = 0, nv = 0, dk = 0, dv = 0;  // Gated DeltaNet; 0 without
  bool norms_plus_one = false;
};

// From the metadata of checkpoint.gguf(). Errors: kSupport for an architecture or feature that
// nothing here knows, kBinding for unknown keys of the architecture, kDirectory for missing keys
// and values of a wrong kind.
GgufConfig read_gguf_config(const checkpoint::Checkpoint& checkpoint);

// The name under which a GGUF file keeps a tensor of a Hugging Face checkpoint; the name itself if
// there is no such tensor.
std::string gguf_tensor_name(std::string_view name, const checkpoint::Checkpoint& checkpoint);

// Gives the parameters of an imported GGUF file the order of rows and columns and the numbers that
// the registry wants. kSupport for a stored type that a vector cannot have.
void restore_gguf_orders(const GgufConfig& config, const std::string& where, ImportedModel& model);

}  // namespace flare::prepare
