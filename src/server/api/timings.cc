// Milliseconds and rates of an answer, from any of its events.
#include "server/api/timings.h"

#include <cmath>

namespace flare::server {
namespace {

double rounded(double value) { return std::round(value * 1000) / 1000; }

double per_second(double n, double ms) { return ms > 0 && n > 0 ? rounded(n * 1000 / ms) : 0; }

}  // namespace

Json timings_json(const TextEvent& event) {
  const runtime::Usage& usage = event.usage;
  const runtime::Timings& t = event.timings;
  const uint32_t prompt_n = usage.prompt_tokens - usage.cached_tokens;
  // The first token comes with the prompt; decoding takes the time of the others.
  const double decoded = usage.generated_tokens > 0 ? usage.generated_tokens - 1.0 : 0;
  return Json::object({{"prompt_n", prompt_n},
                       {"prompt_ms", rounded(t.prefill_ms)},
                       {"prompt_per_second", per_second(prompt_n, t.prefill_ms)},
                       {"predicted_n", usage.generated_tokens},
                       {"predicted_ms", rounded(t.decode_ms)},
                       {"predicted_per_second", per_second(decoded, t.decode_ms)},
                       {"cache_n", usage.cached_tokens},
                       {"draft_n", usage.drafted_tokens},
                       {"draft_n_accepted", usage.accepted_tokens},
                       {"queue_ms", rounded(t.queue_ms)},
                       {"ttft_ms", rounded(t.queue_ms + t.prefill_ms)}});
}

Json progress_json(const TextEvent& event) {
  return Json::object({{"total", event.usage.prompt_tokens},
                       {"cached", event.usage.cached_tokens},
                       {"processed", event.progress->processed},
                       {"time_ms", rounded(event.progress->ms)}});
}

}  // namespace flare::server
