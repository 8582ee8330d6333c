// The configuration file: values for flags that were not given (spec/cli.md §9).
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/toml/toml.h"

namespace CLI {
class App;
}

namespace flare::app {

// Which flags of a command a table of the file may set, with '_' for '-': those of these help
// groups, and some others.
struct ConfigTable {
  std::string_view name;  // "serving"; "models": a table below it for each model
  std::initializer_list<std::string_view> groups;
  std::initializer_list<std::string_view> others;  // flags of other groups
};

class Configuration {
 public:
  // `flag`, else FLARE_CONFIG, else ~/.config/flare/config.toml, which may be missing. Errors:
  // kNotFound for a file that was named, those of read_toml.
  static Configuration load(const std::string& flag);

  // Gives every flag of `command` that was not given, and that no variable of `environment` sets,
  // the value of the first table that has one. `model` chooses among [models."…"]. Errors: kUsage
  // naming file and line: an unknown table or key (with the closest known one), a wrong type or
  // value.
  void apply(CLI::App& command, std::initializer_list<ConfigTable> tables,
             std::string_view model) const;
  // Empty: there is no file.
  const std::string& path() const { return path_; }

 private:
  void check_tables(std::initializer_list<ConfigTable> tables) const;
  std::string path_;
  std::vector<TomlSetting> settings_;
};

}  // namespace flare::app
