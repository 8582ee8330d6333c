// How much an engine does in a while: periodic lines in the log and in the request log.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/json/json.h"
#include "runtime/engine_stats.h"
#include "server/observe/request_log.h"

namespace flare::server::observe {

struct Throughput {
  double seconds = 0;
  uint64_t prefill_tokens = 0, generated_tokens = 0;
  double prefill_per_second = 0, generated_per_second = 0;
  uint32_t running = 0, waiting = 0;
  double kv_usage = 0;  // 0..1
};

// nullopt: nothing happened and nobody waits.
std::optional<Throughput> throughput_between(const runtime::EngineStats& before,
                                             const runtime::EngineStats& after, double seconds);
std::string throughput_text(const Throughput& t);
Json throughput_json(const Throughput& t);

// Logs it every `interval`, from a thread of its own, while something happens.
class ThroughputReporter {
 public:
  // `read` is called on the thread; `log` may be null.
  ThroughputReporter(std::function<runtime::EngineStats()> read, RequestLog* log,
                     std::chrono::milliseconds interval = std::chrono::seconds(10));
  ~ThroughputReporter();
  ThroughputReporter(const ThroughputReporter&) = delete;
  ThroughputReporter& operator=(const ThroughputReporter&) = delete;

 private:
  void run();
  const std::function<runtime::EngineStats()> read_;
  RequestLog* const log_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool quit_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace flare::server::observe
