// Chunked reading with every row's logits and taps kept.
#include "runtime/forward.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace flare::runtime {
namespace {

void check_tokens(const StepRunner& runner, const package::PreparedModel& model,
                  std::span<const int32_t> tokens) {
  if (tokens.empty()) throw Error(Code::kUsage, "tokens: none given, at least one expected");
  if (tokens.size() > runner.memory_plan().max_context)
    throw Error(Code::kUsage, "tokens: {} given, the context holds {}", tokens.size(),
                runner.memory_plan().max_context);
  for (int32_t id : tokens)
    if (id < 0 || static_cast<uint32_t>(id) >= model.vocab_size)
      throw Error(Code::kUsage, "tokens: id {} is outside 0..{}", id, model.vocab_size - 1);
}

// −log softmax(logits)[id].
double surprise(std::span<const float> logits, int32_t id) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float l : logits) sum += std::exp(static_cast<double>(l) - top);
  return top + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(id)]);
}

}  // namespace

ForwardResult forward(StepRunner& runner, const package::PreparedModel& model,
                      std::span<const int32_t> tokens, uint32_t chunk) {
  check_tokens(runner, model, tokens);
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

std::vector<double> score(StepRunner& runner, const package::PreparedModel& model,
                          std::span<const int32_t> tokens, size_t first, uint32_t chunk) {
  FLARE_ASSERT(first >= 1);
  check_tokens(runner, model, tokens);
  chunk = std::clamp<uint32_t>(chunk, 1, model.capacity.prefill_chunk);
  std::vector<double> out;
  SequenceMemory memory = runner.new_sequence();
  // Row t predicts token t + 1, so the last token is never read; chunks end where scoring begins.
  const size_t n_rows = tokens.size() - 1;
  for (size_t at = 0; at < n_rows;) {
    const bool scored = at + 1 >= first;
    const size_t end = scored ? n_rows : std::min(n_rows, first - 1);
    const size_t n = std::min<size_t>(chunk, end - at);
    const StepEntry entry{&memory, tokens.subspan(at, n), scored};
    runner.step({&entry, 1});
    for (int l = 0; l < runner.n_logits(); ++l)
      out.push_back(surprise(runner.logits(l), tokens[at + static_cast<size_t>(l) + 1]));
    at += n;
  }
  return out;
}

void observe(StepRunner& runner, const package::PreparedModel& model,
             std::span<const int32_t> tokens, uint32_t chunk,
             const std::function<void(size_t)>& rows_read) {
  check_tokens(runner, model, tokens);
  chunk = std::clamp<uint32_t>(chunk, 1, model.capacity.prefill_chunk);
  SequenceMemory memory = runner.new_sequence();
  for (size_t at = 0; at < tokens.size(); at += chunk) {
    const size_t n = std::min<size_t>(chunk, tokens.size() - at);
    const StepEntry entry{&memory, tokens.subspan(at, n), false};
    runner.step({&entry, 1});
    rows_read(n);
  }
}

}  // namespace flare::runtime
