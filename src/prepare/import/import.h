// Import of a checkpoint: architecture look-up, normalised config, validated parameters.
#pragma once

#include "prepare/import/imported_model.h"

namespace flare::prepare {

// Reads config and tensor table; touches no tensor data (but the rotary divisors of a GGUF file).
// Every shape is checked, every tensor is accounted for. Errors: kNotFound (no config.json),
// kSupport (architecture or feature that nothing here knows), kBinding (config values and keys,
// missing, misshapen and left-over tensors).
ImportedModel import_checkpoint(const checkpoint::Checkpoint& checkpoint);

}  // namespace flare::prepare
