// A server at one moment, for the dashboard and GET /v1/flare/status.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "server/observe/metrics.h"
#include "server/observe/observer.h"

namespace flare::server::observe {

enum class Phase { kLoading, kReady, kDraining, kFailed };
std::string_view phase_text(Phase phase);

// A plain value: whoever has it needs no lock of the server.
struct Overview {
  Phase phase = Phase::kLoading;
  std::chrono::steady_clock::time_point now;
  std::string device;  // what computes, in words
  uint32_t max_pending = 0;
  Scrape numbers;
  std::vector<runtime::RunningRow> rows;
  Observer::Latency latency;
  std::vector<Observer::Trouble> trouble;
};

// Queue, cache and memory as JSON (serving.md S1).
Json status_json(const Overview& overview);

}  // namespace flare::server::observe
