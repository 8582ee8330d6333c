// Chunked reading with every row's logits and taps kept.
#include "runtime/forward.h"

#include <algorithm>

#include "base/error.h"

namespace flare::runtime {

ForwardResult forward(StepRunner& runner, const package::PreparedModel& model,
                      std::span<const int32_t> tokens, uint32_t chunk) {
  if (tokens.empty()) throw Error(Code::kUsage, "tokens: none given, at least one expected");
  if (tokens.size() > runner.memory_plan().max_context)
    throw Error(Code::kUsage, "tokens: {} given, the context holds {}", tokens.size(),
                runner.memory_plan().max_context);
  for (int32_t id : tokens)
    if (id < 0 || static_cast<uint32_t>(id) >= model.vocab_size)
      throw Error(Code::kUsage, "tokens: id {} is outside 0..{}", id, model.vocab_size - 1);
  chunk = std::clamp<uint32_t>(chunk, 1, model.capacity.prefill_chunk);

  ForwardResult result;
  result.tap_names = runner.tap_names();
  result.taps.resize(result.tap_names.size());
  SequenceMemory memory = runner.new_sequence();
  for (size_t at = 0; at < tokens.size(); at += chunk) {
    const StepEntry entry{&memory, tokens.subspan(at, std::min<size_t>(chunk, tokens.size() - at)),
                          true};
    runner.step({&entry, 1});
    for (int l = 0; l < runner.n_logits(); ++l) {
      const auto row = runner.logits(l);
      result.logits.insert(result.logits.end(), row.begin(), row.end());
    }
    for (size_t k = 0; k < result.taps.size(); ++k) {
      const auto rows = runner.tap(k);
      result.taps[k].insert(result.taps[k].end(), rows.begin(), rows.end());
    }
  }
  return result;
}

}  // namespace flare::runtime
