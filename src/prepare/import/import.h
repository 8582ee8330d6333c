// Import of a checkpoint: architecture look-up, normalised config, validated parameters.
#pragma once

#include <string>
#include <vector>

#include "prepare/import/imported_model.h"

namespace flare::prepare {

// Reads config and tensor table; touches no tensor data (but the rotary divisors of a GGUF file).
// Every shape is checked, every tensor is accounted for. Errors: kNotFound (no config.json),
// kSupport (architecture or feature that nothing here knows), kBinding (config values and keys,
// missing, misshapen and left-over tensors).
// Components other than text that are not named, or that the architecture's adapter cannot import,
// are listed as skipped.
ImportedModel import_checkpoint(const checkpoint::Checkpoint& checkpoint,
                                const std::vector<std::string>& components = {"text"});

}  // namespace flare::prepare
