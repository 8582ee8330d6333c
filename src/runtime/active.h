// A request from submission to its last event, as the engine keeps it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernel/sample.h"
#include "runtime/cache/prefix_store.h"
#include "runtime/cache/sequence.h"
#include "runtime/request.h"
#include "runtime/sampler/sampler.h"

namespace flare::runtime {

// Confined to the engine thread once it is queued, but for `cancelled`.
struct Active {
  using Clock = std::chrono::steady_clock;

  Request request;
  std::shared_ptr<std::atomic<bool>> cancelled;
  uint64_t arrival = 0;   // its number in the order of submission
  uint32_t bypassed = 0;  // later ones that were admitted before it
  std::optional<Sampler> sampler;
  std::optional<SequenceMemory> memory;  // while it has its place
  std::vector<int32_t> tokens;           // prompt, then output
  uint32_t n_prompt = 0;
  uint32_t max_tokens = 0;  // output budget, capped by the context
  // Tokens whose rows were computed or found at some time; fewer may be stored after a pause.
  uint32_t computed_once = 0;
  // Choices over one prompt: the first one leads until it has read all but the last token of it,
  // and those with a place wait for that.
  bool leads = false;
  Active* leader = nullptr;
  PrefixTree::Hit hit{0, 0, PrefixMiss::kDisabled};
  DiskWait disk_wait;
  uint32_t published_pages = 0;
  std::vector<uint32_t> frontiers;  // to snapshot while the prompt is read, descending
  std::byte* kept = nullptr;        // filled by this step, for the nearest of them
  std::vector<uint32_t> mask;
  kernel::RowLogprobs logprobs;                // of the row drawn last, if the request asks
  std::vector<TokenLogprobs> prompt_logprobs;  // so far, until they are told
  Clock::time_point submitted, admitted, first_token, last_token;
  bool told_prompt = false;
  uint32_t told_progress = 0;  // tokens of the prompt
  bool reading = false;        // rows of its prompt are in the piece that is being computed
  bool torn = false;           // a piece of it was given up: its memory is in no state
  bool finished = false;       // its last event was told

  bool was_admitted() const { return admitted != Clock::time_point{}; }
  // And has not heard them yet.
  bool wants_prompt_logprobs() const {
    return request.sampling.prompt_logprobs >= 0 && !told_prompt;
  }
  uint32_t n_generated() const { return static_cast<uint32_t>(tokens.size()) - n_prompt; }
  // Rows that it has yet to compute before it can draw; 0 while it waits for its leader.
  uint32_t remaining() const {
    return leader ? 0 : static_cast<uint32_t>(tokens.size()) - memory->computed();
  }
  // As of `now`, which is the time of the last event.
  Timings timings(Clock::time_point now) const {
    const auto ms = [](Clock::time_point a, Clock::time_point b) {
      return std::chrono::duration<double, std::milli>(b - a).count();
    };
    const bool drew = first_token != Clock::time_point{};
    Timings t;
    t.queue_ms = ms(submitted, was_admitted() ? admitted : now);
    if (was_admitted()) t.prefill_ms = ms(admitted, drew ? first_token : now);
    if (drew) t.decode_ms = ms(first_token, last_token);
    return t;
  }
  Usage usage() const { return {n_prompt, hit.tokens, n_generated(), hit.miss, hit.known}; }
};

}  // namespace flare::runtime
