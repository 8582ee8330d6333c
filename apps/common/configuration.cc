// Settings of TOML tables become results of options, as if they had been given.
#include "common/configuration.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "common/command_line.h"

namespace flare::app {
namespace {

namespace fs = std::filesystem;

// Flags that a variable sets too; it ranks above the file.
constexpr std::pair<std::string_view, const char*> kVariables[] = {{"--log-level", "FLARE_LOG"},
                                                                   {"--isa", "FLARE_ISA"}};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path default_path() {
  const std::string xdg = variable("XDG_CONFIG_HOME"), home = variable("HOME");
  if (xdg.empty() && home.empty()) return {};
  return (xdg.empty() ? fs::path(home) / ".config" : fs::path(xdg)) / "flare/config.toml";
}

std::string flag_name(std::string_view key) {
  std::string name = "--" + std::string(key);
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string key_name(std::string_view flag) {
  std::string key(flag);
  std::ranges::replace(key, '-', '_');
  return key;
}

std::string_view kind_name(TomlKind kind) {
  constexpr std::string_view kNames[] = {"a string", "an integer", "a real number", "true or false",
                                         "a list"};
  return kNames[static_cast<size_t>(kind)];
}

bool is_of(const ConfigTable& table, const CLI::Option& option) {
  return std::ranges::find(table.groups, option.get_group()) != table.groups.end() ||
         std::ranges::find(table.others, option.get_name()) != table.others.end();
}

// An option of `command` that the table may set, or nullptr.
CLI::Option* find_option(CLI::App& command, const ConfigTable& table, const std::string& flag) {
  CLI::Option* const option = command.get_option_no_throw(flag);
  return option != nullptr && is_of(table, *option) ? option : nullptr;
}

std::vector<std::string> known_keys(const CLI::App& command, const ConfigTable& table) {
  std::vector<std::string> keys;
  for (const CLI::Option* option : command.get_options())
    if (is_of(table, *option))
      for (const std::string& name : option->get_lnames()) keys.push_back(key_name(name));
  return keys;
}

// The option that a key sets, in the opposite sense where it has a --no-… alone.
struct Target {
  CLI::Option* option = nullptr;
  bool inverts = false;
};

Target find_target(CLI::App& command, const ConfigTable& table, const std::string& key) {
  const std::string flag = flag_name(key);
  if (CLI::Option* const option = find_option(command, table, flag)) return {option, false};
  return {find_option(command, table, "--no-" + flag.substr(2)), true};
}

[[noreturn]] void refuse_key(CLI::App& command, const ConfigTable& table, const std::string& key,
                             const std::string& where, std::initializer_list<ConfigTable> tables) {
  Error error(Code::kUsage, "{}: {} is no key of [{}]", where, quote(key), table.name);
  const auto has_it = [&](const ConfigTable& other) {
    return find_target(command, other, key).option != nullptr;
  };
  // The last table is the most general one.
  const auto owner = std::ranges::find_if(std::rbegin(tables), std::rend(tables), has_it);
  if (owner != std::rend(tables))
    throw error.set_hint(fmt::format("it is one of [{}]", owner->name));
  const std::string best = closest_match(key, known_keys(command, table));
  throw error.set_hint(best.empty() ? "the keys are the command's flags, with '_' for '-'"
                                    : fmt::format("did you mean '{}'?", best));
}

void check_kind(const TomlSetting& setting, const CLI::Option& option, const std::string& where) {
  const bool is_flag = option.get_items_expected_max() == 0;
  const bool is_number = option.get_type_name() == "N" || option.get_type_name() == "SECONDS";
  const bool is_many = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  // Sizes and factors may stand there as numbers.
  const bool is_text = setting.kind == TomlKind::kString || setting.kind == TomlKind::kInteger ||
                       setting.kind == TomlKind::kReal;
  const bool fits = is_flag                           ? setting.kind == TomlKind::kBoolean
                    : is_number                       ? setting.kind == TomlKind::kInteger
                    : setting.kind == TomlKind::kList ? is_many
                                                      : is_text;
  if (fits) return;
  throw Error(Code::kUsage, "{}: {} is {}, expected {}", where, quote(setting.key),
              kind_name(setting.kind),
              is_flag     ? "true or false"
              : is_number ? "an integer"
              : is_many   ? "a string or a list"
                          : "a string or a number");
}

void set_option(CLI::Option& option, const std::vector<std::string>& values,
                const std::string& where) {
  try {
    option.clear();
    for (const std::string& value : values) option.add_result(value);
    check_not_empty(option);
    option.run_callback();
  } catch (Error& error) {
    throw error.add_context(where);
  } catch (const CLI::ParseError& failure) {
    throw Error(Code::kUsage, "{}: {}", where, failure.what());
  }
}

}  // namespace

Configuration Configuration::load(const std::string& flag) {
  Configuration configuration;
  const std::string named = flag.empty() ? variable("FLARE_CONFIG") : flag;
  const fs::path path = named.empty() ? default_path() : fs::path(named);
  std::error_code ignored;
  if (path.empty() || (named.empty() && !fs::exists(path, ignored))) return configuration;
  configuration.settings_ = read_toml(path);
  std::erase_if(configuration.settings_,
                [](const TomlSetting& setting) { return setting.kind == TomlKind::kEmptyTable; });
  configuration.path_ = path.string();
  return configuration;
}

void Configuration::apply(CLI::App& command, std::initializer_list<ConfigTable> tables,
                          std::string_view model) const {
  check_tables(tables);
  std::set<const CLI::Option*> set_before;
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0) set_before.insert(option);
  for (const auto& [flag, name] : kVariables)
    if (!variable(name).empty()) set_before.insert(command.get_option_no_throw(std::string(flag)));

  // Tables rank in their order; a flag that one has set is left alone by those after it.
  for (const ConfigTable& table : tables) {
    const bool by_model = table.name == "models";
    std::set<const CLI::Option*> set_here;
    for (const TomlSetting& setting : settings_) {
      if (setting.table[0] != table.name) continue;
      const std::string where = fmt::format("{}:{}", path_, setting.line);
      if (setting.table.size() != (by_model ? 2u : 1u))
        throw Error(Code::kUsage, "{}: {} stands in no table of settings", where,
                    quote(setting.key));
      const Target target = find_target(command, table, setting.key);
      if (target.option == nullptr) refuse_key(command, table, setting.key, where, tables);
      check_kind(setting, *target.option, where);
      const bool is_others = by_model && setting.table[1] != model;
      if (is_others || set_before.contains(target.option)) continue;
      set_here.insert(target.option);
      const bool is_flag = target.option->get_items_expected_max() == 0;
      const bool is_off = is_flag && (setting.values[0] == "true") == target.inverts;
      if (is_off || setting.values.empty()) continue;  // an empty list: as without it
      set_option(*target.option, is_flag ? std::vector<std::string>{"true"} : setting.values,
                 where);
    }
    set_before.insert(set_here.begin(), set_here.end());
  }
}

// Every setting must stand in one of the tables.
void Configuration::check_tables(std::initializer_list<ConfigTable> tables) const {
  for (const TomlSetting& setting : settings_) {
    const std::string table = setting.table.empty() ? "" : setting.table[0];
    std::vector<std::string> names;
    for (const ConfigTable& one : tables) names.emplace_back(one.name);
    if (std::ranges::find(names, table) != names.end()) continue;
    Error error(Code::kUsage, "{}:{}: {} stands in no known table", path_, setting.line,
                quote(table.empty() ? setting.key : table + "." + setting.key));
    const std::string best = closest_match(table, names);
    error.set_hint(best.empty() ? fmt::format("the tables are {}", CLI::detail::join(names, ", "))
                                : fmt::format("did you mean [{}]?", best));
    throw error;
  }
}

}  // namespace flare::app
