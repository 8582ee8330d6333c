// A thread that waits for the signals with sigwait.
#include "flare/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <utility>

namespace flare::app {
namespace {
constexpr int kLeave = SIGUSR1;  // ends the waiting thread
}

StopSignals::StopSignals(std::function<void(int)> first, std::function<void()> hang_up,
                         std::function<void()> leaving)
    : first_(std::move(first)), hang_up_(std::move(hang_up)), leaving_(std::move(leaving)) {
  sigemptyset(&signals_);
  if (hang_up_) sigaddset(&signals_, SIGHUP);
  for (const int signal : {SIGINT, SIGTERM, kLeave}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = std::thread([this] { wait(); });
}

StopSignals::~StopSignals() {
  pthread_kill(thread_.native_handle(), kLeave);
  thread_.join();
}

void StopSignals::wait() const {
  bool stopping = false;
  while (true) {
    int signal = 0;
    if (sigwait(&signals_, &signal) != 0) continue;
    if (signal == kLeave) return;
    if (signal == SIGHUP) {
      hang_up_();
      continue;
    }
    if (stopping) {
      if (leaving_) leaving_();
      ::_exit(128 + signal);
    }
    stopping = true;
    first_(signal);
  }
}

}  // namespace flare::app
