// Fixed lines by importance, then tables that share what is left.
#include "server/observe/dashboard_view.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <span>

#include "base/progress.h"

namespace flare::server::observe {
namespace {

using runtime::EngineStats;
using runtime::RunningRow;

constexpr size_t kLabel = 10;  // cells of a line's name

// Names and messages of others: one cell a character, whatever the terminal makes of the rest.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 && byte < 0xc0) continue;  // the rest of a character that is shown as '?'
    out += byte >= 0x20 && byte < 0x7f ? c : '?';
  }
  return out;
}

std::string clipped(std::string_view text, size_t columns) {
  size_t n = 0, end = 0;
  while (end < text.size()) {
    size_t next = end + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xc0) == 0x80) ++next;
    if (++n > columns) break;
    end = next;
  }
  return std::string(text.substr(0, end));
}

// `right` at the right margin where there is room for both.
std::string spread(const std::string& left, const std::string& right, size_t columns) {
  if (cells(left) + cells(right) + 1 > columns) return left;
  return left + std::string(columns - cells(left) - cells(right), ' ') + right;
}

// The newest samples that fit, as bars of eight heights; the highest of all is the full one.
std::string sparkline(const std::deque<double>& samples, size_t width, bool unicode) {
  constexpr std::string_view blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::string_view letters[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
  if (samples.empty() || width == 0) return {};
  const double most = *std::ranges::max_element(samples);
  std::string out;
  const size_t n = std::min(width, samples.size());
  for (size_t i = samples.size() - n; i < samples.size(); ++i) {
    const double share = most > 0 ? samples[i] / most : 0;
    const auto height = samples[i] > 0 ? std::max<size_t>(1, static_cast<size_t>(share * 8)) : 0;
    out += (unicode ? blocks : letters)[height < 8 ? height : 8];
  }
  return out;
}

std::string bar(double share, size_t width) {
  const auto full = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width));
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

// Three digits and a unit.
std::string short_seconds(double s) {
  if (s < 1) return fmt::format("{:.0f} ms", s * 1000);
  if (s < 100) return fmt::format("{:.1f} s", s);
  return human_duration(s);
}

std::string short_rate(double rate) {
  if (rate >= 10000) return fmt::format("{:.1f}k", rate / 1000);
  return rate >= 100 ? fmt::format("{:.0f}", rate) : fmt::format("{:.1f}", rate);
}

std::string latency_text(const std::optional<Observer::Quantiles>& q) {
  if (!q) return "none yet";
  return fmt::format("p50 {}  p95 {}", short_seconds(q->p50), short_seconds(q->p95));
}

// The mean of the newest samples; one alone jumps too much to be read.
double recent_mean(const std::deque<double>& samples) {
  const size_t n = std::min<size_t>(samples.size(), 3);
  double sum = 0;
  for (size_t i = samples.size() - n; i < samples.size(); ++i) sum += samples[i];
  return n > 0 ? sum / static_cast<double>(n) : 0;
}

std::string line(std::string_view name, std::string_view text) {
  return fmt::format(" {:<{}}{}", name, kLabel, text);
}

std::string rate_line(std::string_view name, const std::deque<double>& samples, size_t columns,
                      bool unicode) {
  const std::string head =
      line(name, fmt::format("{:>7} tok/s  ", short_rate(recent_mean(samples))));
  const size_t used = cells(head) + 1;
  return head + sparkline(samples, columns > used ? columns - used : 0, unicode);
}

std::string pages_line(const EngineStats& e, size_t columns) {
  const double total = std::max(1u, e.pages_total);
  const size_t width = columns >= 70 ? 20 : 8;
  return line("Pages", fmt::format("{} {} active, {} cached of {}",
                                   bar((e.pages_active + e.pages_cached) / total, width),
                                   e.pages_active, e.pages_cached, e.pages_total));
}

std::string memory_line(const Scrape& n, size_t columns) {
  const auto planned = static_cast<double>(std::max<uint64_t>(1, n.memory->total()));
  const size_t width = columns >= 70 ? 20 : 8;
  return line("Memory",
              fmt::format("{} {} of {} planned",
                          bar(static_cast<double>(n.process.resident_bytes) / planned, width),
                          human_bytes(n.process.resident_bytes), human_bytes(n.memory->total())));
}

std::string drafts_line(const EngineStats& e) {
  uint64_t drafted = 0, accepted = 0, rounds = 0;
  for (const runtime::DraftStats& d : e.drafts) {
    drafted += d.drafted;
    accepted += d.accepted;
    rounds += d.rounds;
  }
  if (drafted == 0) return {};
  std::string text =
      fmt::format("{:.0f} % accepted, by position",
                  100.0 * static_cast<double>(accepted) / static_cast<double>(drafted));
  for (const uint64_t n : e.accepted_at_position)
    text += fmt::format(" {:.0f}", 100.0 * static_cast<double>(n) /
                                       static_cast<double>(std::max<uint64_t>(1, rounds)));
  return line("Drafts", text);
}

std::string title(const DashboardState& s, size_t columns) {
  const Overview& o = s.overview;
  std::string left = fmt::format(" Flare  {}  {}", plain(o.numbers.model), plain(s.address));
  const double age = static_cast<double>(std::time(nullptr)) - o.numbers.process.start_unix_seconds;
  const std::string right = fmt::format("{}  up {} ", phase_text(o.phase), human_duration(age));
  left = spread(left, right, columns);
  return left + std::string(columns - std::min(columns, cells(left)), ' ');
}

// One line each, the most important first.
std::vector<std::string> fixed_lines(const DashboardState& s, size_t columns) {
  const Overview& o = s.overview;
  if (!o.numbers.engine || !o.numbers.memory) return {line("", "loading the model")};
  const EngineStats& e = *o.numbers.engine;
  std::vector<std::string> lines;
  lines.push_back(line("Queue", fmt::format("{} of {} running, {} reading, {} of {} waiting",
                                            e.running, o.numbers.memory->max_concurrency,
                                            e.prefilling, e.waiting, o.max_pending)));
  lines.push_back(rate_line("Decode", s.decode_rates, columns, s.unicode));
  lines.push_back(rate_line("Prefill", s.prefill_rates, columns, s.unicode));
  lines.push_back(line("First", latency_text(o.latency.ttft)));
  lines.push_back(line("Between", latency_text(o.latency.inter_token)));
  lines.push_back(pages_line(e, columns));
  lines.push_back(memory_line(o.numbers, columns));
  lines.push_back(
      line("Snapshots", fmt::format("{} of {}, {} evicted; {} pages evicted", e.prefixes.snapshots,
                                    o.numbers.memory->snapshots, e.prefixes.evicted_snapshots,
                                    e.prefixes.evicted_pages)));
  if (std::string drafts = drafts_line(e); !drafts.empty()) lines.push_back(std::move(drafts));
  lines.push_back(line("Model", fmt::format("{}, {}, {} connections", plain(s.source),
                                            plain(o.device), o.numbers.counts.http_connections)));
  return lines;
}

std::string row_text(const RunningRow& r, std::chrono::steady_clock::time_point now) {
  const double seconds = std::max(0.0, std::chrono::duration<double>(now - r.submitted).count());
  const std::string done = fmt::format("{}/{}", r.generated_tokens, r.max_tokens);
  return fmt::format("  {:<7}{:<9}{:>7} /{:<8}{:>7}  {:>11}  {:>8}", fmt::format("#{}", r.number),
                     r.generated_tokens == 0 ? "prefill" : "decode", r.read_tokens, r.prompt_tokens,
                     r.cached_tokens, done, short_seconds(seconds));
}

std::vector<DashboardRow> running_table(const Overview& o, size_t most) {
  std::vector<DashboardRow> table;
  if (most < 2) return table;
  table.push_back({fmt::format(" {:<8}{:<9}{:>7} /{:<8}{:>7}  {:>11}  {:>8}", "Running", "phase",
                               "read", "prompt", "cached", "answer", "time"),
                   Tone::kHeading});
  for (const RunningRow& r : o.rows) {
    if (table.size() + 1 == most && o.rows.size() + 1 > most) {
      table.push_back({fmt::format("  and {} more", o.rows.size() + 1 - table.size())});
      break;
    }
    table.push_back({row_text(r, o.now)});
  }
  return table;
}

// The newest ones, oldest first.
std::vector<DashboardRow> trouble_table(const Overview& o, size_t most) {
  std::vector<DashboardRow> table;
  if (most < 2 || o.trouble.empty()) return table;
  table.push_back({" Errors", Tone::kHeading});
  const size_t n = std::min(most - 1, o.trouble.size());
  for (const Observer::Trouble& t : std::span(o.trouble).last(n)) {
    const std::time_t when = std::chrono::system_clock::to_time_t(t.when);
    std::tm parts{};
    ::gmtime_r(&when, &parts);
    table.push_back({fmt::format("  {:02}:{:02}:{:02} {:<12} {} {}", parts.tm_hour, parts.tm_min,
                                 parts.tm_sec, api_text(t.api), t.status, plain(t.code)),
                     t.status >= 500 ? Tone::kAlarm : Tone::kPlain});
  }
  return table;
}

std::vector<DashboardRow> message_table(const std::vector<std::string>& messages, size_t most) {
  std::vector<DashboardRow> table;
  if (most < 2 || messages.empty()) return table;
  table.push_back({" Messages", Tone::kHeading});
  const size_t n = std::min(most - 1, messages.size());
  for (const std::string& message : std::span(messages).last(n))
    table.push_back({"  " + plain(message)});
  return table;
}

}  // namespace

size_t cells(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void RateHistory::add(std::chrono::steady_clock::time_point now, uint64_t prefill_tokens,
                      uint64_t generated_tokens) {
  const Look look{now, prefill_tokens, generated_tokens};
  if (!last_) {
    last_ = look;
    return;
  }
  const double seconds = std::chrono::duration<double>(now - last_->when).count();
  if (seconds < 1) return;
  prefill_.push_back(static_cast<double>(prefill_tokens - last_->prefill) / seconds);
  decode_.push_back(static_cast<double>(generated_tokens - last_->generated) / seconds);
  if (prefill_.size() > kSamples) prefill_.pop_front();
  if (decode_.size() > kSamples) decode_.pop_front();
  last_ = look;
}

std::vector<DashboardRow> dashboard_rows(const DashboardState& state, int columns, int rows) {
  if (columns <= 0 || rows <= 0) return {};
  const auto width = static_cast<size_t>(columns), height = static_cast<size_t>(rows);
  const Overview& o = state.overview;
  std::vector<DashboardRow> screen;
  screen.push_back({title(state, width), o.phase == Phase::kFailed ? Tone::kAlarm : Tone::kTitle});
  // Small screens keep a few rows for who runs.
  const size_t wanted = std::min<size_t>(o.rows.size() + 1, height / 3);
  std::vector<std::string> fixed = fixed_lines(state, width);
  const size_t room = height > 1 + wanted ? height - 1 - wanted : 0;
  for (std::string& text : std::span(fixed).first(std::min(fixed.size(), room)))
    screen.push_back({std::move(text)});
  const auto append = [&screen](std::vector<DashboardRow> table) {
    std::ranges::move(table, std::back_inserter(screen));
  };
  const auto left = [&] { return height - std::min(height, screen.size()); };
  // Of what is left errors may have a third, messages what running requests do not need.
  const size_t n_trouble = std::min({o.trouble.size() + 1, left() / 3, size_t{4}});
  const size_t n_messages =
      std::min(state.messages.size() + 1,
               std::max<size_t>(left() / 4, left() > o.rows.size() + 1 + n_trouble
                                                ? left() - o.rows.size() - 1 - n_trouble
                                                : 0));
  const size_t others = (n_trouble >= 2 ? n_trouble : 0) + (n_messages >= 2 ? n_messages : 0);
  append(running_table(o, left() > others ? left() - others : left()));
  append(trouble_table(o, std::min(n_trouble, left())));
  append(message_table(state.messages, left()));
  screen.resize(height);
  for (DashboardRow& row : screen) row.text = clipped(row.text, width);
  return screen;
}

}  // namespace flare::server::observe
