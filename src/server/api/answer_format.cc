// Reading and checking of the fields; compiling is the service's.
#include "server/api/answer_format.h"

#include <algorithm>
#include <array>

namespace flare::server {
namespace {

using frontend::grammar::Grammar;

constexpr size_t kMaxSchemaBytes = 1 << 20;  // S7.5
constexpr size_t kMaxRegexBytes = 64 << 10;
constexpr size_t kMaxGrammarBytes = 256 << 10;
constexpr size_t kMaxChoices = 1024;
constexpr size_t kMaxName = 256;

[[noreturn]] void fail(std::string code, const std::string& param, const std::string& message) {
  throw ApiError{400, std::move(code), message, param};
}

// Runs `make` and turns its ConstraintError into one that names the field.
template <typename Make>
Grammar made(const std::string& param, Make make) {
  try {
    return make();
  } catch (const frontend::grammar::ConstraintError& error) {
    throw ApiError{400, std::string(error.wire_code()),
                   fmt::format("'{}': {}", param, error.message()), param};
  }
}

// A schema as an object, or as its text.
Grammar schema_grammar(const Json& given, const std::string& param, bool strict) {
  Json schema = given;
  if (given.is_string()) {
    try {
      schema = parse_json(given.as_string(), param);
    } catch (const Error& error) {
      fail("invalid_json_schema", param, error.message());
    }
  }
  if (!schema.is_object() && !schema.is_bool())
    fail("invalid_json_schema", param,
         fmt::format("'{}' is {}, a schema (an object or a boolean) expected", param,
                     a_kind(schema)));
  if (const size_t bytes = schema.to_text().size(); bytes > kMaxSchemaBytes)
    fail("constraint_too_large", param,
         fmt::format("'{}' has {} bytes, at most {} expected", param, bytes, kMaxSchemaBytes));
  return made(param, [&] {
    return frontend::grammar::json_schema_grammar(std::move(schema), {.strict = strict});
  });
}

std::string bounded_text(const Json& value, const std::string& param, size_t max_bytes) {
  if (!value.is_string())
    fail("invalid_type", param, fmt::format("'{}' is {}, string expected", param, a_kind(value)));
  const std::string& text = value.as_string();
  if (text.size() > max_bytes)
    fail("constraint_too_large", param,
         fmt::format("'{}' has {} bytes, at most {} expected", param, text.size(), max_bytes));
  return text;
}

Grammar choice_grammar(const Json& value, const std::string& param) {
  if (!value.is_array())
    fail("invalid_type", param, fmt::format("'{}' is {}, array expected", param, a_kind(value)));
  const Json::Array& options = value.as_array();
  if (options.empty() || options.size() > kMaxChoices)
    fail("invalid_value", param,
         fmt::format("'{}' has {} texts, 1..{} expected", param, options.size(), kMaxChoices));
  std::vector<std::string> texts;
  for (size_t i = 0; i < options.size(); ++i)
    texts.push_back(bounded_text(options[i], fmt::format("{}[{}]", param, i), kMaxGrammarBytes));
  return made(param, [&] { return frontend::grammar::choice_grammar(texts); });
}

// One constraint by its kind: json, regex, choice, grammar; json_object: true.
std::optional<Grammar> constraint_of(std::string_view kind, const Json& value,
                                     const std::string& param) {
  if (kind == "json") return schema_grammar(value, param, false);
  if (kind == "choice") return choice_grammar(value, param);
  if (kind == "regex")
    return made(param, [&] {
      return frontend::grammar::regex_grammar(bounded_text(value, param, kMaxRegexBytes));
    });
  if (kind == "grammar")
    return made(param, [&] {
      return frontend::grammar::parse_gbnf(bounded_text(value, param, kMaxGrammarBytes));
    });
  if (!value.is_bool())
    fail("invalid_type", param, fmt::format("'{}' is {}, boolean expected", param, a_kind(value)));
  if (!value.as_bool()) return std::nullopt;
  return frontend::grammar::json_object_grammar();
}

// Takes one more constraint; two exclude each other.
void add(AnswerFormat* format, std::optional<Grammar> grammar, const std::string& param,
         bool is_regex = false) {
  if (!grammar) return;
  if (format->grammar)
    fail("conflicting_parameters", param,
         fmt::format("'{}' and '{}' exclude each other", format->param, param));
  format->grammar = std::move(grammar);
  format->param = param;
  format->is_regex = is_regex;
}

void read_structured(const Json& given, AnswerFormat* format) {
  static constexpr std::array<std::string_view, 5> kKinds = {"json", "regex", "choice", "grammar",
                                                             "json_object"};
  bool any = false;
  for (const auto& [name, value] : given.as_object()) {
    const std::string param = "structured_outputs." + name;
    if (value.is_null()) continue;
    if (std::ranges::find(kKinds, name) == kKinds.end())
      fail("unsupported_parameter", param,
           fmt::format("'{}' is not supported; json, regex, choice, grammar and json_object are",
                       param));
    add(format, constraint_of(name, value, param), param, name == "regex");
    any = true;
  }
  if (!any)
    fail("missing_field", "structured_outputs",
         "'structured_outputs' is empty; one of json, regex, choice, grammar and json_object "
         "expected");
}

}  // namespace

std::optional<Grammar> read_format_object(const Json& format, const std::string& param) {
  const Fields fields(format, param + ".");
  const auto type = fields.text("type", kMaxName);
  if (!type) fail("missing_field", param + ".type", fmt::format("'{}.type' is missing", param));
  if (*type == "text") return std::nullopt;
  if (*type == "json_object") return frontend::grammar::json_object_grammar();
  if (*type != "json_schema")
    fields.wrong_value("type", quote(*type), "text, json_object or json_schema");
  const Json* wrapped = fields.object("json_schema");
  const std::string prefix = wrapped ? param + ".json_schema" : param;
  const Fields inner(wrapped ? *wrapped : format, prefix + ".");
  inner.text("name", kMaxName);
  inner.text("description", SIZE_MAX);
  const bool strict = inner.boolean("strict").value_or(false);
  const Json* schema = inner.find("schema");
  if (!schema)
    fail("missing_field", prefix + ".schema", fmt::format("'{}.schema' is missing", prefix));
  return schema_grammar(*schema, prefix + ".schema", strict);
}

AnswerFormat read_answer_format(const Fields& fields) {
  AnswerFormat format;
  if (const Json* given = fields.object("response_format"))
    add(&format, read_format_object(*given, "response_format"), "response_format");
  if (const Json* given = fields.object("structured_outputs")) read_structured(*given, &format);
  static constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
      {"guided_json", "json"},       {"guided_regex", "regex"}, {"guided_choice", "choice"},
      {"guided_grammar", "grammar"}, {"grammar", "grammar"},    {"json_schema", "json"}};
  for (const auto& [name, kind] : kAliases)
    if (const Json* given = fields.find(name)) {
      const std::string param(name);
      // llama.cpp's clients send an empty grammar for none.
      if (kind == "grammar" && *given == Json("")) continue;
      add(&format, constraint_of(kind, *given, param), param, kind == "regex");
    }
  return format;
}

}  // namespace flare::server
