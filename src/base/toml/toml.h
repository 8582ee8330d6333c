// TOML files as flat lists of settings, each with the line it stands on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace flare {

enum class TomlKind { kString, kInteger, kReal, kBoolean, kList, kEmptyTable };

// One "key = value" of a table; of a table that has none: kEmptyTable, without key and values.
struct TomlSetting {
  std::vector<std::string> table;  // {"models", "nano"} for [models.nano]
  std::string key;
  TomlKind kind = TomlKind::kString;
  std::vector<std::string> values;  // as text; one unless it is a list
  uint32_t line = 0;
};

// Settings in the order of the file's lines, tables of a table included. Values are strings,
// numbers, truth values and lists of these. Errors: kNotFound; kUsage naming file and line (syntax,
// a date, a list of lists).
std::vector<TomlSetting> read_toml(const std::filesystem::path& path);
// The same from text; `name` stands for the file in messages.
std::vector<TomlSetting> parse_toml(std::string_view text, const std::string& name);

}  // namespace flare
