// What requests report, spread to counters, log and the dashboard's samples.
#include "server/observe/observer.h"

#include <algorithm>

#include "base/log.h"

namespace flare::server::observe {
namespace {

constexpr size_t kTroubleKept = 8;
constexpr auto kRecent = std::chrono::seconds(60);

// Of ascending values: the smallest that at least `share` of them do not exceed.
double quantile(const std::vector<float>& ascending, double share) {
  const auto rank = static_cast<size_t>(share * static_cast<double>(ascending.size()));
  return static_cast<double>(ascending[std::min(rank, ascending.size() - 1)]);
}

double seconds_between(std::chrono::steady_clock::time_point a,
                       std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

}  // namespace

std::string_view api_text(Api api) {
  switch (api) {
    case Api::kChat:
      return "chat";
    case Api::kCompletions:
      return "completions";
    case Api::kResponses:
      return "responses";
    case Api::kMessages:
      return "messages";
    case Api::kNative:
      return "native";
    case Api::kEmbeddings:
      return "embeddings";
    case Api::kRerank:
      return "rerank";
    case Api::kScore:
      return "score";
  }
  return "other";
}

std::optional<Api> api_of_path(std::string_view path) {
  static constexpr struct {
    std::string_view path;
    Api api;
  } kPaths[] = {{"/v1/chat/completions", Api::kChat},
                {"/v1/completions", Api::kCompletions},
                {"/v1/responses", Api::kResponses},
                {"/v1/messages", Api::kMessages},
                {"/completion", Api::kNative},
                {"/v1/embeddings", Api::kEmbeddings},
                {"/v1/rerank", Api::kRerank},
                {"/rerank", Api::kRerank},
                {"/v2/rerank", Api::kRerank},
                {"/v1/score", Api::kScore},
                {"/score", Api::kScore}};
  for (const auto& row : kPaths)
    if (row.path == path) return row.api;
  return std::nullopt;
}

std::string_view outcome_text(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCompleted:
      return "completed";
    case Outcome::kCancelled:
      return "cancelled";
    case Outcome::kTimedOut:
      return "timed_out";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kRejected:
      return "rejected";
  }
  return "failed";
}

std::string miss_text(const RequestRecord& record) {
  return runtime::prefix_miss_note({.miss = record.miss, .known_tokens = record.known_tokens});
}

void Observer::Samples::add(double seconds) {
  ring[next++ % ring.size()] = {Clock::now(), static_cast<float>(seconds)};
}

std::vector<float> Observer::Samples::since(Clock::time_point begin) const {
  std::vector<float> found;
  for (size_t i = 0; i < std::min(next, ring.size()); ++i)
    if (ring[i].when >= begin) found.push_back(ring[i].seconds);
  std::ranges::sort(found);
  return found;
}

void Observer::started(const RequestRecord& record) {
  if (log_) log_->request_start(record);
}

void Observer::first_token(double seconds) {
  metrics_.first_token(seconds);
  const std::lock_guard lock(mutex_);
  ttft_.add(seconds);
}

void Observer::token_gap(double seconds, uint32_t n) {
  if (n == 0) return;
  metrics_.token_gap(seconds / n, n);
  const std::lock_guard lock(mutex_);
  inter_token_.add(seconds / n);
}

void Observer::finished(const RequestRecord& record) {
  metrics_.finished(record);
  if (log_) log_->request_done(record);
  log_debug("{} {} {}: {} prompt tokens, {} cached, miss {}; {} generated; {:.0f} ms",
            api_text(record.api), record.id, outcome_text(record.outcome), record.prompt_tokens,
            record.cached_tokens, miss_text(record), record.generated_tokens, record.total_ms);
  if (record.outcome == Outcome::kFailed || record.outcome == Outcome::kTimedOut)
    note_trouble(record);
}

void Observer::rejected(const RequestRecord& record) {
  metrics_.finished(record);
  if (log_) log_->request_rejected(record);
  note_trouble(record);
}

void Observer::note_trouble(const RequestRecord& record) {
  const std::lock_guard lock(mutex_);
  if (trouble_.size() == kTroubleKept) trouble_.erase(trouble_.begin());
  trouble_.push_back(
      {std::chrono::system_clock::now(), record.api, record.status, record.error_code});
}

Observer::Latency Observer::recent_latency() const {
  std::vector<float> ttft, gaps;
  {
    const std::lock_guard lock(mutex_);
    const Clock::time_point begin = Clock::now() - kRecent;
    ttft = ttft_.since(begin);
    gaps = inter_token_.since(begin);
  }
  Latency latency;
  if (!ttft.empty()) latency.ttft = {quantile(ttft, 0.5), quantile(ttft, 0.95)};
  if (!gaps.empty()) latency.inter_token = {quantile(gaps, 0.5), quantile(gaps, 0.95)};
  return latency;
}

std::vector<Observer::Trouble> Observer::recent_trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

Observation::Observation(Observer* observer, Api api, std::string_view id,
                         Clock::time_point arrived)
    : observer_(observer), arrived_(arrived) {
  record_.api = api;
  record_.id = id;
}

Observation::~Observation() { finish(has_client_left() ? Outcome::kCancelled : Outcome::kFailed); }

void Observation::accepted() {
  if (accepted_ || !observer_) return;
  accepted_ = true;
  last_token_.resize(record_.n_choices);
  observer_->started(record_);
}

void Observation::tokens(size_t choice, size_t n) {
  if (!accepted_ || n == 0 || choice >= last_token_.size()) return;
  const Clock::time_point now = Clock::now();
  Clock::time_point& last = last_token_[choice];
  if (!record_.ttft_ms) {
    const double seconds = seconds_between(arrived_, now);
    record_.ttft_ms = seconds * 1000;
    observer_->first_token(seconds);
  }
  // What comes in one piece with a choice's first token has no gap of its own.
  if (last != Clock::time_point{})
    observer_->token_gap(seconds_between(last, now), static_cast<uint32_t>(n));
  last = now;
}

void Observation::choice_ended(bool first_of_prompt, const runtime::Usage& usage,
                               const runtime::Timings& timings) {
  if (!has_times_) {
    has_times_ = true;
    record_.miss = usage.miss;
    record_.known_tokens = usage.known_tokens;
    record_.queue_ms = timings.queue_ms;
    record_.prefill_ms = timings.prefill_ms;
    record_.decode_ms = timings.decode_ms;
  }
  record_.generated_tokens += usage.generated_tokens;
  record_.drafted_tokens += usage.drafted_tokens;
  record_.accepted_tokens += usage.accepted_tokens;
  if (!first_of_prompt) return;
  record_.prompt_tokens += usage.prompt_tokens;
  record_.cached_tokens += usage.cached_tokens;
}

void Observation::finish(Outcome outcome) {
  if (!accepted_ || finished_) return;
  finished_ = true;
  record_.outcome = outcome;
  record_.total_ms = seconds_between(arrived_, Clock::now()) * 1000;
  observer_->finished(record_);
}

}  // namespace flare::server::observe
