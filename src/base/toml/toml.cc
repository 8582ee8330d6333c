// toml++ behind toml.h.
#include "base/toml/toml.h"

#include <toml++/toml.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace flare {
namespace {

constexpr uint64_t kMaxBytes = 1 << 20;

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  void read(const toml::table& table, std::vector<std::string> name) {
    for (const auto& [key, node] : table) {
      if (const toml::table* const inner = node.as_table()) {
        std::vector<std::string> inner_name = name;
        inner_name.emplace_back(key.str());
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
