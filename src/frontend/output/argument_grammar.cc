// What cannot be said within tags (two orders of members at once) is narrowed, never widened.
#include "frontend/output/argument_grammar.h"

#include <algorithm>
#include <memory>
#include <span>

#include "base/processor_time.h"
#include "frontend/grammar/compiled_grammar.h"
#include "frontend/output/constraint.h"

namespace flare::frontend::output {
namespace {

using Expr = Grammar::Expr;

constexpr int kMaxDepth = 8;  // of typed elements and literals; below, any value
constexpr std::string_view kNumber =
    "-?(?:0|[1-9][0-9]{0,30})(?:\\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?";
constexpr std::string_view kKey = "[A-Za-z_][A-Za-z0-9_.-]{0,63}";
constexpr std::string_view kRootName = "flare-root";

// Tokens of single bytes: enough to tell whether a schema compiles.
std::shared_ptr<const grammar::Vocabulary> byte_vocabulary() {
  static const auto vocabulary = [] {
    std::vector<grammar::Token> tokens;
    for (int byte = 0; byte < 256; ++byte)
      tokens.push_back({.bytes = std::string(1, static_cast<char>(byte))});
    tokens.push_back({.bytes = {}, .kind = grammar::Token::Kind::kEnd});
    return std::make_shared<const grammar::Vocabulary>(std::move(tokens));
  }();
  return vocabulary;
}

// Every local reference in `schema` made one into $defs/flare-root. Parsed schemas are nested
// at most 256 deep.
void move_references(Json* schema) {
  if (schema->is_array())
    for (Json& item : schema->mutable_array()) move_references(&item);
  if (!schema->is_object()) return;
  for (auto& [name, value] : schema->mutable_object()) {
    if (name == "$ref" && value.is_string() && value.as_string().starts_with('#'))
      value = Json("#/$defs/" + std::string(kRootName) + value.as_string().substr(1));
    else
      move_references(&value);
  }
}

bool has_reference(const Json& schema) {
  return schema.to_text().find("\"$ref\"") != std::string::npos;
}

std::string regex_escaped(char c) {
  return std::string_view("\\^$.|?*+()[]{}/-").find(c) == std::string_view::npos
             ? std::string(1, c)
             : std::string("\\") + c;
}

Json object_schema() { return Json::object({{"type", "object"}}); }

Json object_schema_of(const Tool& tool) {
  Json schema = tool.parameters;
  if (!schema.find("type")) schema.set("type", "object");
  return schema;
}

// What bounds an object, and an array, but cannot be said where tags or literals spell it. Members
// and items are the form's own, and what is not listed is left out.
constexpr std::string_view kUnsaidOfObjects[] = {"patternProperties",
                                                 "minProperties",
                                                 "maxProperties",
                                                 "dependentRequired",
                                                 "dependencies",
                                                 "allOf",
                                                 "anyOf",
                                                 "oneOf",
                                                 "enum",
                                                 "const"};
constexpr std::string_view kUnsaidOfArrays[] = {"minItems", "maxItems", "prefixItems", "allOf",
                                                "anyOf",    "oneOf",    "enum",        "const"};

// The pointer to `wanted`, which lies within `root`; nullopt if it does not.
std::optional<std::string> pointer_to(const Json& root, const Json* wanted) {
  if (&root == wanted) return "";
  if (root.is_object())
    for (const auto& [name, member] : root.as_object())
      if (const auto rest = pointer_to(member, wanted)) {
        std::string token;
        for (const char c : name) token += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
        return '/' + token + *rest;
      }
  if (root.is_array())
    for (size_t i = 0; i < root.as_array().size(); ++i)
      if (const auto rest = pointer_to(root.as_array()[i], wanted))
        return '/' + std::to_string(i) + *rest;
  return std::nullopt;
}

}  // namespace

Expr ArgumentGrammar::tag(std::string_view text) {
  std::vector<Expr> parts;
  while (!text.empty()) {
    size_t at = text.size();
    std::string_view token;
    for (const std::string_view candidate : format_.tokens)
      if (const size_t found = text.find(candidate); found < at) {
        at = found;
        token = candidate;
      }
    if (at > 0) parts.push_back(g_.literal(text.substr(0, at)));
    if (!token.empty()) parts.push_back(g_.marker(token));
    text.remove_prefix(at + token.size());
  }
  return g_.sequence(std::move(parts));
}

Expr ArgumentGrammar::gap(const Spelling& spelling) {
  return spelling.gap.empty() ? empty() : g_.optional(g_.literal(spelling.gap));
}

Expr ArgumentGrammar::body(const Spelling& spelling, const Tool& tool, bool enforced) {
  tool_ = &tool;
  // Whatever the form says of the arguments, it says so of a schema that holds as a whole.
  if (enforced && tool.parameters.is_object()) enforced = enforceable(object_schema_of(tool), "");
  switch (spelling.body) {
    case Body::kNone:
      break;
    case Body::kJsonCall:
    case Body::kJson:
      return json_object(tool, enforced);
    case Body::kParameters:
      return parameters(spelling, enforced);
    case Body::kElements:
      return elements(spelling, &tool.parameters, enforced, 0);
    case Body::kLiteral:
      return literal_object(spelling, &tool.parameters, enforced, 0);
  }
  return empty();
}

bool ArgumentGrammar::enforceable(const Json& schema, std::string_view pointer) {
  const auto [known, is_new] = judged_.try_emplace(tool_->name + ' ' + schema.to_text(), true);
  if (!is_new) return known->second;
  const double started = thread_processor_ms();
  grammar::CompileLimits limits;
  limits.timeout_ms = std::max(0, limits.timeout_ms - static_cast<int>(judging_ms_));
  limits.warm_ms = 0;
  try {
    grammar::compile(grammar::json_schema_grammar(schema, {.strict = tool_->strict}),
                     byte_vocabulary(), limits);
    judging_ms_ += thread_processor_ms() - started;
    return true;
  } catch (const grammar::ConstraintError& error) {
    judging_ms_ += thread_processor_ms() - started;
    known->second = false;
    const std::string where = std::string(pointer) + error.pointer();
    if (tool_->strict) refuse(where, error.message());
    loosened_.push_back(
        fmt::format("tool '{}': {}{}: {}", tool_->name, tool_->path, where, error.message()));
    return false;
  }
}

void ArgumentGrammar::refuse(std::string_view pointer, std::string_view why) const {
  const std::string where = tool_->path + std::string(pointer);
  throw grammar::ConstraintError(
      kInvalidToolSchema, where,
      "tool '{}': {}: {}; a strict tool needs a schema that can be enforced", tool_->name, where,
      why);
}

// Where the schema at this place has more to say than tags can: refuses a strict tool, notes it of
// another.
void ArgumentGrammar::note_unsaid(const Json* schema, bool is_array) {
  for (int depth = 0; schema && schema->is_object() && depth < kMaxDepth; ++depth) {
    const auto unsaid_here = [&](std::string_view keyword, std::string_view why) {
      const std::string where =
          pointer_to(tool_->parameters, schema).value_or("") + '/' + std::string(keyword);
      if (tool_->strict) refuse(where, why);
      loosened_.push_back(fmt::format("tool '{}': {}{}: {}", tool_->name, tool_->path, where, why));
    };
    const std::span<const std::string_view> unsaid =
        is_array ? std::span<const std::string_view>(kUnsaidOfArrays) : kUnsaidOfObjects;
    for (const std::string_view keyword : unsaid)
      if (schema->find(keyword))
        unsaid_here(keyword, fmt::format("'{}' cannot be said in this tool format", keyword));
    const Json *properties = schema->find("properties"), *required = schema->find("required");
    if (!is_array && required && required->is_array())
      for (const Json& name : required->as_array())
        if (name.is_string() && !(properties && properties->find(name.as_string())))
          unsaid_here("required",
                      fmt::format("{} is not among 'properties'", quote(name.as_string())));
    if (const Json* more = schema->find("additionalProperties");
        !is_array && !properties && more && more->is_object() && !more->as_object().empty())
      unsaid_here("additionalProperties", "it cannot be said in this tool format");
    const Json* reference = schema->find("$ref");
    schema = reference ? resolve_reference(tool_->parameters, *reference) : nullptr;
  }
}

Expr ArgumentGrammar::json_object(const Tool& tool, bool enforced) {
  if (!enforced || !tool.parameters.is_object()) return g_.json(object_schema());
  return g_.json(object_schema_of(tool), {.strict = tool.strict});
}

// A value within tags whose schema is part of the tool's.
Expr ArgumentGrammar::json_value(const Json& schema) {
  Json whole = with_root(schema);
  if (!enforceable(whole, "")) return g_.json(Json(true));
  return g_.json(std::move(whole), {.strict = tool_->strict});
}

// The numbers, truth values and null of a schema that allows other values too.
Expr ArgumentGrammar::scalar_value(const Json& schema) {
  Json own = Json::object();
  own.set("type", Json::array({"number", "boolean", "null"}));
  own.set("allOf", Json::array({schema}));
  return json_value(own);
}

// The schema with the root under its $defs, if it refers there.
Json ArgumentGrammar::with_root(const Json& schema) const {
  if (!has_reference(schema)) return schema;
  Json root = tool_->parameters, own = schema;
  move_references(&root);
  move_references(&own);
  Json definitions = Json::object();
  definitions.set(kRootName, std::move(root));
  own.set("$defs", std::move(definitions));
  return own;
}

uint8_t ArgumentGrammar::types(const Json* schema) const {
  return schema ? schema_types(tool_->parameters, schema) : kAnyType;
}

std::vector<ArgumentGrammar::Member> ArgumentGrammar::members(const Json* schema) const {
  std::vector<Member> list;
  for (int depth = 0; schema && depth < kMaxDepth; ++depth) {
    const Json* properties = schema->find("properties");
    if (properties && properties->is_object()) {
      const Json* required = schema->find("required");
      for (const auto& [key, value] : properties->as_object()) {
        const bool needed =
            required && required->is_array() &&
            std::ranges::find(required->as_array(), Json(key)) != required->as_array().end();
        list.push_back({.key = key, .schema = &value, .required = needed});
      }
      return list;
    }
    const Json* reference = schema->find("$ref");
    schema = reference ? resolve_reference(tool_->parameters, *reference) : nullptr;
  }
  return list;
}

// Whether members that are not listed may stand.
bool ArgumentGrammar::is_open(const Json* schema) const {
  if (!schema || !schema->is_object()) return true;
  if (const Json* more = schema->find("additionalProperties")) return *more != Json(false);
  return !(tool_->strict && schema->find("properties"));
}

// A string as it stands between tags: what the schema allows of `free_text`.
Expr ArgumentGrammar::tagged_text(const Json* schema, const std::function<Expr()>& free_text) {
  const Expr free = free_text();
  if (!schema || !schema->is_object()) return free;
  constexpr std::string_view kOfTexts[] = {"enum",  "const",   "$ref",      "allOf",     "anyOf",
                                           "oneOf", "pattern", "minLength", "maxLength", "format"};
  if (std::ranges::none_of(kOfTexts, [&](std::string_view key) { return schema->find(key); }))
    return free;
  Json whole = with_root(*schema);
  if (!enforceable(whole, "")) return free;
  const Expr text = g_.string_text(std::move(whole), {.strict = tool_->strict}, free);
  return types(schema) & kNullType ? g_.choice({text, g_.literal("null")}) : text;
}

// Lines none of which begins with the closing tag (S6.4): what may stand between the newline behind
// the opening tag and the one before the closing one.
Expr ArgumentGrammar::line_text(std::string_view close) {
  std::string line = "(?:";
  for (size_t i = 0; i < close.size(); ++i) {
    std::string prefix;
    for (const char c : close.substr(0, i)) prefix += regex_escaped(c);
    line += (i ? "|" : "") + prefix + "(?:[^\\n" + regex_escaped(close[i]) + "][^\\n]*)?";
  }
  line += ")";
  return g_.regex(line + "(?:\\n" + line + ")*");
}

// VALUE with its borders and the closing tag, for a value of plain text.
Expr ArgumentGrammar::text_parameter(const Spelling& spelling, Expr text) {
  const ParameterSyntax& p = spelling.parameter;
  const Expr border = p.line_borders ? g_.literal("\n") : empty();
  return g_.sequence({border, text, border, tag(p.close), gap(spelling)});
}

Expr ArgumentGrammar::parameter(const Spelling& spelling, Expr key, const Json* schema,
                                bool typed) {
  const ParameterSyntax& p = spelling.parameter;
  const auto free_text = [&] {
    return p.line_borders ? line_text(p.close) : g_.text_without({std::string(p.close)});
  };
  std::vector<Expr> head = {tag(p.open)};
  if (!p.key_attribute.empty()) head.push_back(g_.literal(std::string(p.key_attribute) + "=\""));
  head.push_back(key);
  if (!p.key_attribute.empty()) head.push_back(g_.literal("\""));
  const auto rest = [&](std::string_view type, Expr value) {
    const Expr attribute = p.type_attribute.empty()
                               ? empty()
                               : g_.literal(fmt::format(" {}=\"{}\"", p.type_attribute, type));
    return g_.sequence({attribute, tag(p.open_end), p.value_open.empty() ? empty() : gap(spelling),
                        p.value_open.empty() ? empty() : tag(p.value_open),
                        text_parameter(spelling, value)});
  };
  const uint8_t allowed = typed ? types(schema) : kAnyType;
  std::vector<Expr> options;
  const bool by_attribute = !p.type_attribute.empty();
  if (allowed & kStringType)
    options.push_back(rest(p.typing == Typing::kTypeAttribute ? "string" : "true",
                           typed ? tagged_text(schema, free_text) : free_text()));
  if ((allowed & kStringType) == 0 || (by_attribute && allowed != kStringType)) {
    const auto value = [&](std::string_view type) {
      if (!typed || !schema) {
        Json any = Json::object();
        if (p.typing == Typing::kTypeAttribute) any.set("type", type);
        return g_.json(any);
      }
      Json own = *schema;
      if (p.typing == Typing::kTypeAttribute && own.is_object() && !own.find("anyOf") &&
          !own.find("oneOf") && !own.find("$ref") && !own.find("enum") && !own.find("const") &&
          !(type == "number" && own.find("type") == nullptr))
        own.set("type",
                own.find("type") && *own.find("type") == Json("integer") ? "integer" : type);
      return json_value(own);
    };
    if (p.typing == Typing::kTypeAttribute) {
      constexpr std::pair<uint8_t, std::string_view> kNames[] = {{kNumberType, "number"},
                                                                 {kBoolType, "boolean"},
                                                                 {kNullType, "null"},
                                                                 {kArrayType, "array"},
                                                                 {kObjectType, "object"}};
      for (const auto& [bit, name] : kNames)
        if (allowed & bit) options.push_back(rest(name, value(name)));
    } else {
      options.push_back(rest("false", value("")));
    }
  }
  head.push_back(g_.choice(std::move(options)));
  return g_.sequence(std::move(head));
}

// Members in the order of `properties`, each at most once. Where any are listed no others may
// stand: a pattern of keys that leaves those out cannot be said.
Expr ArgumentGrammar::parameters(const Spelling& spelling, bool enforced) {
  const Json* schema = &tool_->parameters;
  std::vector<Expr> parts;
  if (enforced) note_unsaid(schema, false);
  if (enforced)
    for (const Member& member : members(schema)) {
      std::string key;  // as attributes write it
      for (const char c : member.key)
        key += spelling.parameter.escapes && c == '&'   ? "&amp;"
               : spelling.parameter.escapes && c == '"' ? "&quot;"
                                                        : std::string(1, c);
      const Expr one = parameter(spelling, g_.literal(key), member.schema, true);
      parts.push_back(member.required ? one : g_.optional(one));
    }
  if (!enforced || (parts.empty() && is_open(schema)))
    parts.push_back(
        g_.repeat(parameter(spelling, g_.regex(kKey), nullptr, false), 0, Grammar::kUnbounded));
  return g_.sequence(std::move(parts));
}

Expr ArgumentGrammar::elements(const Spelling& spelling, const Json* schema, bool enforced,
                               int depth) {
  if (enforced) note_unsaid(schema, false);
  const auto list = members(schema);
  std::vector<Expr> parts;
  for (const Member& member : list) {
    const Expr one = element(spelling, member.key, member.schema, enforced, depth + 1);
    parts.push_back(enforced && member.required ? one : g_.optional(one));
  }
  return g_.sequence(std::move(parts));
}

Expr ArgumentGrammar::element(const Spelling& spelling, const std::string& key, const Json* schema,
                              bool typed, int depth) {
  const std::string open = std::string(spelling.element_mark) + "<" + key + ">";
  const std::string close = std::string(spelling.element_mark) + "</" + key + ">";
  const auto free_text = [&] { return g_.text_without({std::string(spelling.element_mark)}); };
  const uint8_t allowed = types(schema);
  std::vector<Expr> options;
  if (allowed & kStringType)
    options.push_back(typed ? tagged_text(schema, free_text) : free_text());
  const Json* items = item_schema(tool_->parameters, schema);
  if ((allowed & kObjectType) && depth < kMaxDepth && !members(schema).empty())
    options.push_back(elements(spelling, schema, typed, depth));
  if (typed && (allowed & kArrayType)) note_unsaid(schema, true);
  if (typed && (allowed & kObjectType) && members(schema).empty()) note_unsaid(schema, false);
  if ((allowed & kArrayType) && depth < kMaxDepth)
    options.push_back(
        g_.repeat(element(spelling, "item", items, typed, depth + 1), 0, Grammar::kUnbounded));
  if ((allowed & kStringType) == 0) {
    const uint8_t scalars = allowed & (kNumberType | kBoolType | kNullType);
    if (scalars && !(allowed & (kArrayType | kObjectType)))
      options.push_back(typed && schema ? json_value(*schema) : g_.json(Json(true)));
    else if (scalars)
      options.push_back(typed && schema ? scalar_value(*schema) : g_.regex(kNumber));
    if (options.empty()) options.push_back(g_.json(object_schema()));
  }
  return g_.sequence({tag(open), g_.choice(std::move(options)), tag(close), gap(spelling)});
}

Expr ArgumentGrammar::quoted(const Spelling& spelling, Expr text) {
  return g_.sequence({tag(spelling.quote), text, tag(spelling.quote)});
}

// {key:value,…}. A rule per place, because a comma depends on what stands before.
Expr ArgumentGrammar::literal_object(const Spelling& spelling, const Json* schema, bool typed,
                                     int depth) {
  if (typed) note_unsaid(schema, false);
  auto list = members(schema);
  if (!typed || list.empty()) {
    const Expr member = g_.sequence({g_.regex(kKey), g_.literal(":"), any_literal(spelling)});
    const Expr more = g_.repeat(g_.sequence({g_.literal(","), member}), 0, Grammar::kUnbounded);
    return g_.sequence(
        {g_.literal("{"), g_.optional(g_.sequence({member, more})), g_.literal("}")});
  }
  std::ranges::sort(list, {}, &Member::key);  // as the families' templates write them
  Expr first = empty(), later = empty();      // the rest, with nothing and something before it
  for (size_t i = list.size(); i-- > 0;) {
    const Expr member = g_.sequence(
        {g_.literal(list[i].key + ":"), literal_value(spelling, list[i].schema, true, depth + 1)});
    const Grammar::Rule member_rule = g_.declare(list[i].key);
    g_.define(member_rule, member);
    const Grammar::Rule rule = g_.declare("rest"), later_rule = g_.declare("more");
    std::vector<Expr> with = {g_.sequence({g_.use(member_rule), later})};
    std::vector<Expr> with_comma = {g_.sequence({g_.literal(","), g_.use(member_rule), later})};
    if (!list[i].required) {
      with.push_back(first);
      with_comma.push_back(later);
    }
    g_.define(rule, g_.choice(std::move(with)));
    g_.define(later_rule, g_.choice(std::move(with_comma)));
    first = g_.use(rule);
    later = g_.use(later_rule);
  }
  return g_.sequence({g_.literal("{"), first, g_.literal("}")});
}

Expr ArgumentGrammar::literal_value(const Spelling& spelling, const Json* schema, bool typed,
                                    int depth) {
  if (!typed || !schema || depth > kMaxDepth) return any_literal(spelling);
  const uint8_t allowed = types(schema);
  std::vector<Expr> options;
  const auto free_text = [&] { return g_.text_without({std::string(spelling.quote)}); };
  if (allowed & kStringType) options.push_back(quoted(spelling, tagged_text(schema, free_text)));
  if (const uint8_t scalars = allowed & (kNumberType | kBoolType | kNullType)) {
    options.push_back(scalars == allowed ? json_value(*schema) : scalar_value(*schema));
  }
  if (allowed & kArrayType) {
    note_unsaid(schema, true);
    const Expr item =
        literal_value(spelling, item_schema(tool_->parameters, schema), true, depth + 1);
    const Grammar::Rule rule = g_.declare("item");
    g_.define(rule, item);
    const Expr more =
        g_.repeat(g_.sequence({g_.literal(","), g_.use(rule)}), 0, Grammar::kUnbounded);
    options.push_back(g_.sequence(
        {g_.literal("["), g_.optional(g_.sequence({g_.use(rule), more})), g_.literal("]")}));
  }
  if (allowed & kObjectType) options.push_back(literal_object(spelling, schema, true, depth + 1));
  return g_.choice(std::move(options));
}

Expr ArgumentGrammar::any_literal(const Spelling& spelling) {
  if (any_literal_) return g_.use(*any_literal_);
  any_literal_ = g_.declare("literal");
  const Expr value = g_.use(*any_literal_);
  const Expr comma = g_.literal(",");
  const auto list = [&](Expr item) {
    return g_.optional(
        g_.sequence({item, g_.repeat(g_.sequence({comma, item}), 0, Grammar::kUnbounded)}));
  };
  const Expr text = quoted(spelling, g_.text_without({std::string(spelling.quote)}));
  const Expr key = g_.choice({g_.regex(kKey), text});
  const Expr member = g_.sequence({key, g_.literal(":"), value});
  g_.define(
      *any_literal_,
      g_.choice({text, g_.regex(kNumber), g_.literal("true"), g_.literal("false"),
                 g_.literal("null"), g_.sequence({g_.literal("["), list(value), g_.literal("]")}),
                 g_.sequence({g_.literal("{"), list(member), g_.literal("}")})}));
  return value;
}

}  // namespace flare::frontend::output
