// The JSON view of an overview. Names stay once given.
#include "server/observe/overview.h"

#include <algorithm>
#include <cmath>
#include <ctime>

namespace flare::server::observe {
namespace {

using runtime::EngineStats;
using runtime::MemoryPlan;

double rounded(double value) { return std::round(value * 1e6) / 1e6; }

double seconds_since(std::chrono::steady_clock::time_point then,
                     std::chrono::steady_clock::time_point now) {
  return rounded(std::max(0.0, std::chrono::duration<double>(now - then).count()));
}

Json queue_json(const EngineStats& e, const MemoryPlan& m, uint32_t max_pending) {
  return Json::object({{"running", e.running},
                       {"prefilling", e.prefilling},
                       {"waiting", e.waiting},
                       {"max_concurrency", m.max_concurrency},
                       {"max_pending", max_pending},
                       {"full", e.queue_full}});
}

Json cache_json(const EngineStats& e, const MemoryPlan& m) {
  const uint32_t held = std::min(e.pages_total, e.pages_active + e.pages_cached);
  const uint32_t rows = std::min(e.rows_total, e.rows_active + e.prefixes.snapshots);
  Json cache = Json::object(
      {{"pages", Json::object({{"total", e.pages_total},
                               {"active", e.pages_active},
                               {"cached", e.pages_cached},
                               {"free", e.pages_total - held},
                               {"tokens", m.page_tokens}})},
       {"rows", Json::object({{"total", e.rows_total},
                              {"active", e.rows_active},
                              {"snapshots", e.prefixes.snapshots},
                              {"free", e.rows_total - rows}})},
       {"snapshots", Json::object({{"memory", e.prefixes.snapshots}, {"most", m.snapshots}})},
       {"queried_tokens", e.queried_prompt_tokens},
       {"hit_tokens", e.cached_prompt_tokens},
       {"evicted_pages", e.prefixes.evicted_pages},
       {"evicted_snapshots", e.prefixes.evicted_snapshots}});
  if (e.disk)
    cache.set("disk", Json::object({{"bytes", e.disk->bytes},
                                    {"limit_bytes", e.disk->limit_bytes},
                                    {"pages", e.disk->pages},
                                    {"rows", e.disk->rows},
                                    {"written", e.disk->written},
                                    {"loaded", e.disk->loaded},
                                    {"evicted", e.disk->evicted},
                                    {"damaged", e.disk->damaged},
                                    {"off", e.disk->off}}));
  return cache;
}

Json memory_json(const MemoryPlan& m, const ProcessFacts& process) {
  return Json::object({{"planned_bytes", m.total()},
                       {"budget_bytes", m.budget},
                       {"resident_bytes", process.resident_bytes},
                       {"use", Json::object({{"program", m.program},
                                             {"weights", m.weights},
                                             {"scratch", m.scratch},
                                             {"io", m.io},
                                             {"rows", uint64_t{m.rows} * m.row_bytes},
                                             {"snapshots", uint64_t{m.snapshots} * m.row_bytes},
                                             {"pages", uint64_t{m.pages} * m.page_bytes}})}});
}

Json rows_json(const Overview& o) {
  Json rows = Json::array();
  for (const runtime::RunningRow& r : o.rows)
    rows.push_back(Json::object({{"number", r.number},
                                 {"phase", r.generated_tokens == 0 ? "prefill" : "decode"},
                                 {"prompt_tokens", r.prompt_tokens},
                                 {"cached_tokens", r.cached_tokens},
                                 {"read_tokens", r.read_tokens},
                                 {"generated_tokens", r.generated_tokens},
                                 {"max_tokens", r.max_tokens},
                                 {"seconds", seconds_since(r.submitted, o.now)}}));
  return rows;
}

Json quantiles_json(const std::optional<Observer::Quantiles>& q) {
  if (!q) return Json();
  return Json::object({{"p50", rounded(q->p50)}, {"p95", rounded(q->p95)}});
}

Json trouble_json(const Overview& o) {
  Json list = Json::array();
  for (const Observer::Trouble& t : o.trouble)
    list.push_back(Json::object({{"unix", std::chrono::system_clock::to_time_t(t.when)},
                                 {"api", api_text(t.api)},
                                 {"status", t.status},
                                 {"code", t.code}}));
  return list;
}

}  // namespace

std::string_view phase_text(Phase phase) {
  switch (phase) {
    case Phase::kLoading:
      return "loading";
    case Phase::kReady:
      return "ready";
    case Phase::kDraining:
      return "draining";
    case Phase::kFailed:
      return "failed";
  }
  return "failed";
}

Json status_json(const Overview& o) {
  const Scrape& n = o.numbers;
  const double age = static_cast<double>(std::time(nullptr)) - n.process.start_unix_seconds;
  Json status = Json::object({{"v", 1},
                              {"state", phase_text(o.phase)},
                              {"model", n.model.empty() ? Json() : Json(n.model)},
                              {"uptime_seconds", std::max(0.0, std::floor(age))},
                              {"http_connections", n.counts.http_connections}});
  if (!n.engine || !n.memory) return status;
  const EngineStats& e = *n.engine;
  status.set("device", o.device);
  status.set("max_context", n.memory->max_context);
  status.set("queue", queue_json(e, *n.memory, o.max_pending));
  status.set("requests", rows_json(o));
  status.set("cache", cache_json(e, *n.memory));
  status.set("memory", memory_json(*n.memory, n.process));
  status.set("tokens", Json::object({{"prefill", e.prompt_tokens},
                                     {"generated", e.generated_tokens},
                                     {"steps", e.steps}}));
  status.set("latency_seconds",
             Json::object({{"ttft", quantiles_json(o.latency.ttft)},
                           {"inter_token", quantiles_json(o.latency.inter_token)}}));
  status.set("errors", trouble_json(o));
  return status;
}

}  // namespace flare::server::observe
