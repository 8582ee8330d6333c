// Records as lines on stderr: one write each, so that lines of different threads never mix.
#include "base/log.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

namespace flare {
namespace {
std::atomic<LogLevel> current_level{LogLevel::kInfo};
}  // namespace

std::optional<LogLevel> log_level_from_name(std::string_view name) {
  if (name == "error") return LogLevel::kError;
  if (name == "warn") return LogLevel::kWarn;
  if (name == "info") return LogLevel::kInfo;
  if (name == "debug") return LogLevel::kDebug;
  return std::nullopt;
}

void set_log_level(LogLevel level) { current_level.store(level, std::memory_order_relaxed); }
LogLevel log_level() { return current_level.load(std::memory_order_relaxed); }

std::string utc_now_text() {
  const auto now =
      std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03d}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     now.time_since_epoch().count() % 1000);
}

void log_line(LogLevel level, std::string_view text) {
  constexpr std::string_view names[] = {"error", "warn ", "info ", "debug"};
  const auto now =
      std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto ms = now.time_since_epoch().count() % 1000;
  const std::string line = fmt::format("{:%H:%M:%S}.{:03d} {} {}\n",
                                       fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms,
                                       names[static_cast<int>(level)], text);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace flare
