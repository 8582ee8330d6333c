// Signals of a server: the first SIGINT or SIGTERM asks it to drain, the second ends it at once;
// SIGHUP lets it look at its files again.
#pragma once

#include <csignal>
#include <functional>
#include <thread>

namespace flare::app {

// Made before any other thread, so that all of them leave the signals to it. The second signal ends
// the process with 128 + its number.
class StopSignals {
 public:
  // All run on a thread of their own. Without `hang_up` SIGHUP is left alone; `leaving` is what
  // must be done before the process ends at once.
  explicit StopSignals(std::function<void(int signal)> first, std::function<void()> hang_up = {},
                       std::function<void()> leaving = {});
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  void wait() const;
  const std::function<void(int)> first_;
  const std::function<void()> hang_up_, leaving_;
  sigset_t signals_{};
  std::thread thread_;
};

}  // namespace flare::app
