// The fields of a row's sampling parameters, one by one.
#include "runtime/sampler/sampler.h"

namespace flare::runtime {

kernel::SampleParams sample_params(const SamplingSettings& settings,
                                   std::span<const int32_t> history, uint32_t n_prompt,
                                   const uint32_t* mask) {
  kernel::SampleParams p;
  p.temperature = settings.temperature;
  p.top_k = settings.top_k;
  p.top_p = settings.top_p;
  p.min_p = settings.min_p;
  p.repetition_penalty = settings.repetition_penalty;
  p.repeat_last_n = settings.repeat_last_n;
  p.presence_penalty = settings.presence_penalty;
  p.frequency_penalty = settings.frequency_penalty;
  p.history = history.data();
  p.n_history = static_cast<int32_t>(history.size());
  p.n_prompt = static_cast<int32_t>(n_prompt);
  p.mask = mask;
  p.id_limit = settings.id_limit;
  p.seed = settings.seed;
  p.choice = settings.choice;
  p.position = static_cast<uint32_t>(history.size()) - n_prompt;
  p.purpose = static_cast<uint32_t>(DrawPurpose::kToken);
  return p;
}

TokenLogprobs token_logprobs(int32_t id, const kernel::RowLogprobs& row) {
  TokenLogprobs record{id, row.drawn, {}};
  record.top.reserve(static_cast<size_t>(row.n_top));
  for (int32_t i = 0; i < row.n_top; ++i)
    record.top.emplace_back(row.top[i].id, row.top[i].logprob);
  return record;
}

}  // namespace flare::runtime
