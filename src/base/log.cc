// Records as lines on stderr: one write each, so that lines of different threads never mix.
#include "base/log.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

#include "base/one_line.h"

namespace flare {
namespace {
std::atomic<LogLevel> current_level{LogLevel::kInfo};
std::atomic<LogFormat> current_format{LogFormat::kText};
std::atomic<bool> has_sink{false};  // spares the usual case the lock
std::mutex sink_mutex;
LogSink current_sink;  // guarded by sink_mutex
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

void set_log_format(LogFormat format) { current_format = format; }

void set_log_sink(LogSink sink) {
  const std::lock_guard lock(sink_mutex);
  current_sink = std::move(sink);
  has_sink = static_cast<bool>(current_sink);
}

std::string utc_now_text() {
  const auto now =
      std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03d}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     now.time_since_epoch().count() % 1000);
}

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string log_text(LogLevel level, std::string_view text) {
  constexpr std::string_view names[] = {"error", "warn", "info", "debug"};
  const std::string_view name = names[static_cast<int>(level)];
  if (current_format.load(std::memory_order_relaxed) == LogFormat::kJson)
    return fmt::format("{{\"time\":\"{}\",\"level\":\"{}\",\"message\":{}}}\n", utc_now_text(),
                       name, quoted(one_line(text)));
  const auto now =
      std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  return fmt::format("{:%H:%M:%S}.{:03d} {:5} {}\n",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     now.time_since_epoch().count() % 1000, name, one_line(text));
}

}  // namespace

void log_line(LogLevel level, std::string_view text) {
  if (level > log_level()) return;
  const std::string line = log_text(level, text);
  if (has_sink.load(std::memory_order_acquire)) {
    const std::lock_guard lock(sink_mutex);
    if (current_sink) return current_sink(level, line);
  }
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace flare
