// Counting. What the counts look like from outside is in exposition.cc.
#include "server/observe/metrics.h"

#include <algorithm>

namespace flare::server::observe {
namespace {

// In steps of about two; what an operator looks at lies well inside.
constexpr double kTokenSeconds[] = {0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                                    0.1,    0.2,    0.5,   1,     2,     5,    10};
constexpr double kWaitSeconds[] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
                                   1,     2,     5,     10,   20,   30,   60,  120, 300};
constexpr double kRequestSeconds[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1,   2,    5,
                                      10,   20,   30,   60,  120, 300, 600, 1200, 3600};

}  // namespace

Counts::Counts()
    : ttft(kWaitSeconds),
      inter_token(kTokenSeconds),
      request(kRequestSeconds),
      queue(kWaitSeconds),
      prefill(kWaitSeconds),
      decode(kRequestSeconds),
      constraint_compile(kTokenSeconds) {}

void Metrics::finished(const RequestRecord& r) {
  const std::lock_guard lock(mutex_);
  ++counts_.requests[static_cast<size_t>(r.api)][static_cast<size_t>(r.outcome)];
  if (r.outcome == Outcome::kRejected) return;
  counts_.prompt_tokens += r.prompt_tokens;
  counts_.cached_prompt_tokens += r.cached_tokens;
  counts_.reasoning_tokens += r.reasoning_tokens;
  counts_.dead_ends += r.dead_ends;
  counts_.images += r.images;
  if (r.tool_calls > 0) counts_.tool_calls[{r.tool_format, "complete"}] += r.tool_calls;
  if (r.cut_tool_calls > 0) counts_.tool_calls[{r.tool_format, "cut"}] += r.cut_tool_calls;
  counts_.request.record(r.total_ms / 1000);
  counts_.queue.record(r.queue_ms / 1000);
  if (r.outcome == Outcome::kCompleted) ++counts_.finishes[r.finish];
  if (!r.ttft_ms) return;  // it never ran, or was over before its first token
  ++counts_.misses[std::min(static_cast<size_t>(r.miss), counts_.misses.size() - 1)];
  counts_.prefill.record(r.prefill_ms / 1000);
  counts_.decode.record(r.decode_ms / 1000);
}

void Metrics::first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  counts_.ttft.record(seconds);
}

void Metrics::token_gap(double seconds, uint32_t n) {
  const std::lock_guard lock(mutex_);
  counts_.inter_token.record(seconds, n);
}

void Metrics::responded(std::string_view route, int status) {
  const std::lock_guard lock(mutex_);
  ++counts_.responses[{std::string(route), status}];
}

void Metrics::connections(uint32_t open) {
  const std::lock_guard lock(mutex_);
  counts_.http_connections = open;
}

void Metrics::constraint_compiled(double seconds) {
  const std::lock_guard lock(mutex_);
  counts_.constraint_compile.record(seconds);
}

Counts Metrics::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace flare::server::observe
