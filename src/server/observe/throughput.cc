// Differences between two looks at the engine.
#include "server/observe/throughput.h"

#include <cmath>
#include <utility>

#include "base/log.h"

namespace flare::server::observe {
namespace {

using runtime::EngineStats;

double rounded(double value) { return std::round(value * 100) / 100; }

}  // namespace

std::optional<Throughput> throughput_between(const EngineStats& before, const EngineStats& after,
                                             double seconds) {
  Throughput t;
  t.seconds = seconds;
  t.prefill_tokens = after.prompt_tokens - before.prompt_tokens;
  t.generated_tokens = after.generated_tokens - before.generated_tokens;
  t.running = after.running;
  t.waiting = after.waiting;
  if (t.prefill_tokens + t.generated_tokens + t.running + t.waiting == 0) return std::nullopt;
  if (seconds > 0) {
    t.prefill_per_second = static_cast<double>(t.prefill_tokens) / seconds;
    t.generated_per_second = static_cast<double>(t.generated_tokens) / seconds;
  }
  if (after.pages_total > 0)
    t.kv_usage = static_cast<double>(after.pages_active) / after.pages_total;
  return t;
}

std::string throughput_text(const Throughput& t) {
  return fmt::format(
      "{} running, {} waiting; prefill {:.1f} tokens/s, decode {:.1f} tokens/s; pages {:.0f} %",
      t.running, t.waiting, t.prefill_per_second, t.generated_per_second, t.kv_usage * 100);
}

Json throughput_json(const Throughput& t) {
  return Json::object({{"seconds", rounded(t.seconds)},
                       {"running", t.running},
                       {"waiting", t.waiting},
                       {"prefill_tokens", t.prefill_tokens},
                       {"generated_tokens", t.generated_tokens},
                       {"prefill_per_second", rounded(t.prefill_per_second)},
                       {"generated_per_second", rounded(t.generated_per_second)},
                       {"kv_usage", rounded(t.kv_usage)}});
}

ThroughputReporter::ThroughputReporter(std::function<EngineStats()> read, RequestLog* log,
                                       std::chrono::milliseconds interval)
    : read_(std::move(read)), log_(log), interval_(interval), thread_([this] { run(); }) {}

ThroughputReporter::~ThroughputReporter() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ThroughputReporter::run() {
  using Clock = std::chrono::steady_clock;
  EngineStats before = read_();
  Clock::time_point then = Clock::now();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval_, [this] { return quit_; })) {
    lock.unlock();
    EngineStats after = read_();
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - then).count();
    if (const auto t = throughput_between(before, after, seconds)) {
      log_info("{}", throughput_text(*t));
      if (log_) log_->write("throughput", throughput_json(*t));
    }
    before = std::move(after);
    then = now;
    lock.lock();
  }
}

}  // namespace flare::server::observe
