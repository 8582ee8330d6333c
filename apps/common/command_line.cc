// Parsing shared by the programs; CLI11 does the work, the scanner gives the suggestions.
#include "common/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <system_error>

#include "base/cpu.h"
#include "base/version.h"
#include "common/cpu_floor.h"
#include "common/errors.h"
#include "common/process.h"

namespace flare::app {
namespace {

struct Parsed {
  CLI::App* command = nullptr;
  std::function<int()> run;
};

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::string_view help) {
  const std::string best = closest_match(word, candidates);
  if (best.empty()) return fmt::format("run '{}' for the list", help);
  return fmt::format("did you mean '{}'?", best);
}

// Refuses what is unknown before the real parser runs, so that the message can name the closest
// match: it alone knows neither.
class Scanner {
 public:
  Scanner(const Program& program, CLI::App& app) : program_(program), app_(app) {}

  void scan(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      if (word == "--") return;
      if (word.size() > 1 && word[0] == '-') {
        if (takes_value(word) && ++i < argc) check_value(word, argv[i]);
      } else if (command_ == nullptr) {
        choose_command(word);
      }
    }
  }

 private:
  std::string help() const {
    return command_ == nullptr ? fmt::format("{} --help", program_.name)
                               : fmt::format("{} {} --help", program_.name, command_->get_name());
  }

  void choose_command(std::string_view word) {
    std::vector<std::string> names;
    for (const Command& command : program_.commands) {
      if (command.name == word) command_ = app_.get_subcommand(std::string(word));
      names.emplace_back(command.name);
    }
    if (command_ != nullptr) return;
    Error error(Code::kUsage, "command {} is unknown, expected one of {}", quote(word),
                CLI::detail::join(names, ", "));
    error.set_hint(did_you_mean(word, names, help()));
    throw error;
  }

  const CLI::Option* find(const std::string& name) const {
    if (command_ != nullptr)
      if (const CLI::Option* option = command_->get_option_no_throw(name)) return option;
    return app_.get_option_no_throw(name);
  }

  // Whether the flag's value is the next word.
  bool takes_value(std::string_view word) const {
    const bool is_long = word.starts_with("--");
    const size_t equals = word.find('=');
    // A short flag may be followed by more short flags: -vv.
    const std::string name(is_long ? word.substr(0, equals) : word.substr(0, 2));
    if (const CLI::Option* option = find(name)) {
      const bool has_value = is_long && equals != std::string_view::npos;
      const bool is_switch = option->get_items_expected_max() == 0;
      if (is_switch && has_value)
        throw Error(Code::kUsage, "flag {} is given {}, no value expected", name,
                    quote(word.substr(equals + 1)));
      return !is_switch && !has_value;
    }
    std::vector<std::string> names = flag_names(app_);
    if (command_ != nullptr)
      for (std::string& one : flag_names(*command_)) names.push_back(std::move(one));
    Error error(Code::kUsage, "flag {} is unknown{}", quote(name),
                command_ == nullptr ? "" : fmt::format(" to '{}'", command_->get_name()));
    error.set_hint(did_you_mean(name, names, help()));
    throw error;
  }

  // A value that was left out would be the next flag, which then would not count.
  void check_value(std::string_view flag, std::string_view value) const {
    const bool is_long = value.starts_with("--");
    if (!is_long && (value.size() != 2 || value[0] != '-')) return;
    if (find(std::string(value.substr(0, value.find('=')))) == nullptr) return;
    throw Error(Code::kUsage, "{} is followed by flag {}, a value expected", flag, quote(value))
        .set_hint(fmt::format("'{}={}' takes it as the value", flag, value));
  }

  const Program& program_;
  CLI::App& app_;
  CLI::App* command_ = nullptr;
};

void add_common_flags(CLI::App& app, CommonFlags& common, bool has_configuration) {
  if (has_configuration)
    app.add_option("--config", common.config, "configuration file (~/.config/flare/config.toml)")
        ->type_name("PATH")
        ->group("Common flags");
  static const std::map<std::string, ProgressMode> modes = {{"auto", ProgressMode::kAuto},
                                                            {"bar", ProgressMode::kBar},
                                                            {"plain", ProgressMode::kPlain},
                                                            {"none", ProgressMode::kNone}};
  app.add_flag("--json", common.json, "results as one JSON document")->group("Common flags");
  app.add_flag("-q,--quiet", common.quiet, "errors and results only")->group("Common flags");
  app.add_flag("-v,--verbose", common.verbose, "more detail; -vv for debug records")
      ->group("Common flags");
  app.add_option_function<std::string>(
         "--progress", [&common](const std::string& name) { common.progress = modes.at(name); },
         "auto, bar, plain or none (auto)")
      ->check(CLI::IsMember(modes).description(""))
      ->type_name("MODE")
      ->group("Common flags");
}

void print_version(const Program& program) {
  std::string levels;
  for (int i = 0; i < kIsaLevels; ++i) levels += fmt::format(" {}", isa_name(static_cast<Isa>(i)));
  const auto machine = machine_isa();
  fmt::print("{} {}\nISA levels:{} (this machine: {})\n", program.name, kVersion, levels,
             machine ? isa_name(*machine) : "none");
}

// No value is empty where that means nothing, and no output goes to standard output.
void check_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    check_not_empty(*option);
    if (option->check_lname("output") &&
        std::ranges::find(option->results(), "-") != option->results().end())
      throw Error(Code::kUsage,
                  "--output is '-', a file expected: nothing is written to standard output")
          .set_hint("write to a file; './-' is one of that name");
  }
}

// CLI11's words for what is no number say neither what it is nor what is expected.
std::string complaint(const CLI::ParseError& failure) {
  constexpr std::string_view kPrefix = "Could not convert: ", kBetween = " = ";
  const std::string text = failure.what();
  const size_t end = text.find(kBetween);
  if (!text.starts_with(kPrefix) || end == std::string::npos) return text;
  return fmt::format("{} is {}, a number expected",
                     text.substr(kPrefix.size(), end - kPrefix.size()),
                     quote(text.substr(end + kBetween.size())));
}

// nullopt: something was printed and the program is done.
std::optional<Parsed> parse(const Program& program, CLI::App& app, std::vector<Parsed>& commands,
                            int argc, char** argv) {
  Scanner(program, app).scan(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    if (!app.get_subcommands().empty())
      fmt::print("Common flags (--json, --quiet, --verbose, --progress): see '{} --help'\n",
                 program.name);
    return std::nullopt;
  } catch (const CLI::CallForVersion&) {
    print_version(program);
    return std::nullopt;
  } catch (const CLI::ParseError& failure) {
    Error error(Code::kUsage, "{}", complaint(failure));
    const auto used = app.get_subcommands();
    error.set_hint(used.empty()
                       ? fmt::format("run '{} --help'", program.name)
                       : fmt::format("run '{} {} --help'", program.name, used[0]->get_name()));
    throw error;
  }
  for (Parsed& parsed : commands)
    if (parsed.command->parsed()) {
      check_values(*parsed.command);
      return std::move(parsed);
    }
  std::string known;
  for (const Command& command : program.commands)
    known += (known.empty() ? "" : ", ") + std::string(command.name);
  Error error(Code::kUsage, "no command given, expected one of {}", known);
  error.set_hint(fmt::format("run '{} --help'", program.name));
  throw error;
}

// What the environment asks for, whether the command uses it or not.
void check_environment() {
  const char* isa = std::getenv("FLARE_ISA");
  if (isa != nullptr && *isa != '\0' && !isa_from_name(isa))
    throw Error(Code::kUsage, "FLARE_ISA is {}, expected v2, v3, v4, vnni, bf16 or amx", quote(isa))
        .set_hint("correct the environment variable, or unset it");
}

int parse_and_run(const Program& program, CommonFlags& common, int argc, char** argv) {
  CLI::App app{std::string(program.summary), std::string(program.name)};
  app.set_help_flag("-h,--help", "print this text and exit")->group("Common flags");
  app.set_version_flag("--version", std::string(kVersion), "print version and machine levels")
      ->group("Common flags");
  app.fallthrough();
  app.require_subcommand(0, 1);
  add_common_flags(app, common, program.has_configuration);
  std::vector<Parsed> commands;
  for (const Command& command : program.commands) {
    CLI::App* sub = app.add_subcommand(std::string(command.name), std::string(command.summary));
    commands.push_back({sub, command.declare(*sub, common)});
  }
  const auto parsed = parse(program, app, commands, argc, argv);
  if (!parsed) return 0;
  check_environment();
  if (common.quiet || common.json) common.progress = ProgressMode::kNone;
  return parsed->run();
}

// Threads, memory or descriptors that the system refuses are no defect.
Error as_error(const std::exception& failure) {
  const auto* refused = dynamic_cast<const std::system_error*>(&failure);
  const bool lacks_room =
      refused != nullptr && (refused->code() == std::errc::resource_unavailable_try_again ||
                             refused->code() == std::errc::not_enough_memory ||
                             refused->code() == std::errc::too_many_files_open ||
                             refused->code() == std::errc::too_many_files_open_in_system);
  if (!lacks_room && dynamic_cast<const std::bad_alloc*>(&failure) == nullptr)
    return {Code::kInternal, "{}", failure.what()};
  Error error(Code::kDoesNotFit, "the system refuses more threads, memory or open files: {}",
              failure.what());
  return error.set_hint(
      "lower --threads, free memory, or raise the limits (ulimit -u, ulimit -v, ulimit -d, ulimit "
      "-n)");
}

// The error may come before flags are parsed.
bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--") return false;
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

}  // namespace

void check_not_empty(const CLI::Option& option) {
  constexpr std::string_view kTypes[] = {"PATH", "DIR",  "FILE",   "NAME",      "SIZE",
                                         "TYPE", "ADDR", "ORIGIN", "unix:PATH", "LEVEL"};
  const bool is_argument = option.get_positional();
  const bool is_one = is_argument || option.check_lname("output") ||
                      std::ranges::find(kTypes, option.get_type_name()) != std::end(kTypes);
  if (is_one && std::ranges::find(option.results(), "") != option.results().end())
    throw Error(Code::kUsage, "{} is empty, a value expected", option.get_name(is_argument));
}

int run_program(const Program& program, int argc, char** argv) {
  FLARE_ASSERT(kCpuFloorLinked == 1);  // the reference that links the check before main
  prepare_process();
  CommonFlags common;
  try {
    const int code = parse_and_run(program, common, argc, argv);
    check_standard_output();
    return code;
  } catch (const Error& error) {
    print_error(error, wants_json(argc, argv));
    return error.code() == Code::kCancelled ? interrupted_exit() : exit_code(error.code());
  } catch (const std::bad_alloc&) {
    print_error(Error(Code::kDoesNotFit, "the memory that this process may use is all in use"),
                wants_json(argc, argv));
    return exit_code(Code::kDoesNotFit);
  } catch (const std::exception& failure) {
    const Error error = as_error(failure);
    print_error(error, wants_json(argc, argv));
    return exit_code(error.code());
  }
}

void print_result(const CommonFlags& common, const Json& result, std::string_view text) {
  if (common.json) {
    const Json document = Json::object({{"ok", true}, {"result", result}});
    fmt::print("{}\n", document.to_text());
  } else {
    fmt::print("{}", text);
  }
  check_standard_output();
}

}  // namespace flare::app
