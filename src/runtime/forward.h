// One sequence through the model without a scheduler: the parity tool's way (`ignition logits`).
#pragma once

#include <cstdint>
#include <functional>
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

// −log p(tokens[i] | tokens[0..i)) for i in [first, T), first >= 1, in nats and binary64. Only the
// rows that are asked for compute logits. Preparation and errors as of forward.
std::vector<double> score(StepRunner& runner, const package::PreparedModel& model,
                          std::span<const int32_t> tokens, size_t first, uint32_t chunk);

// Reads `tokens` as one sequence and calls rows_read(n) after each chunk, when the taps hold its n
// rows. Computes no logits. Errors as of forward.
void observe(StepRunner& runner, const package::PreparedModel& model,
             std::span<const int32_t> tokens, uint32_t chunk,
             const std::function<void(size_t)>& rows_read);

}  // namespace flare::runtime
