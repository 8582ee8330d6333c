// SIGINT and SIGTERM of a server: the first asks it to drain, the second ends it at once.
#pragma once

#include <csignal>
#include <functional>
#include <thread>

namespace flare::app {

// Made before any other thread, so that all of them leave the signals to it. The second signal ends
// the process with 128 + its number.
class StopSignals {
 public:
  // `first` runs on a thread of its own.
  explicit StopSignals(std::function<void(int signal)> first);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  void wait(const std::function<void(int)>& first) const;
  sigset_t signals_{};
  std::thread thread_;
};

}  // namespace flare::app
