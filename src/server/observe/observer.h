// Where requests report what happens to them: one object for metrics, request log and dashboard.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/observe/metrics.h"
#include "server/observe/request_log.h"
#include "server/observe/request_record.h"

namespace flare::server::observe {

// Any thread; every call is short and does no input or output.
class Observer {
 public:
  // `log` may be null; it outlives the observer.
  explicit Observer(RequestLog* log = nullptr) : log_(log) {}

  Metrics& metrics() { return metrics_; }
  const Metrics& metrics() const { return metrics_; }
  RequestLog* log() { return log_; }

  // A request was queued.
  void started(const RequestRecord& record);
  // The first token came `seconds` behind the arrival of its request.
  void first_token(double seconds);
  // `n` more tokens of one choice came `seconds` behind those before them.
  void token_gap(double seconds, uint32_t n);
  // A request that was queued has ended. Once each.
  void finished(const RequestRecord& record);
  // A request was answered with an error before it was queued.
  void rejected(const RequestRecord& record);

  struct Quantiles {
    double p50 = 0, p95 = 0;  // seconds
  };
  struct Latency {
    std::optional<Quantiles> ttft, inter_token;
  };
  // Of the last minute, as far as it is remembered; absent: there was none.
  Latency recent_latency() const;

  struct Trouble {
    std::chrono::system_clock::time_point when;
    Api api = Api::kChat;
    int status = 0;
    std::string code;
  };
  // The last few requests that failed or were refused, newest last.
  std::vector<Trouble> recent_trouble() const;

 private:
  using Clock = std::chrono::steady_clock;
  // The newest samples; older ones are overwritten.
  struct Samples {
    struct Sample {
      Clock::time_point when;
      float seconds = 0;
    };
    std::array<Sample, 1024> ring;
    size_t next = 0;
    void add(double seconds);
    std::vector<float> since(Clock::time_point begin) const;  // ascending
  };
  void note_trouble(const RequestRecord& record);

  Metrics metrics_;
  RequestLog* const log_;
  mutable std::mutex mutex_;  // guards what follows
  Samples ttft_, inter_token_;
  std::vector<Trouble> trouble_;
};

// One request from its arrival to its one end. Calls come one at a time (whoever answers the
// request has a mutex for that). Without an observer nothing is observed.
//
//   Observation seen(observer, Api::kChat, request.id, arrived);
//   seen.record().model = …;                             // as facts become known
//   seen.accepted();                                     // the engine took it
//   seen.tokens(choice, event.tokens.size());            // with every event that has some
//   seen.choice_ended(first_of_prompt, usage, timings);  // with the last event of every choice
//   seen.record().finish = …;  seen.finish(Outcome::kCompleted);
//
// A request that is given up before accepted() leaves no trace here: who turns its error into an
// answer calls Observer::rejected.
class Observation {
 public:
  using Clock = std::chrono::steady_clock;
  Observation(Observer* observer, Api api, std::string_view id,
              Clock::time_point arrived = Clock::now());
  // What was accepted and has no end yet is handed over as failed.
  ~Observation();
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

  RequestRecord& record() { return record_; }
  void accepted();
  void tokens(size_t choice, size_t n);
  // A prompt counts with its first choice.
  void choice_ended(bool first_of_prompt, const runtime::Usage& usage,
                    const runtime::Timings& timings);
  // The client is gone: what is cancelled from now on is cancelled by it. Any thread.
  void client_left() { client_left_ = true; }
  bool has_client_left() const { return client_left_; }
  // The record is complete. Later calls do nothing.
  void finish(Outcome outcome);

 private:
  Observer* const observer_;
  RequestRecord record_;
  const Clock::time_point arrived_;
  std::vector<Clock::time_point> last_token_;  // by choice
  bool accepted_ = false, finished_ = false, has_times_ = false;
  std::atomic<bool> client_left_{false};
};

}  // namespace flare::server::observe
