// From a request's settings to the kernel's parameters of each row that it draws.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernel/sample.h"
#include "runtime/request.h"
#include "runtime/sampler/dry.h"

namespace flare::runtime {

// What one answer needs to set up its draws. What is neutral costs nothing; rules over single ids
// cost as many ids as they touch. Confined to one thread at a time.
class Sampler {
 public:
  // `stop_ids`: those that end the answer, for min_tokens. Errors: kInvalid (an id outside the
  // vocabulary, a sequence of nothing).
  Sampler(const SamplingSettings& settings, std::vector<int32_t> stop_ids, uint32_t vocab_size);

  // The next draw. `history` holds prompt and output ids; `mask` the constraint's legal ids, which
  // are narrowed in place, or nothing for all. What is pointed at stays until the next call. The
  // position in the draw counter is the number of generated tokens, so neither batching nor
  // chunking changes it.
  kernel::SampleParams next(std::span<const int32_t> history, uint32_t n_prompt,
                            std::span<uint32_t> mask);

 private:
  void collect_banned(std::span<const int32_t> output);

  const SamplingSettings settings_;
  const std::vector<int32_t> stop_ids_;
  std::vector<kernel::LogitChange> bias_;
  std::vector<uint32_t> allowed_;  // bits; empty: all
  std::vector<int32_t> banned_;    // for the next draw
  std::unique_ptr<DryPenalty> dry_;
};

// What the kernel found out about the row that `id` was drawn from.
TokenLogprobs token_logprobs(int32_t id, const kernel::RowLogprobs& row);

}  // namespace flare::runtime
