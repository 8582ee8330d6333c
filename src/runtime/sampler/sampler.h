// From a request's settings to one row's kernel parameters.
#pragma once

#include <cstdint>
#include <span>

#include "kernel/sample.h"
#include "runtime/request.h"

namespace flare::runtime {

// Purposes of a draw: part of the Philox counter, so that draws for different ends never share
// bits.
enum class DrawPurpose : uint32_t { kToken = 0 };

// `history` holds prompt and output ids, `mask` the constraint's legal ids or null. The position in
// the draw counter is the number of generated tokens, so neither batching nor chunking changes it.
kernel::SampleParams sample_params(const SamplingSettings& settings,
                                   std::span<const int32_t> history, uint32_t n_prompt,
                                   const uint32_t* mask);

// What the kernel found out about the row that `id` was drawn from.
TokenLogprobs token_logprobs(int32_t id, const kernel::RowLogprobs& row);

}  // namespace flare::runtime
