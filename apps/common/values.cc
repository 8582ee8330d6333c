// Values of flags, counts for people, closest matches, interruption.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "base/file.h"
#include "common/command_line.h"

namespace flare::app {
namespace {

std::atomic<int> interrupted{0};  // the signal
static_assert(std::atomic<int>::is_always_lock_free, "set inside a signal handler");

void on_signal(int signal) { interrupted = signal; }

// A hang-up that is ignored (nohup) stays ignored.
bool ignores_hang_up() {
  struct sigaction before{};
  return ::sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
}

// Insertions, deletions and substitutions between two words.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

// 1024-based factor of a SIZE suffix; 0 if unknown.
uint64_t size_factor(std::string_view suffix) {
  if (suffix.empty()) return 1;
  constexpr std::string_view letters = "KMGT";
  const size_t power = letters.find(suffix[0]);
  const std::string_view rest = suffix.substr(1);
  if (power == std::string_view::npos || (!rest.empty() && rest != "i" && rest != "iB")) return 0;
  return uint64_t{1} << (10 * (power + 1));
}

}  // namespace

std::string human_count(uint64_t n) {
  const struct {
    double unit;
    const char* name;
  } units[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e4, "K"}};
  for (const auto& [unit, name] : units)
    if (static_cast<double>(n) >= unit)
      return fmt::format("{:.1f} {}", static_cast<double>(n) / (unit == 1e4 ? 1e3 : unit), name);
  return std::to_string(n);
}

uint64_t parse_size(std::string_view flag, std::string_view text, std::string_view expected,
                    size_t begin) {
  uint64_t number = 0;
  const auto [end, failure] =
      std::from_chars(text.data() + begin, text.data() + text.size(), number);
  const uint64_t factor = size_factor(text.substr(static_cast<size_t>(end - text.data())));
  if (failure != std::errc() || factor == 0 || number == 0)
    throw Error(Code::kUsage, "{} is {}, expected {}", flag, quote(text), expected);
  if (number > UINT64_MAX / factor)
    throw Error(Code::kUsage, "{} is {}, expected less than 2^64 bytes", flag, quote(text));
  return number * factor;
}

std::vector<std::string> parse_list(std::string_view flag, std::string_view text) {
  std::vector<std::string> items;
  while (true) {
    const size_t comma = text.find(',');
    std::string item(text.substr(0, comma));
    if (item.empty())
      throw Error(Code::kUsage, "{} has an empty item, expected a comma-separated list", flag);
    if (std::ranges::find(items, item) != items.end())
      throw Error(Code::kUsage, "{} names {} twice, expected each item once", flag, quote(item));
    items.push_back(std::move(item));
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

std::vector<uint32_t> parse_numbers(std::string_view flag, std::string_view text, uint32_t most) {
  constexpr size_t kMostItems = 1000;
  const auto number = [&](std::string_view digits) {
    uint32_t n = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (failure != std::errc() || end != digits.data() + digits.size() || n < 1 || n > most)
      throw Error(Code::kUsage, "{} has {}, expected numbers from 1 to {} or ranges of them", flag,
                  quote(digits), most);
    return n;
  };
  std::vector<uint32_t> numbers;
  for (const std::string& item : parse_list(flag, text)) {
    const size_t dash = item.find('-');
    const uint32_t first = number(std::string_view(item).substr(0, dash));
    const uint32_t last =
        dash == std::string::npos ? first : number(std::string_view(item).substr(dash + 1));
    if (last < first)
      throw Error(Code::kUsage, "{} has {}, expected a range that ascends", flag, quote(item));
    if (numbers.size() + (last - first) >= kMostItems)
      throw Error(Code::kUsage, "{} names more than {} numbers", flag, kMostItems);
    for (uint32_t n = first; n <= last; ++n) {
      if (std::ranges::find(numbers, n) != numbers.end())
        throw Error(Code::kUsage, "{} names {} twice, expected each number once", flag, n);
      numbers.push_back(n);
    }
  }
  return numbers;
}

std::vector<int32_t> parse_ids(std::string_view flag, const std::string& argument) {
  constexpr uint64_t kMostBytes = uint64_t{64} << 20;  // more than any context holds
  constexpr std::string_view space = " \t\r\n";
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(argument, ignored);
  const std::string text = is_file ? read_text_file(argument, kMostBytes) : argument;
  std::vector<int32_t> ids;
  bool behind_comma = false;
  for (size_t at = 0;;) {
    at = std::min(text.find_first_not_of(space, at), text.size());
    if (at == text.size() && !behind_comma) return ids;
    const size_t end = std::min(text.find_first_of(" \t\r\n,", at), text.size());
    const std::string_view item = std::string_view(text).substr(at, end - at);
    int32_t id = 0;
    const auto [stop, ec] = std::from_chars(item.data(), item.data() + item.size(), id);
    if (ec != std::errc() || stop != item.data() + item.size() || id < 0)
      throw Error(Code::kUsage, "{}{}: item {} is {}, expected token ids such as 1,298,204", flag,
                  is_file ? " " + quote(argument) : "", ids.size() + 1, quote(item));
    ids.push_back(id);
    at = std::min(text.find_first_not_of(space, end), text.size());
    behind_comma = at < text.size() && text[at] == ',';
    if (behind_comma) ++at;
  }
}

Isa isa_level(std::string_view flag) {
  const char* variable = std::getenv("FLARE_ISA");
  if (!flag.empty() || variable == nullptr) return choose_isa(flag);
  try {
    return choose_isa(variable);
  } catch (Error& error) {
    throw error.add_context("FLARE_ISA");
  }
}

int thread_count(int n) { return n > 0 ? n : static_cast<int>(usable_cores().size()); }

std::string check_finite(const std::string& text) {
  double value = 0;
  // What is no number at all is CLI11's to complain about.
  if (!CLI::detail::lexical_cast(text, value) || std::isfinite(value)) return {};
  return fmt::format("Value {} is no finite number", text);
}

void check_interrupted() {
  static const bool installed = [] {
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    if (!ignores_hang_up()) ::sigaction(SIGHUP, &action, nullptr);
    return true;
  }();
  if (installed && interrupted != 0) throw Error(Code::kCancelled, "interrupted before the end");
}

int interrupted_exit() { return 128 + (interrupted == 0 ? SIGINT : interrupted.load()); }

std::string closest_match(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  // Farther than this and the suggestion is a guess.
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

}  // namespace flare::app
