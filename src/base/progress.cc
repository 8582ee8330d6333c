// Drawing of Progress.
#include "base/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>

namespace flare {
namespace {
using Clock = std::chrono::steady_clock;
constexpr auto kBarInterval = std::chrono::milliseconds(100);
constexpr auto kPlainInterval = std::chrono::seconds(5);
}  // namespace

std::string human_bytes(uint64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string human_duration(double seconds) {
  const auto s = static_cast<int64_t>(std::max(0.0, seconds) + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02d}:{:02d}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02d}", s / 60, s % 60);
}

Progress::Progress(std::string phase, uint64_t total, std::string unit, ProgressMode mode)
    : phase_(std::move(phase)),
      total_(total),
      unit_(std::move(unit)),
      mode_(mode),
      started_(Clock::now()),
      drawn_(started_) {
  if (mode_ == ProgressMode::kAuto)
    mode_ = ::isatty(STDERR_FILENO) ? ProgressMode::kBar : ProgressMode::kPlain;
}

// A failure before anything was done needs no line of its own.
Progress::~Progress() {
  if (done_ == 0 && std::uncaught_exceptions() > 0) finished_ = true;
  finish();
}

void Progress::advance(uint64_t amount) {
  done_ += amount;
  if (mode_ == ProgressMode::kNone) return;
  const auto now = Clock::now();
  if (now - drawn_ < (mode_ == ProgressMode::kBar ? Clock::duration(kBarInterval) : kPlainInterval))
    return;
  drawn_ = now;
  draw(false);
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (mode_ != ProgressMode::kNone) draw(true);
}

void Progress::draw(bool last) {
  const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  const double fraction =
      total_ > 0 ? std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_)) : 1;
  const bool in_bytes = unit_ == "B";
  const auto amount = [&](uint64_t n) { return in_bytes ? human_bytes(n) : fmt::format("{}", n); };
  std::string line =
      fmt::format("{} {}/{}{}", phase_, amount(done_), amount(total_), in_bytes ? "" : " " + unit_);
  line += in_bytes ? fmt::format("  {}/s", human_bytes(static_cast<uint64_t>(rate)))
                   : fmt::format("  {:.0f}/s", rate);
  if (last) {
    line += fmt::format("  in {}", human_duration(seconds));
  } else if (rate > 0 && total_ > done_) {
    line += fmt::format("  {} left", human_duration(static_cast<double>(total_ - done_) / rate));
  }
  if (mode_ == ProgressMode::kPlain) {
    std::fprintf(stderr, "%s\n", line.c_str());
    return;
  }
  constexpr int kWidth = 24;
  const int full = static_cast<int>(fraction * kWidth);
  std::string bar;
  for (int i = 0; i < kWidth; ++i) bar += i < full ? "█" : "░";
  std::fprintf(stderr, "\r\x1b[K%s %s%s", bar.c_str(), line.c_str(), last ? "\n" : "");
  std::fflush(stderr);
}

}  // namespace flare
