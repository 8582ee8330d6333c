// toml++ behind toml.h.
#include "base/toml/toml.h"

// toml++ parses and destroys by recursion, so what is written must bound how deep values lie: here
// what stands in brackets, by check_lines() the parts of dotted keys.
#define TOML_MAX_NESTED_VALUES 8
#include <toml++/toml.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace flare {
namespace {

constexpr uint64_t kMaxBytes = 1 << 20;
constexpr size_t kMaxDots = 256;  // a key ends on its line
constexpr size_t kMaxTables = 8;

void check_lines(std::string_view text, const std::string& name) {
  size_t line = 1, dots = 0;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      dots = 0;
    } else if (c == '.' && ++dots > kMaxDots) {
      throw Error(Code::kUsage, "{}:{}: the line has more than {} dots, at most so many expected",
                  name, line, kMaxDots);
    }
  }
}

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  void read(const toml::table& table, std::vector<std::string> name) {
    for (const auto& [key, node] : table) {
      if (const toml::table* const inner = node.as_table()) {
        std::vector<std::string> inner_name = name;
        inner_name.emplace_back(key.str());
        if (inner_name.size() > kMaxTables)
          throw Error(Code::kUsage, "{}:{}: {} stands in {} tables, at most {} expected", path_,
                      inner->source().begin.line, quote(inner_name.back()), kMaxTables,
                      kMaxTables - 1);
        if (inner->empty())
          settings.push_back({.table = inner_name,
                              .kind = TomlKind::kEmptyTable,
                              .line = inner->source().begin.line});
        read(*inner, std::move(inner_name));
        continue;
      }
      TomlSetting setting{.table = name, .key = std::string(key.str())};
      setting.line = node.source().begin.line;
      if (const toml::array* const list = node.as_array()) {
        setting.kind = TomlKind::kList;
        for (const toml::node& item : *list) add_value(item, nullptr, &setting);
      } else {
        add_value(node, &setting.kind, &setting);
      }
      settings.push_back(std::move(setting));
    }
  }

  std::vector<TomlSetting> settings;

 private:
  void add_value(const toml::node& node, TomlKind* kind, TomlSetting* setting) const {
    TomlKind found;
    if (const auto text = node.value_exact<std::string>()) {
      found = TomlKind::kString;
      setting->values.push_back(*text);
    } else if (const auto integer = node.value_exact<int64_t>()) {
      found = TomlKind::kInteger;
      setting->values.push_back(fmt::format("{}", *integer));
    } else if (const auto real = node.value_exact<double>()) {
      found = TomlKind::kReal;
      setting->values.push_back(fmt::format("{}", *real));
    } else if (const auto truth = node.value_exact<bool>()) {
      found = TomlKind::kBoolean;
      setting->values.push_back(*truth ? "true" : "false");
    } else {
      throw Error(Code::kUsage,
                  "{}:{}: {} has a value of another kind, expected a string, a number, true, "
                  "false or a list of these",
                  path_, node.source().begin.line, quote(setting->key));
    }
    if (kind != nullptr) *kind = found;
  }
  const std::string path_;
};

}  // namespace

std::vector<TomlSetting> read_toml(const std::filesystem::path& path) {
  return parse_toml(read_text_file(path, kMaxBytes), path.string());
}

std::vector<TomlSetting> parse_toml(std::string_view text, const std::string& name) {
  check_lines(text, name);
  Reader reader(name);
  try {
    reader.read(toml::parse(text, name), {});
  } catch (const toml::parse_error& failure) {
    throw Error(Code::kUsage, "{}:{}: {}", name, failure.source().begin.line,
                failure.description());
  }
  std::ranges::stable_sort(reader.settings, {}, &TomlSetting::line);
  return std::move(reader.settings);
}

}  // namespace flare
