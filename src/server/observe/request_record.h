// What is known of one request when it ends: counts, times and names, never text or keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/request.h"

namespace flare::server::observe {

enum class Api {
  kChat,
  kCompletions,
  kResponses,
  kMessages,
  kNative,
  kEmbeddings,
  kRerank,
  kScore
};
inline constexpr size_t kApis = 8;
// "chat", "completions", …
std::string_view api_text(Api api);

// The API that generates on a path; nullopt: none does.
std::optional<Api> api_of_path(std::string_view path);

enum class Outcome {
  kCompleted,
  kCancelled,  // by the client, who may just have left
  kTimedOut,   // in the queue, or at its own deadline
  kFailed,     // the engine, a defect, or cut off by a shutdown
  kRejected,   // never started: a wrong request, a full queue
};
inline constexpr size_t kOutcomes = 5;
std::string_view outcome_text(Outcome outcome);

struct RequestRecord {
  Api api = Api::kChat;
  std::string id;          // x-request-id
  std::string model;       // as echoed
  int status = 200;        // as it was sent; 0: nothing was
  std::string error_code;  // of ApiError; empty where all went well
  Outcome outcome = Outcome::kFailed;
  std::string finish;  // OpenAI's word, of the first choice; empty: it has none
  bool stream = false;
  uint32_t n_choices = 1;
  int64_t seed = 0;

  // Of all choices together; the prompt counts once. As the client's `usage` has them.
  uint64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0, reasoning_tokens = 0;
  uint64_t drafted_tokens = 0, accepted_tokens = 0;
  // Of the first choice.
  runtime::PrefixMiss miss = runtime::PrefixMiss::kDisabled;
  uint32_t known_tokens = 0;
  double queue_ms = 0, prefill_ms = 0, decode_ms = 0;

  uint32_t images = 0;
  std::string tool_format;      // of the model; empty: none
  uint32_t tool_calls = 0;      // complete ones
  uint32_t cut_tool_calls = 0;  // those that a limit left unfinished
  uint32_t dead_ends = 0;       // choices whose constraint left no token

  // Filled in by Observation, from the arrival on.
  std::optional<double> ttft_ms;
  double total_ms = 0;
};

// "cold", "diverged@N", …
std::string miss_text(const RequestRecord& record);

}  // namespace flare::server::observe
