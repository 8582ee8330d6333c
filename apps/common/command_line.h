// What the two programs share: command tables, common flags, error form and exit codes
// (spec/cli.md §1–§4).
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/error.h"
#include "base/json/json.h"
#include "base/progress.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace flare::app {

struct CommonFlags {
  std::string config;  // --config; empty: FLARE_CONFIG or the default file
  bool json = false;
  bool quiet = false;
  int verbose = 0;
  // kNone under --quiet and --json.
  ProgressMode progress = ProgressMode::kAuto;
};

// One row of a program's command table. `declare` adds the flags and returns what runs after
// parsing; the result is the exit code. Flags live in the returned function (shared state).
struct Command {
  std::string_view name;
  std::string_view summary;
  std::function<int()> (*declare)(CLI::App& app, const CommonFlags& common);
};

struct Program {
  std::string_view name;
  std::string_view summary;
  std::span<const Command> commands;
  bool has_configuration = false;  // takes --config
};

// Paths, names, sizes and levels may not be empty: that would be as if they were not given. Errors:
// kUsage.
void check_not_empty(const CLI::Option& option);

// Parses, runs one command, prints errors. Returns the exit code.
int run_program(const Program& program, int argc, char** argv);

// stdout: {"ok":true,"result":…} under --json, else `text` (which ends with a line break or is
// empty).
void print_result(const CommonFlags& common, const Json& result, std::string_view text);

// "1.5" style counts for people: "7.6 B", "4.1 M", "512".
std::string human_count(uint64_t n);

// SIZE of spec/cli.md §3: an integer with K, M, G or T (1024-based; Ki and KiB accepted), which
// begins at `begin` of the text. kUsage naming the flag, the text and what is `expected` otherwise,
// and for zero.
uint64_t parse_size(std::string_view flag, std::string_view text,
                    std::string_view expected = "a positive integer with K, M, G or T",
                    size_t begin = 0);
// A comma-separated list without empty or repeated items; kUsage otherwise.
std::vector<std::string> parse_list(std::string_view flag, std::string_view text);
// LIST of numbers from 1 to `most`, ranges N-M inclusive, each once (spec/cli.md §3); kUsage
// otherwise.
std::vector<uint32_t> parse_numbers(std::string_view flag, std::string_view text, uint32_t most);
// Token ids from a list, or from a file that holds one: a comma or white space between any two.
// kUsage naming the flag, or the file, and the item.
std::vector<int32_t> parse_ids(std::string_view flag, const std::string& argument);

// A check for flags of CLI11, whose own conversion wraps and saturates: the complaint about what is
// no T, else empty.
template <typename T>
std::string check_integer(const std::string& text) {
  T value;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc() && end == text.data() + text.size()) return {};
  return fmt::format("Value {} not in range {} to {}", quote(text), std::numeric_limits<T>::min(),
                     std::numeric_limits<T>::max());
}

// The same for flags of binary64, whose ranges in CLI11 let NaN through: the complaint about what
// is NaN or infinite, else empty.
std::string check_finite(const std::string& text);

// --isa, else FLARE_ISA, else the machine's level (spec/cli.md §10). Errors: those of choose_isa.
Isa isa_level(std::string_view flag);

// --threads: cores this process may use unless n > 0.
int thread_count(int n);

// Throws kCancelled after SIGINT, SIGTERM or SIGHUP; the first call installs the handlers, and a
// second signal ends the process at once. Work that writes files calls it between blocks, so that
// temporary files are removed.
void check_interrupted();
// The exit code of a program that a signal stopped: 130 for SIGINT, 143 for SIGTERM.
int interrupted_exit();

// The candidate nearest to `word`, or empty if none is near.
std::string closest_match(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace flare::app
