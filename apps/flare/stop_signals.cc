// A thread that waits for the two signals with sigwait.
#include "flare/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

namespace flare::app {
namespace {
constexpr int kLeave = SIGUSR1;  // ends the waiting thread
}

StopSignals::StopSignals(std::function<void(int)> first) {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, kLeave}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = std::thread([this, first = std::move(first)] { wait(first); });
}

StopSignals::~StopSignals() {
  pthread_kill(thread_.native_handle(), kLeave);
  thread_.join();
}

void StopSignals::wait(const std::function<void(int)>& first) const {
  bool stopping = false;
  while (true) {
    int signal = 0;
    if (sigwait(&signals_, &signal) != 0) continue;
    if (signal == kLeave) return;
    if (stopping) ::_exit(128 + signal);
    stopping = true;
    first(signal);
  }
}

}  // namespace flare::app
