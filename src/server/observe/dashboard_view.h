// The dashboard as rows of text: what stands where on a screen of a given size (serving.md S13.5).
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "server/observe/overview.h"

namespace flare::server::observe {

// Rates of the last minute, a sample a second.
class RateHistory {
 public:
  static constexpr size_t kSamples = 60;
  // What the engine had counted by `now`; times ascend.
  void add(std::chrono::steady_clock::time_point now, uint64_t prefill_tokens,
           uint64_t generated_tokens);
  // Tokens a second, oldest first, at most kSamples.
  const std::deque<double>& prefill() const { return prefill_; }
  const std::deque<double>& decode() const { return decode_; }

 private:
  struct Look {
    std::chrono::steady_clock::time_point when;
    uint64_t prefill = 0, generated = 0;
  };
  std::optional<Look> last_;
  std::deque<double> prefill_, decode_;
};

struct DashboardState {
  Overview overview;
  std::string source;   // the model's file or folder
  std::string address;  // where it listens
  std::deque<double> prefill_rates, decode_rates;
  std::vector<std::string> messages;  // lines of the log, newest last
  bool unicode = true;                // the terminal shows block characters
};

enum class Tone { kPlain, kTitle, kHeading, kAlarm };
struct DashboardRow {
  std::string text;  // UTF-8, at most `columns` cells, no control characters
  Tone tone = Tone::kPlain;
};

// Exactly `rows` rows for a screen of columns × rows; what does not fit is left out, the least
// important first. Any size.
std::vector<DashboardRow> dashboard_rows(const DashboardState& state, int columns, int rows);

// Cells of a text that dashboard_rows made.
size_t cells(std::string_view text);

}  // namespace flare::server::observe
