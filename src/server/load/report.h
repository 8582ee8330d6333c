// What a load measured, as numbers: percentiles, rates, failures.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "server/load/runner.h"

namespace flare::server::load {

// Linear interpolation between the nearest ranks, p in 0..100; 0 of no values.
double percentile(std::vector<double> values, double p);

struct Percentiles {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, most = 0;
  uint64_t n = 0;
};
Percentiles percentiles_of(const std::vector<double>& values);

// Of complete requests but for `failures`. Milliseconds; token counts are the server's.
struct Summary {
  uint64_t requests = 0, complete = 0, stopped = 0;
  std::map<std::string, uint64_t> failures;  // Record::failure → how often; not "stopped"
  Percentiles first_ms;                      // to the first text: TTFT
  Percentiles later_first_ms;                // the same of the second and later turns of sessions
  Percentiles between_ms;                    // between events with text, pooled over the requests
  Percentiles per_token_ms;                  // of each request: first to last text / (tokens - 1)
  Percentiles total_ms;
  double wall_s = 0;
  double requests_per_s = 0, output_per_s = 0;  // of the wall time
  double prefill_per_s = 0;  // prompt tokens that were not cached, by the time to the first text
  double decode_per_s = 0;   // of one request: 1000 / mean of per_token_ms
  double prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  // means
  std::optional<double> acceptance;                                // drafted tokens that were kept
};
Summary summary_of(const PointResult& result);

Json record_json(const Record& record);
// Point and summary; with `records` every request too.
Json point_json(const PointResult& result, bool records);
// A heading, and one line for a point.
std::string table_head();
std::string table_row(const PointResult& result);
// "2 of 12 failed: 429 twice, timeout once"; empty if none did.
std::string failures_text(const Summary& summary);

}  // namespace flare::server::load
