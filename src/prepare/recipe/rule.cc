// Texts of rules, and rules from TOML tables.
#include "prepare/recipe/rule.h"

#include <algorithm>

#include "base/error.h"
#include "base/toml/toml.h"
#include "prepare/recipe/recipe.h"

namespace flare::prepare {
namespace {

using codec::FormatId;
using graph::Policy;

// Names that people use for the formats that recipes encode.
constexpr std::pair<std::string_view, FormatId> kShortNames[] = {
    {"q4", FormatId::kQ4G64},       {"q5", FormatId::kQ5G64}, {"q6", FormatId::kQ6G64},
    {"q8", FormatId::kQ8G32},       {"q2", FormatId::kQ2G64}, {"t2", FormatId::kT2G128},
    {"fp8", FormatId::kFp8RowBf16},
};
constexpr std::string_view kDirect = "direct";
constexpr std::string_view kKeep = "keep";

constexpr std::pair<std::string_view, ParameterKind> kKinds[] = {
    {"plain", ParameterKind::kPlain},
    {"embedding", ParameterKind::kEmbedding},
    {"projection", ParameterKind::kProjection},
    {"head", ParameterKind::kHead},
    {"fine_projection", ParameterKind::kFineProjection},
};
constexpr Policy kPolicies[] = {Policy::kA16Only, Policy::kAllowA8, Policy::kAllowA4};

constexpr std::string_view kKeys[] = {"kind",    "format", "otherwise", "layout", "policy",
                                      "encoder", "source", "separate",  "group",  "share"};

std::string joined(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return out;
}

std::string known_keys() {
  return joined(std::vector<std::string>(std::begin(kKeys), std::end(kKeys)));
}

// The only value of a key that takes one.
const std::string& single(std::string_view key, const std::vector<std::string>& values,
                          std::string_view where) {
  if (values.size() != 1)
    throw Error(Code::kUsage, "{}: {} has {} values, one text expected", where, key, values.size());
  if (values[0].empty()) throw Error(Code::kUsage, "{}: {} is empty, a text expected", where, key);
  return values[0];
}

template <typename T, size_t N, typename NameOf>
T one_of(std::string_view key, std::string_view value, const T (&all)[N], NameOf name_of,
         std::string_view where) {
  std::string known;
  for (const T& item : all) {
    if (name_of(item) == value) return item;
    known += (known.empty() ? "" : ", ") + std::string(name_of(item));
  }
  throw Error(Code::kUsage, "{}: {} is {}, expected one of {}", where, key, quote(value), known);
}

void check_encoder(std::string_view name, std::string_view where) {
  const auto known = encoder_names();
  if (std::ranges::find(known, name) == known.end())
    throw Error(Code::kUsage, "{}: encoder is {}, expected one of {}", where, quote(name),
                joined(known));
}

// Most formats are stored in one layout, which the key confirms; where there are two it chooses.
void set_layout(Rule& rule, const std::string& name, std::string_view where) {
  if (!rule.format || rule.format->kind != FormatName::Kind::kFormat)
    throw Error(Code::kUsage, "{}: layout is {} without a format that has one", where, quote(name));
  const codec::Format& format = codec::format(rule.format->id);
  const codec::Format* chosen = codec::find_format(format.name, name);
  if (chosen == nullptr || chosen->layout_name != name)
    throw Error(Code::kUsage, "{}: layout is {}, {} is stored as {}", where, quote(name),
                format.name, format.layout_name);
  rule.format->id = chosen->id;
}

// A rule per table.
std::vector<Rule> rules_of(const std::vector<TomlSetting>& settings, const std::string& file) {
  std::vector<Rule> rules;
  const std::vector<std::string>* table = nullptr;  // of the rule at the end
  // `layout` needs the rule's format, wherever it stands in the table.
  std::vector<std::pair<size_t, const TomlSetting*>> layouts;
  const auto place = [&](const TomlSetting& setting) {
    return fmt::format("{}:{}", file, setting.line);
  };
  for (const TomlSetting& setting : settings) {
    const std::string where = place(setting);
    if (setting.table.size() != 1)
      throw Error(Code::kUsage,
                  "{}: {} stands in no rule's table, expected a pattern in quotes before it, such "
                  "as [\"text/layers/*/mlp/down\"]",
                  where, quote(setting.key));
    if (table == nullptr || *table != setting.table) {
      Rule& rule = rules.emplace_back();
      try {
        rule.pattern = NamePattern(setting.table[0]);
      } catch (Error& error) {
        throw error.add_context(where);
      }
      rule.where = where;
      table = &setting.table;
    }
    if (setting.kind == TomlKind::kEmptyTable)
      throw Error(Code::kUsage, "{}: rule {} has no keys, expected some of {}", where,
                  quote(setting.table[0]), known_keys());
    if (setting.kind == TomlKind::kList && setting.key != "group")
      throw Error(Code::kUsage, "{}: {} is a list, one text expected", where, setting.key);
    if (setting.key == "layout")
      layouts.emplace_back(rules.size() - 1, &setting);
    else
      set_rule_member(rules.back(), setting.key, setting.values, where);
  }
  for (const auto& [rule, setting] : layouts)
    set_rule_member(rules[rule], setting->key, setting->values, place(*setting));
  for (const Rule& rule : rules)
    if (rule.kind && rule_members(rule).size() == 1)
      throw Error(Code::kUsage,
                  "{}: rule {} has only kind, which selects, expected a key that says "
                  "what becomes of the selected",
                  rule.where, quote(rule.pattern.text()));
  return rules;
}

}  // namespace

FormatName parse_format_name(std::string_view name) {
  if (name == kDirect) return {FormatName::Kind::kDirect, FormatId::kBf16};
  if (name == kKeep) return {FormatName::Kind::kStored, FormatId::kBf16};
  for (const auto& [shorter, id] : kShortNames)
    if (shorter == name) return {FormatName::Kind::kFormat, id};
  if (const codec::Format* format = codec::find_format(name))
    return {FormatName::Kind::kFormat, format->id};
  throw Error(Code::kUsage, "format {} is unknown, expected direct, keep, {} or a name of {}",
              quote(name), joined(short_format_names()), "docs/formats.md");
}

std::string format_name_text(const FormatName& name) {
  if (name.kind == FormatName::Kind::kDirect) return std::string(kDirect);
  if (name.kind == FormatName::Kind::kStored) return std::string(kKeep);
  return std::string(codec::format(name.id).name);
}

std::vector<std::string> short_format_names() {
  std::vector<std::string> names;
  for (const auto& [name, id] : kShortNames) names.emplace_back(name);
  return names;
}

void set_rule_member(Rule& rule, std::string_view key, const std::vector<std::string>& values,
                     std::string_view where) {
  if (std::ranges::find(kKeys, key) == std::end(kKeys)) {
    throw Error(Code::kUsage, "{}: {} is no key of a rule, expected one of {}", where, quote(key),
                known_keys());
  }
  if (key == "group") {
    if (values.size() < 2)
      throw Error(Code::kUsage, "{}: group has {} names, at least two expected", where,
                  values.size());
    for (size_t i = 0; i < values.size(); ++i)
      if (std::find(values.begin(), values.begin() + static_cast<ptrdiff_t>(i), values[i]) !=
          values.begin() + static_cast<ptrdiff_t>(i))
        throw Error(Code::kUsage, "{}: group names {} twice, each name once expected", where,
                    quote(values[i]));
    rule.group = values;
    return;
  }
  const std::string& value = single(key, values, where);
  const auto format = [&] {
    try {
      return parse_format_name(value);
    } catch (Error& error) {
      throw error.add_context(where);
    }
  };
  if (key == "kind") {
    rule.kind = one_of(key, value, kKinds, [](auto& row) { return row.first; }, where).second;
  } else if (key == "format") {
    rule.format = format();
  } else if (key == "otherwise") {
    rule.otherwise = format();
  } else if (key == "layout") {
    set_layout(rule, value, where);
  } else if (key == "policy") {
    rule.policy = one_of(key, value, kPolicies, graph::policy_name, where);
  } else if (key == "encoder") {
    check_encoder(value, where);
    rule.encoder = value;
  } else if (key == "source") {
    rule.source = value;
  } else if (key == "separate") {
    constexpr std::string_view truths[] = {"false", "true"};
    rule.separate =
        one_of(key, value, truths, [](std::string_view text) { return text; }, where) == "true";
  } else {
    rule.share = value;
  }
}

std::vector<std::pair<std::string, std::string>> rule_members(const Rule& rule) {
  std::vector<std::pair<std::string, std::string>> out;
  if (rule.kind) out.emplace_back("kind", kind_name(*rule.kind));
  if (rule.format) out.emplace_back("format", format_name_text(*rule.format));
  // Only where the name alone says another one.
  if (rule.format && rule.format->kind == FormatName::Kind::kFormat) {
    const codec::Format& format = codec::format(rule.format->id);
    if (codec::find_format(format.name)->id != format.id)
      out.emplace_back("layout", format.layout_name);
  }
  if (rule.otherwise) out.emplace_back("otherwise", format_name_text(*rule.otherwise));
  if (rule.policy) out.emplace_back("policy", graph::policy_name(*rule.policy));
  if (!rule.encoder.empty()) out.emplace_back("encoder", rule.encoder);
  if (!rule.source.empty()) out.emplace_back("source", rule.source);
  if (rule.separate) out.emplace_back("separate", *rule.separate ? "true" : "false");
  if (!rule.group.empty()) {
    std::string list;
    for (const std::string& name : rule.group)
      list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", name);
    out.emplace_back("group", "[" + list + "]");
  }
  if (!rule.share.empty()) out.emplace_back("share", rule.share);
  return out;
}

std::vector<Rule> parse_rules(std::string_view text, const std::string& name) {
  return rules_of(parse_toml(text, name), name);
}

std::vector<Rule> read_rules(const std::filesystem::path& path) {
  return rules_of(read_toml(path), path.string());
}

std::string rules_text(const std::vector<Rule>& rules) {
  std::string out;
  for (const Rule& rule : rules) {
    out += fmt::format("{}[\"{}\"]\n", out.empty() ? "" : "\n", rule.pattern.text());
    for (const auto& [key, value] : rule_members(rule))
      out += key == "separate" || key == "group" ? fmt::format("{} = {}\n", key, value)
                                                 : fmt::format("{} = \"{}\"\n", key, value);
  }
  return out;
}

std::string_view kind_name(ParameterKind kind) {
  for (const auto& [name, id] : kKinds)
    if (id == kind) return name;
  return "";
}

}  // namespace flare::prepare
