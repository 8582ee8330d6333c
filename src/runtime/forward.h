// One sequence through the model without a scheduler: the parity tool's way (`ignition logits`).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/step.h"

namespace flare::runtime {

// T: the number of tokens read.
struct ForwardResult {
  std::vector<float> logits;             // [T, V]
  std::vector<std::string> tap_names;    // "hidden.0", …
  std::vector<std::vector<float>> taps;  // [T, cols] each
};

// Reads `tokens` in chunks of `chunk` rows. The model was prepared with all_logits. Errors:
// kUsage for an empty list, an id outside the vocabulary, or more tokens than the context.
ForwardResult forward(StepRunner& runner, const package::PreparedModel& model,
                      std::span<const int32_t> tokens, uint32_t chunk);

}  // namespace flare::runtime
