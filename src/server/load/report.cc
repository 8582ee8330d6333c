// The arithmetic of the report, and its two shapes.
#include "server/load/report.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace flare::server::load {
namespace {

double rounded(double value) { return std::round(value * 1000) / 1000; }

Json percentiles_json(const Percentiles& p) {
  return Json::object({{"n", p.n},
                       {"mean", rounded(p.mean)},
                       {"p50", rounded(p.p50)},
                       {"p90", rounded(p.p90)},
                       {"p99", rounded(p.p99)},
                       {"max", rounded(p.most)}});
}

Json or_null(const std::optional<uint64_t>& value) { return value ? Json(*value) : Json(); }

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

std::string three(const Percentiles& p) {
  return p.n == 0 ? "-" : fmt::format("{:.1f} / {:.1f} / {:.1f}", p.p50, p.p90, p.p99);
}

// The samples of a point, before they are put in order.
struct Samples {
  std::vector<double> first, later_first, between, per_token, total;
  double prompt = 0, cached = 0, output = 0, first_s = 0, read = 0, drafts = 0, kept = 0;

  void add(const Record& r) {
    const double prompt_tokens = static_cast<double>(r.prompt_tokens.value_or(0));
    const double cached_tokens = static_cast<double>(r.cached_tokens.value_or(0));
    const double tokens = static_cast<double>(r.tokens());
    total.push_back(r.total_s * 1000);
    prompt += prompt_tokens;
    cached += cached_tokens;
    output += tokens;
    drafts += static_cast<double>(r.drafts.value_or(0));
    kept += static_cast<double>(r.drafts_kept.value_or(0));
    if (r.events == 0) return;  // nothing was said: no time to a first word
    first.push_back(r.first_s * 1000);
    if (r.turn > 0) later_first.push_back(r.first_s * 1000);
    read += prompt_tokens - cached_tokens;
    first_s += r.first_s;
    for (const double gap : r.gaps_s) between.push_back(gap * 1000);
    if (tokens > 1) per_token.push_back((r.last_s - r.first_s) * 1000 / (tokens - 1));
  }
};

}  // namespace

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double rank = p / 100 * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (rank - static_cast<double>(below)) * (values[above] - values[below]);
}

Percentiles percentiles_of(const std::vector<double>& values) {
  Percentiles p;
  p.n = values.size();
  for (const double value : values) p.mean += value / static_cast<double>(values.size());
  p.p50 = percentile(values, 50);
  p.p90 = percentile(values, 90);
  p.p99 = percentile(values, 99);
  p.most = percentile(values, 100);
  return p;
}

Summary summary_of(const PointResult& result) {
  Summary s;
  Samples samples;
  for (const Record& record : result.records) {
    ++s.requests;
    if (record.complete()) {
      ++s.complete;
      samples.add(record);
    } else if (record.failure == "stopped") {
      ++s.stopped;
    } else {
      ++s.failures[record.failure];
    }
  }
  for (const double wall : result.wall_s) s.wall_s += wall;
  s.first_ms = percentiles_of(samples.first);
  s.later_first_ms = percentiles_of(samples.later_first);
  s.between_ms = percentiles_of(samples.between);
  s.per_token_ms = percentiles_of(samples.per_token);
  s.total_ms = percentiles_of(samples.total);
  const double n = static_cast<double>(s.complete);
  s.requests_per_s = ratio(n, s.wall_s);
  s.output_per_s = ratio(samples.output, s.wall_s);
  s.prefill_per_s = ratio(samples.read, samples.first_s);
  s.decode_per_s = ratio(1000, s.per_token_ms.mean);
  s.prompt_tokens = ratio(samples.prompt, n);
  s.cached_tokens = ratio(samples.cached, n);
  s.output_tokens = ratio(samples.output, n);
  if (samples.drafts > 0) s.acceptance = samples.kept / samples.drafts;
  return s;
}

Json record_json(const Record& record) {
  Json gaps = Json::array();
  for (const double gap : record.gaps_s) gaps.push_back(rounded(gap * 1000));
  return Json::object(
      {{"repetition", record.repetition},
       {"session", record.session},
       {"turn", record.turn},
       {"start_ms", rounded(record.start_s * 1000)},
       {"first_ms", record.events > 0 ? Json(rounded(record.first_s * 1000)) : Json()},
       {"last_ms", record.events > 0 ? Json(rounded(record.last_s * 1000)) : Json()},
       {"total_ms", rounded(record.total_s * 1000)},
       {"between_ms", std::move(gaps)},
       {"status", record.status},
       {"failure", record.complete() ? Json() : Json(record.failure)},
       {"detail", record.detail.empty() ? Json() : Json(record.detail)},
       {"prompt_tokens", or_null(record.prompt_tokens)},
       {"cached_tokens", or_null(record.cached_tokens)},
       {"output_tokens", record.tokens()}});
}

Json point_json(const PointResult& result, bool records) {
  const Point& p = result.point;
  const Summary s = summary_of(result);
  Json failures = Json::object();
  for (const auto& [kind, n] : s.failures) failures.set(kind, n);
  Json walls = Json::array();
  for (const double wall : result.wall_s) walls.push_back(rounded(wall));
  const bool open = p.rate > 0;
  Json json = Json::object(
      {{"scenario", scenario_name(p.scenario)},
       {"wanted_prompt_tokens", p.prompt_tokens},
       {"wanted_output_tokens", p.output_tokens},
       {"concurrency", open ? Json() : Json(p.concurrency)},
       {"rate", open ? Json(p.rate) : Json()},
       {"turns", p.turns},
       {"requests", s.requests},
       {"complete", s.complete},
       {"failures", std::move(failures)},
       {"stopped", s.stopped},
       {"interrupted", result.interrupted},
       {"wall_s", std::move(walls)},
       {"ttft_ms", percentiles_json(s.first_ms)},
       {"later_turns_ttft_ms", s.later_first_ms.n ? percentiles_json(s.later_first_ms) : Json()},
       {"inter_token_ms", percentiles_json(s.between_ms)},
       {"per_output_token_ms", percentiles_json(s.per_token_ms)},
       {"request_ms", percentiles_json(s.total_ms)},
       {"requests_per_s", rounded(s.requests_per_s)},
       {"output_tokens_per_s", rounded(s.output_per_s)},
       {"prefill_tokens_per_s", rounded(s.prefill_per_s)},
       {"decode_tokens_per_s", rounded(s.decode_per_s)},
       {"mean_prompt_tokens", rounded(s.prompt_tokens)},
       {"mean_cached_tokens", rounded(s.cached_tokens)},
       {"mean_output_tokens", rounded(s.output_tokens)},
       {"draft_acceptance", s.acceptance ? Json(rounded(*s.acceptance)) : Json()}});
  if (records) {
    Json list = Json::array();
    for (const Record& record : result.records) list.push_back(record_json(record));
    json.set("records", std::move(list));
  }
  return json;
}

std::string table_head() {
  return fmt::format("{:>7} {:>7} {:>7} {:>9}  {:>24}  {:>22}  {:>9} {:>9} {:>9}\n", "prompt",
                     "cached", "load", "requests", "first token ms 50/90/99", "between ms 50/90/99",
                     "prefill/s", "decode/s", "output/s");
}

std::string table_row(const PointResult& result) {
  const Summary s = summary_of(result);
  const Point& p = result.point;
  const std::string load =
      p.rate > 0 ? fmt::format("{:g}/s", p.rate) : fmt::format("{}", p.concurrency);
  const std::string requests = s.complete == s.requests
                                   ? fmt::format("{}", s.requests)
                                   : fmt::format("{} of {}", s.complete, s.requests);
  return fmt::format("{:>7.0f} {:>7.0f} {:>7} {:>9}  {:>24}  {:>22}  {:>9.1f} {:>9.1f} {:>9.1f}\n",
                     s.prompt_tokens, s.cached_tokens, load, requests, three(s.first_ms),
                     three(s.between_ms), s.prefill_per_s, s.decode_per_s, s.output_per_s);
}

std::string failures_text(const Summary& summary) {
  uint64_t failed = 0;
  std::string kinds;
  for (const auto& [kind, n] : summary.failures) {
    failed += n;
    kinds += fmt::format("{}{} × {}", kinds.empty() ? "" : ", ", n, kind);
  }
  return failed == 0 ? "" : fmt::format("{} of {} failed: {}", failed, summary.requests, kinds);
}

}  // namespace flare::server::load
