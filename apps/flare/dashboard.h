// The dashboard of `flare run` on a terminal: takes the screen, and gives it back on any exit.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "server/observe/dashboard_view.h"

namespace flare::app {

// Whether stderr is a terminal that can show one, in the foreground. Before other threads: sets the
// character type of the locale.
bool can_draw_dashboard();

// One at a time. While it stands the log goes to its messages; what was logged meanwhile is printed
// to stderr behind it. Its thread draws four times a second and takes no lock of the engine but the
// one that a probe takes too.
class Dashboard {
 public:
  struct Setup {
    std::function<server::observe::Overview()> read;  // on the dashboard's thread
    std::string source, address;
  };
  // Throws kInternal if the terminal is unknown; then nothing has changed.
  explicit Dashboard(Setup setup);
  ~Dashboard();
  Dashboard(const Dashboard&) = delete;
  Dashboard& operator=(const Dashboard&) = delete;

  // Gives the terminal back where the process is about to end without destructors. The first is for
  // any thread, the second for signal handlers too.
  static void leave_at_once();
  static void restore_terminal() noexcept;

 private:
  void run();
  void draw();
  void keep(std::string_view line);
  void print_kept();
  // The terminal, the log and the signals, as they were.
  void give_back();

  const Setup setup_;
  server::observe::RateHistory rates_;  // of the thread
  bool unicode_ = false;
  std::timed_mutex drawing_;  // held while the screen is written

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::string> kept_;  // lines of the log, bounded
  size_t kept_bytes_ = 0;
  uint64_t n_forgotten_ = 0;
  bool quit_ = false;

  std::thread thread_;
};

}  // namespace flare::app
