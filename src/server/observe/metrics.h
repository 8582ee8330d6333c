// The numbers of a server (serving.md S13): what is counted here, and their text for Prometheus.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/histogram.h"
#include "runtime/engine.h"
#include "server/observe/process_facts.h"
#include "server/observe/request_record.h"

namespace flare::server::observe {

// What no one else counts. Counters only grow.
struct Counts {
  Counts();
  std::array<std::array<uint64_t, kOutcomes>, kApis> requests{};
  std::map<std::string, uint64_t, std::less<>> finishes;      // completed requests by finish reason
  std::map<std::pair<std::string, int>, uint64_t> responses;  // by route and status
  uint64_t prompt_tokens = 0, cached_prompt_tokens = 0, reasoning_tokens = 0;
  std::array<uint64_t, runtime::kPrefixMisses> misses{};
  uint64_t dead_ends = 0, images = 0;
  std::map<std::pair<std::string, std::string>, uint64_t> tool_calls;  // by format and result
  uint32_t http_connections = 0;                                       // open now
  Histogram ttft, inter_token, request, queue, prefill, decode, constraint_compile;
};

// Any thread; calls are short and allocate seldom.
class Metrics {
 public:
  void finished(const RequestRecord& record);  // rejected ones too
  void first_token(double seconds);
  void token_gap(double seconds, uint32_t n);
  // A response began. `route` is the path as the table of routes has it, never the client's.
  void responded(std::string_view route, int status);
  void connections(uint32_t open);
  void constraint_compiled(double seconds);
  Counts counts() const;

 private:
  mutable std::mutex mutex_;
  Counts counts_;  // guarded by mutex_
};

// Everything that one scrape shows. Gauges and the engine's counters are read when it is asked for.
struct Scrape {
  Counts counts;
  std::optional<runtime::EngineStats> engine;  // none: still loading
  std::optional<runtime::MemoryPlan> memory;   // the same
  ProcessFacts process;
  std::string model;    // served name; empty while loading
  bool aliases = true;  // also under the names of others
};

// Prometheus text format 0.0.4.
inline constexpr std::string_view kExpositionType = "text/plain; version=0.0.4; charset=utf-8";
std::string exposition(const Scrape& scrape);

}  // namespace flare::server::observe
