// A generation request as the engine sees it, and the events it answers with.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/seams.h"

namespace flare::runtime {

// Rules over single ids, which few requests have. Immutable: the choices of a request share them.
struct TokenRules {
  std::vector<std::pair<int32_t, float>> bias;  // added to the logits, each id once
  std::vector<int32_t> banned;                  // never drawn
  std::vector<int32_t> allowed;                 // nothing else is drawn; empty: everything
  // Sequences, each nonempty: the last id is not drawn where the answer ends with the others.
  std::vector<std::vector<int32_t>> bad_words;
};

// See runtime/sampler/dry.h.
struct DrySettings {
  float multiplier = 0;  // 0: off
  float base = 1.75f;
  int32_t allowed_length = 2;
  int32_t penalty_last_n = -1;  // −1: the whole sequence
};

// serving.md S8; neutral values switch a step off.
struct SamplingSettings {
  float temperature = 1;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float typical_p = 1;
  float top_n_sigma = -1;     // 0 and below: off
  float xtc_probability = 0;  // 0: off
  float xtc_threshold = 0.1f;
  float repetition_penalty = 1;
  int32_t repeat_last_n = 64;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  DrySettings dry;
  std::shared_ptr<const std::vector<uint32_t>> dry_breakers;  // bit id; null: none
  std::shared_ptr<const TokenRules> rules;                    // null: none
  uint32_t min_tokens = 0;                                    // no stop id is drawn before
  uint64_t seed = 0;
  uint32_t choice = 0;   // index of this choice among several over one prompt
  int32_t id_limit = 0;  // ids at or above are reserved rows; 0: none
  // Records for the tokens of the answer: −1 none, 0 each token's own log-probability, 1..20 that
  // many of the likeliest ids too.
  int32_t top_logprobs = -1;
  // The same for the tokens of the prompt, if the engine has it (Engine::has_prompt_logprobs): each
  // under the raw distribution behind the ones before it.
  int32_t prompt_logprobs = -1;
};

// Natural logarithms of the raw distribution that a token was drawn from: before bias, bans, mask,
// penalties and temperature, without reserved ids. −∞ is −9999 (serving.md S8.7).
struct TokenLogprobs {
  int32_t id = -1;
  float logprob = 0;
  // The likeliest ids in descending order, lower id first on a tie; the token itself is among them
  // only if it is that likely.
  std::vector<std::pair<int32_t, float>> top;
};

enum class FinishReason {
  kStopId,        // one of stop_ids was drawn
  kStopped,       // the output gate ended the answer (stop string)
  kLength,        // max_tokens reached
  kContext,       // the context is full
  kDeadEnd,       // the constraint left no legal token
  kCancelled,     // on request, or the engine is stopping
  kDeadline,      // the request's deadline has passed
  kQueueTimeout,  // not admitted within the engine's pending_timeout
  kFailed,        // a defect; `error` says what
};

// Why no more of a prompt was reused (serving.md S10.9).
enum class PrefixMiss {
  kNone,        // all but the last prompt token was there
  kCold,        // nothing of the prompt was known
  kDiverged,    // the prompt leaves what is known
  kNoSnapshot,  // more is known, but there is no frontier to go on from
  kEvicted,     // there was a frontier further on, and it had to go
  kSalt,        // more is known under another salt
  kDisabled,    // the engine keeps no prefixes; stays the last
};
inline constexpr size_t kPrefixMisses = static_cast<size_t>(PrefixMiss::kDisabled) + 1;
std::string_view prefix_miss_text(PrefixMiss miss);
struct Usage;
// As the log names it: the same, but "diverged@N" with the first token that differs.
std::string prefix_miss_note(const Usage& usage);

struct Usage {
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;  // not computed again
  uint32_t generated_tokens = 0;
  PrefixMiss miss = PrefixMiss::kDisabled;
  uint32_t known_tokens = 0;                         // how far the prompt agrees with what is kept
  uint32_t drafted_tokens = 0, accepted_tokens = 0;  // of generated ones, by speculation
};

struct Timings {
  double queue_ms = 0;    // submission to admission
  double prefill_ms = 0;  // admission to first token
  double decode_ms = 0;   // first to last token
};

// How far the prompt is read.
struct PromptProgress {
  uint32_t processed = 0;  // tokens, cached ones included
  double ms = 0;           // since admission
};

struct Event {
  // The first event of a request that gets its place, and of no other: no tokens.
  bool admitted = false;
  std::span<const int32_t> tokens;  // newly committed; valid during the call
  // If asked for, one record for each of `tokens`, in their order; else empty. A token that the
  // gate did not keep, and the stop id that ended an answer, have none.
  std::vector<TokenLogprobs> logprobs;
  // If asked for, once, in an event before any token: a record for every token of the prompt but
  // the first, which nothing precedes. Such a request reads nothing from the prefix cache (S8.9).
  std::vector<TokenLogprobs> prompt_logprobs;
  // If asked for: in the event with `admitted`, then in one behind every step that read more of the
  // prompt, all of it in the last, before any token. Choices that share a reading have one teller.
  std::optional<PromptProgress> progress;
  std::optional<FinishReason> finished;  // set in the last event
  int32_t stop_id = -1;                  // kStopId: the id, which is not among `tokens`
  Usage usage;                           // so far, as the timings
  Timings timings;
  std::string error;
};

struct Request {
  std::vector<int32_t> prompt;       // at least one id
  uint32_t max_tokens = UINT32_MAX;  // 0: read the prompt, which later requests may go on from
  SamplingSettings sampling;
  std::vector<int32_t> stop_ids;
  bool ignore_stop_ids = false;
  bool tells_progress = false;  // of reading the prompt
  // -10..10: higher ones are admitted first (serving.md S9.2), and paused last.
  int priority = 0;
  // The request ends with kDeadline at the next step boundary behind it.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // Part of a prefix's identity: requests of different salts share nothing.
  std::string cache_salt;
  // Names a conversation, whose newest snapshot is evicted last; empty: none. Never needed for a
  // hit.
  std::string session;
  // Numbers of prompt tokens behind which a later request may want to go on, ascending.
  std::vector<uint32_t> frontiers;
  std::unique_ptr<Constraint> constraint;  // may be null
  std::unique_ptr<OutputGate> gate;        // may be null
  // Called on the engine thread for every event; must return quickly and must not throw.
  std::function<void(const Event&)> on_event;
};

}  // namespace flare::runtime
