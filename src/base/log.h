// The log: a line a record on stderr, from any thread. The only global besides the kernel table.
#pragma once

#include <fmt/core.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace flare {

enum class LogLevel { kError, kWarn, kInfo, kDebug };

std::optional<LogLevel> log_level_from_name(std::string_view name);
void set_log_level(LogLevel level);
LogLevel log_level();
// Now, as 2026-11-30T10:15:20.123Z.
std::string utc_now_text();
enum class LogFormat { kText, kJson };  // "…Z level text", or one JSON object a line
void set_log_format(LogFormat format);
// Where finished lines go instead of stderr; none: to stderr again. It is called by one thread at a
// time and must not log.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;
void set_log_sink(LogSink sink);
// Writes one record if its level is enabled: one line, whatever is in `text`. Never the text of
// a prompt or an answer.
void log_line(LogLevel level, std::string_view text);

template <typename... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  if (log_level() >= LogLevel::kInfo)
    log_line(LogLevel::kInfo, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warn(fmt::format_string<Args...> text, Args&&... args) {
  if (log_level() >= LogLevel::kWarn)
    log_line(LogLevel::kWarn, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) {
  if (log_level() >= LogLevel::kDebug)
    log_line(LogLevel::kDebug, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace flare
