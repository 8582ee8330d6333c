// Reads the keywords of one schema: checks their form, refuses what cannot be enforced.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "frontend/grammar/formats.h"
#include "frontend/grammar/pattern.h"
#include "frontend/grammar/schema.h"

namespace flare::frontend::grammar {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxNodes = 20000;
constexpr uint32_t kMaxBound = 1u << 30;
// Branches of oneOf that are compared with each other.
constexpr size_t kMaxCompared = 64;
constexpr int kCompareDepth = 4;

// Members are schemas by name.
constexpr std::array kMaps = {
    std::string_view("properties"),
    std::string_view("patternProperties"),
    std::string_view("$defs"),
    std::string_view("definitions"),
    std::string_view("dependentRequired"),
    std::string_view("dependentSchemas"),
    std::string_view("dependencies"),
};

template <typename List>
bool holds(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::string escape_token(std::string_view token) {
  std::string out;
  for (const char c : token) c == '~' ? out += "~0" : c == '/' ? out += "~1" : out += c;
  return out;
}

// A reference token of RFC 6901 inside a URI fragment; nullopt if an escape is broken.
std::optional<std::string> unescape_token(std::string_view token) {
  std::string bytes;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '%') {
      bytes += token[i];
      continue;
    }
    uint8_t value = 0;
    if (i + 2 >= token.size()) return std::nullopt;
    const auto [stop, failure] =
        std::from_chars(token.data() + i + 1, token.data() + i + 3, value, 16);
    if (failure != std::errc() || stop != token.data() + i + 3) return std::nullopt;
    bytes += static_cast<char>(value);
    i += 2;
  }
  std::string out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '~') {
      out += bytes[i];
    } else if (++i < bytes.size() && (bytes[i] == '0' || bytes[i] == '1')) {
      out += bytes[i] == '0' ? '~' : '/';
    } else {
      return std::nullopt;
    }
  }
  return out;
}

// A text that equal values have in common: numbers by value, members in any order. nullopt of a
// value that equals none, not even itself: it holds a number that is too large to compare.
std::optional<std::string> value_key(const Json& value) {
  if (value.is_number()) {
    const std::optional<Decimal> d = Decimal::of(value);
    return d ? std::optional(d->text()) : std::nullopt;
  }
  if (!value.is_array() && !value.is_object()) return value.to_text();
  std::vector<std::string> parts;
  if (value.is_array()) {
    for (const Json& item : value.as_array()) {
      std::optional<std::string> key = value_key(item);
      if (!key) return std::nullopt;
      parts.push_back(std::move(*key));
    }
  } else {
    for (const auto& [name, member] : value.as_object()) {
      const std::optional<std::string> key = value_key(member);
      if (!key) return std::nullopt;
      parts.push_back(quote_json(name) + ':' + *key);
    }
    std::sort(parts.begin(), parts.end());
  }
  std::string out(1, value.is_array() ? '[' : '{');
  for (const std::string& part : parts) out += part + ',';
  return out;
}

unsigned kind_of(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::kNull:
      return Kinds::kNull;
    case Json::Kind::kBool:
      return Kinds::kBool;
    case Json::Kind::kInteger:
    case Json::Kind::kReal:
      return Kinds::kInteger | Kinds::kReal;
    case Json::Kind::kString:
      return Kinds::kString;
    case Json::Kind::kArray:
      return Kinds::kArray;
    case Json::Kind::kObject:
      return Kinds::kObject;
  }
  return Kinds::kAll;
}

}  // namespace

// Where every schema stands, and that there are not too many or too deep ones.
void SchemaCompiler::survey(const Json& schema) {
  struct Visit {
    const Json* node;
    int depth;
    bool map;    // its members are schemas by name
    bool value;  // it stands in an enumeration
  };
  std::vector<Visit> todo = {{&schema, 0, false, false}};
  size_t n_nodes = 0;
  while (!todo.empty()) {
    const Visit v = todo.back();
    todo.pop_back();
    const int depth = v.depth + (v.node->is_object() && !v.map ? 1 : 0);
    if (depth > kMaxDepth)
      throw ConstraintError(kConstraintTooLarge, pointer(*v.node),
                            "schema: {} lies deeper than {} levels", quote(pointer(*v.node)),
                            kMaxDepth);
    const auto count = [&] {
      if (++n_nodes > kMaxNodes)
        throw ConstraintError(kConstraintTooLarge, "", "schema: it has more than {} nodes",
                              kMaxNodes);
      languages_.charge(sizeof(Origin) + 64);
    };
    count();
    const auto enter = [&](const Json& child, std::string token, bool map, bool value) {
      if (child.is_object() || child.is_array()) {
        todo.push_back({&child, depth, map, value});
      } else {
        if (value || !child.is_bool()) return;  // no schema
        count();
      }
      origins_[&child] = {v.node, std::move(token), value};
    };
    if (v.node->is_object()) {
      for (const auto& [key, child] : v.node->as_object())
        enter(child, escape_token(key), !v.map && holds(kMaps, key),
              v.value || (!v.map && (key == "enum" || key == "const")));
    } else if (v.node->is_array()) {
      size_t i = 0;
      for (const Json& child : v.node->as_array())
        enter(child, std::to_string(i++), false, v.value);
    }
  }
}

std::string SchemaCompiler::pointer(const Json& node, std::string_view keyword) const {
  std::vector<std::string_view> tokens;
  const Json* at = &node;
  for (auto it = origins_.find(at); it != origins_.end(); it = origins_.find(at)) {
    tokens.push_back(it->second.token);
    at = it->second.parent;
  }
  std::string out;
  for (size_t i = tokens.size(); i-- > 0;) {
    out += '/';
    out += tokens[i];
  }
  if (!keyword.empty()) out += '/' + escape_token(keyword);
  return out;
}

void SchemaCompiler::note(const Json& schema, std::string_view keyword, std::string_view what) {
  std::string text = fmt::format("{}: {}", pointer(schema, keyword), what);
  if (noted_.insert(text).second) relaxed_.push_back(std::move(text));
}

const SchemaCompiler::Keywords& SchemaCompiler::read(const Json& schema) {
  const auto known = keywords_.find(&schema);
  if (known != keywords_.end()) return known->second;
  check_();
  Keywords out;
  for (const auto& [key, value] : schema.as_object()) read_member(schema, key, value, out);
  const Json* nullable = schema.find("nullable");
  if (nullable != nullptr && nullable->is_bool() && nullable->as_bool() && schema.find("type"))
    out.kinds |= Kinds::kNull;
  out.closed_by_strict =
      options_.strict && schema.find("properties") != nullptr && out.additional == nullptr;
  if (out.has_values) {
    out.value_kinds = 0;
    for (const Json* v : out.values) out.value_kinds |= kind_of(*v);
  }
  languages_.charge(sizeof(Keywords) + out.properties.size() * 48 + out.required.size() * 40);
  return keywords_.emplace(&schema, std::move(out)).first->second;
}

namespace {

[[noreturn]] void fail_form(std::string where, std::string_view expected) {
  throw ConstraintError(kInvalidJsonSchema, where, "schema: {} is expected to be {}", quote(where),
                        expected);
}
[[noreturn]] void fail_unsupported(std::string where, std::string_view what) {
  throw ConstraintError(kUnsupportedJsonSchema, where, "schema: {}: {} cannot be enforced",
                        quote(where), what);
}

}  // namespace

void SchemaCompiler::read_member(const Json& schema, std::string_view key, const Json& value,
                                 Keywords& out) {
  if (holds(kRefusedKeywords, key))
    fail_unsupported(pointer(schema, key), fmt::format("'{}'", key));
  if (key == "uniqueItems") {
    if (!value.is_bool()) fail_form(pointer(schema, key), "a boolean");
    if (value.as_bool()) fail_unsupported(pointer(schema, key), "'uniqueItems'");
    return;
  }
  // One after the other until one knows the keyword; others are ignored.
  (void)(read_joint(schema, key, value, out) || read_number(schema, key, value, out) ||
         read_string(schema, key, value, out) || read_array(schema, key, value, out) ||
         read_object(schema, key, value, out));
}

unsigned SchemaCompiler::read_kinds(const Json& schema, const Json& value) {
  const auto one = [&](const Json& name) -> unsigned {
    if (name.is_string()) {
      const std::string& n = name.as_string();
      if (n == "null") return Kinds::kNull;
      if (n == "boolean") return Kinds::kBool;
      if (n == "integer") return Kinds::kInteger;
      if (n == "number") return Kinds::kInteger | Kinds::kReal;
      if (n == "string") return Kinds::kString;
      if (n == "array") return Kinds::kArray;
      if (n == "object") return Kinds::kObject;
    }
    fail_form(pointer(schema, "type"), "the name of a JSON type");
  };
  if (!value.is_array()) return one(value);
  unsigned kinds = 0;
  for (const Json& name : value.as_array()) kinds |= one(name);
  return kinds;
}

bool SchemaCompiler::read_joint(const Json& schema, std::string_view key, const Json& value,
                                Keywords& out) {
  const auto branches = [&]() -> const Json::Array* {
    const bool ok = value.is_array() && !value.as_array().empty() &&
                    std::all_of(value.as_array().begin(), value.as_array().end(),
                                [&](const Json& s) { return is_schema(s); });
    if (!ok) fail_form(pointer(schema, key), "a list of schemas");
    return &value.as_array();
  };
  if (key == "type") {
    out.kinds = read_kinds(schema, value);
  } else if (key == "enum" || key == "const") {
    if (key == "enum" && !value.is_array()) fail_form(pointer(schema, key), "a list");
    read_values(key == "const" ? std::span(&value, 1) : std::span(value.as_array()), out);
  } else if (key == "$ref") {
    if (!value.is_string()) fail_form(pointer(schema, key), "a string");
    out.ref = resolve(schema, value.as_string());
  } else if (key == "allOf") {
    out.all_of = branches();
  } else if (key == "anyOf") {
    out.any_of.push_back(branches());
  } else if (key == "oneOf") {
    const Json::Array& list = *branches();
    out.any_of.push_back(&list);
    one_ofs_.emplace_back(&schema, &list);
  } else {
    return false;
  }
  return true;
}

// The values of enum or const; of those of both only what is in each.
void SchemaCompiler::read_values(std::span<const Json> values, Keywords& out) {
  std::vector<const Json*> kept;
  std::unordered_set<std::string> keys;
  for (const Json& value : values) {
    std::optional<std::string> key = value_key(value);
    languages_.charge(key ? key->size() + 64 : 8);
    if (out.has_values && !(key && out.value_keys.contains(*key))) continue;
    kept.push_back(&value);
    if (key) keys.insert(std::move(*key));
  }
  out.values = std::move(kept);
  out.value_keys = std::move(keys);
  out.has_values = true;
}

// Takes from `values` what `other` does not list.
void SchemaCompiler::keep_common(std::vector<const Json*>& values, const Keywords& other) {
  std::erase_if(values, [&](const Json* value) {
    languages_.charge(0);
    const std::optional<std::string> key = value_key(*value);
    return !key || !other.value_keys.contains(*key);
  });
}

bool SchemaCompiler::read_number(const Json& schema, std::string_view key, const Json& value,
                                 Keywords& out) {
  const bool lower = key == "minimum" || key == "exclusiveMinimum";
  const bool upper = key == "maximum" || key == "exclusiveMaximum";
  if (!lower && !upper && key != "multipleOf") return false;
  const bool exclusive = key.starts_with("exclusive");
  if (exclusive && value.is_bool()) {  // draft 4: makes the neighbour exclusive
    const Json* bound = schema.find(lower ? "minimum" : "maximum");
    if (value.as_bool() && bound != nullptr && bound->is_number()) {
      (lower ? out.bounds.above_least : out.bounds.below_most) = true;
      (lower ? out.bounds.least : out.bounds.most) = Decimal::of(*bound);
    }
    return true;
  }
  if (!value.is_number()) fail_form(pointer(schema, key), "a number");
  const std::optional<Decimal> d = Decimal::of(value);
  if (!d) fail_unsupported(pointer(schema, key), "a number of that size");
  if (key == "multipleOf") {
    if (d->negative || d->is_zero()) fail_form(pointer(schema, key), "a positive number");
    if (!is_supported_step(*d)) fail_unsupported(pointer(schema, key), "'multipleOf' of this step");
    out.bounds.multiples_of.push_back(*d);
    return true;
  }
  std::optional<Decimal>& bound = lower ? out.bounds.least : out.bounds.most;
  bool& strict = lower ? out.bounds.above_least : out.bounds.below_most;
  const bool tighter = !bound || (lower ? *d > *bound : *d < *bound);
  if (tighter) {
    bound = d;
    strict = exclusive;
  } else if (*d == *bound) {
    strict |= exclusive;
  }
  return true;
}

namespace {

// A count: a whole number, also written as 2.0. Larger ones than fit are as good as the largest.
std::optional<uint32_t> read_count(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const std::optional<Decimal> d = Decimal::of(value);
  if (!d || d->negative || !d->is_integer()) return std::nullopt;
  if (d->whole.size() > 9) return kMaxBound;
  uint32_t n = 0;
  std::from_chars(d->whole.data(), d->whole.data() + d->whole.size(), n);
  return std::min(n, kMaxBound);
}

}  // namespace

bool SchemaCompiler::read_string(const Json& schema, std::string_view key, const Json& value,
                                 Keywords& out) {
  Lang part = Languages::kEverything;
  if (key == "minLength" || key == "maxLength") {
    const std::optional<uint32_t> n = read_count(value);
    if (!n) fail_form(pointer(schema, key), "a whole number, not negative");
    const Lang any = languages_.letters(any_code_point());
    part = key == "minLength" ? languages_.repeat(any, *n, Languages::kInfinite)
                              : languages_.repeat(any, 0, *n);
  } else if (key == "pattern") {
    if (!value.is_string()) fail_form(pointer(schema, key), "a pattern");
    part = read_pattern(schema, key, value.as_string());
  } else if (key == "format") {
    if (!value.is_string()) fail_form(pointer(schema, key), "a name");
    const std::optional<Lang> known = format_language(languages_, value.as_string());
    if (known)
      part = *known;
    else if (options_.strict)
      fail_unsupported(pointer(schema, key), fmt::format("format {}", quote(value.as_string())));
    else
      note(schema, key, fmt::format("format {} is not enforced", quote(value.as_string())));
  } else {
    return false;
  }
  out.text = out.text < 0 ? part : languages_.both({out.text, part});
  return true;
}

Lang SchemaCompiler::read_pattern(const Json& schema, std::string_view key,
                                  std::string_view pattern) {
  try {
    const PatternLanguage found = search_language(languages_, pattern);
    if (found.has_lookaround) note(schema, key, "look-around in a pattern is taken as true");
    return found.language;
  } catch (const PatternError& e) {
    std::string where = pointer(schema, key);
    if (e.kind == PatternError::kUnsupported)
      fail_unsupported(std::move(where), fmt::format("at byte {}, {}", e.at, e.message));
    if (e.kind == PatternError::kTooLarge)
      throw ConstraintError(kConstraintTooLarge, where, "schema: {}: the pattern {}", quote(where),
                            e.message);
    throw ConstraintError(kInvalidJsonSchema, where, "schema: {}: the pattern has {} at byte {}",
                          quote(where), e.message, e.at);
  }
}

bool SchemaCompiler::read_array(const Json& schema, std::string_view key, const Json& value,
                                Keywords& out) {
  const auto list = [&] {
    for (const Json& s : value.as_array()) {
      if (!is_schema(s)) fail_form(pointer(schema, key), "a list of schemas");
      out.prefix.push_back(&s);
    }
  };
  if (key == "prefixItems") {
    if (!value.is_array()) fail_form(pointer(schema, key), "a list of schemas");
    list();
  } else if (key == "items") {
    if (value.is_array())
      list();  // drafts before 2020-12
    else if (is_schema(value))
      out.items = &value;
    else
      fail_form(pointer(schema, key), "a schema");
  } else if (key == "additionalItems") {
    const Json* items = schema.find("items");
    if (items == nullptr || !items->is_array()) return true;
    if (!is_schema(value)) fail_form(pointer(schema, key), "a schema");
    out.items = &value;
  } else if (key == "minItems" || key == "maxItems") {
    const std::optional<uint32_t> n = read_count(value);
    if (!n) fail_form(pointer(schema, key), "a whole number, not negative");
    (key == "minItems" ? out.min_items : out.max_items) = *n;
  } else {
    return false;
  }
  out.has_array = true;
  return true;
}

bool SchemaCompiler::read_object(const Json& schema, std::string_view key, const Json& value,
                                 Keywords& out) {
  const auto names = [&](const Json& list) {
    std::vector<std::string> result;
    if (!list.is_array()) fail_form(pointer(schema, key), "lists of names");
    for (const Json& name : list.as_array()) {
      if (!name.is_string()) fail_form(pointer(schema, key), "lists of names");
      result.push_back(name.as_string());
    }
    return result;
  };
  const bool map = holds(kMaps, key);
  if (map && !value.is_object()) fail_form(pointer(schema, key), "an object");
  if (key == "properties" || key == "patternProperties") {
    for (const auto& [name, sub] : value.as_object()) {
      if (!is_schema(sub)) fail_form(pointer(schema, key), "an object of schemas");
      if (key == "properties")
        out.properties.emplace(name, &sub);
      else
        out.patterns.emplace_back(read_pattern(value, name, name), &sub);
    }
  } else if (key == "additionalProperties") {
    if (!is_schema(value)) fail_form(pointer(schema, key), "a schema");
    out.additional = &value;
  } else if (key == "required") {
    if (value.is_bool()) return true;  // draft 3, on the property itself
    out.required = names(value);
    std::sort(out.required.begin(), out.required.end());
  } else if (key == "dependentRequired" || key == "dependencies") {
    for (const auto& [name, list] : value.as_object()) {
      if (key == "dependencies" && is_schema(list))
        fail_unsupported(pointer(schema, key), "'dependencies' by schema");
      out.needs.emplace_back(name, names(list));
    }
  } else if (key == "minProperties" || key == "maxProperties") {
    const std::optional<uint32_t> n = read_count(value);
    if (!n) fail_form(pointer(schema, key), "a whole number, not negative");
    (key == "minProperties" ? out.min_members : out.max_members) = *n;
  } else {
    return false;
  }
  out.has_object = true;
  return true;
}

const Json* SchemaCompiler::resolve(const Json& schema, const std::string& ref) {
  const auto [it, is_new] = targets_.try_emplace(&schema, nullptr);
  if (is_new) it->second = find_target(schema, ref);
  return it->second;
}

// The schema with this $anchor, or the old way, "$id": "#name". Of two with one name the base URI
// would decide, which S7.3 ignores.
const Json* SchemaCompiler::find_anchor(std::string_view name, bool& is_unique) {
  if (!anchors_) {
    anchors_.emplace();
    for (const auto& [node, origin] : origins_) {
      if (!node->is_object() || origin.value) continue;
      const Json *anchor = node->find("$anchor"), *id = node->find("$id");
      const auto add = [&, at = node](std::string_view text) {
        const auto [it, is_new] = anchors_->try_emplace(std::string(text), at);
        if (!is_new && it->second != at) it->second = nullptr;
      };
      if (anchor && anchor->is_string()) add(anchor->as_string());
      if (id && id->is_string() && id->as_string().starts_with('#'))
        add(std::string_view(id->as_string()).substr(1));
    }
  }
  const auto found = anchors_->find(std::string(name));
  is_unique = found == anchors_->end() || found->second != nullptr;
  return found == anchors_->end() ? nullptr : found->second;
}

// The schema that a reference inside the document names (RFC 6901 in a fragment, or an $anchor).
const Json* SchemaCompiler::find_target(const Json& schema, const std::string& ref) {
  check_();
  std::string_view rest = ref;
  const Json* id = root_.is_object() ? root_.find("$id") : nullptr;
  if (id == nullptr && root_.is_object()) id = root_.find("id");
  if (id != nullptr && id->is_string() && !id->as_string().empty() && !rest.starts_with('#')) {
    std::string_view base = id->as_string();
    if (base.ends_with('#')) base.remove_suffix(1);
    if (rest.starts_with(base) && (rest.size() == base.size() || rest[base.size()] == '#'))
      rest.remove_prefix(base.size());
  }
  const auto missing = [&](std::string_view why) {
    fail_unsupported(pointer(schema, "$ref"),
                     fmt::format("the reference {}, which {},", quote(ref), why));
  };
  if (!rest.empty() && !rest.starts_with('#')) missing("leads outside of the document");
  if (!rest.empty()) rest.remove_prefix(1);
  const Json* at = &root_;
  if (!rest.empty() && rest[0] != '/') {
    bool is_unique = true;
    const Json* found = find_anchor(rest, is_unique);
    if (!is_unique) missing("names more than one anchor");
    if (found == nullptr) missing("names no anchor");
    return found;
  }
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::optional<std::string> token = unescape_token(rest.substr(0, end));
    rest.remove_prefix(end);
    const Json* next = nullptr;
    if (token && at->is_object()) {
      next = at->find(*token);
    } else if (token && at->is_array()) {
      size_t index = 0;
      const auto [stop, failure] =
          std::from_chars(token->data(), token->data() + token->size(), index);
      if (failure == std::errc() && stop == token->data() + token->size() &&
          index < at->as_array().size())
        next = &at->as_array()[index];
    }
    if (next == nullptr) missing("names nothing in the document");
    at = next;
  }
  if (!is_schema(*at)) missing("names no schema");
  return at;
}

// Through references that stand alone.
const Json* SchemaCompiler::follow(const Json* schema) {
  for (int n = 0; n < kMaxDepth && schema->is_object(); ++n) {
    const Json* ref = schema->find("$ref");
    if (ref == nullptr || !ref->is_string()) break;
    schema = resolve(*schema, ref->as_string());
  }
  return schema;
}

// Notes each oneOf whose branches may overlap. Last, for it reads schemas in any order.
void SchemaCompiler::compare_branches() {
  for (size_t n = 0; n < one_ofs_.size(); ++n) {
    const auto [schema, list] = one_ofs_[n];
    bool apart = list->size() <= kMaxCompared;
    for (size_t i = 0; apart && i < list->size(); ++i)
      for (size_t k = 0; apart && k < i; ++k)
        apart = disjoint((*list)[i], (*list)[k], kCompareDepth);
    if (!apart) note(*schema, "oneOf", "oneOf is taken as anyOf: its branches may overlap");
  }
}

// Whether no value can be of both: from their own keywords alone, so true is certain.
bool SchemaCompiler::disjoint(const Json& a, const Json& b, int depth) {
  const Json *x = follow(&a), *y = follow(&b);
  if (x->is_bool() || y->is_bool())
    return (x->is_bool() && !x->as_bool()) || (y->is_bool() && !y->as_bool());
  if (depth == 0 || x == y) return false;
  if (y < x) std::swap(x, y);
  const auto known = disjoint_.find({x, y, depth});
  if (known != disjoint_.end()) return known->second;
  check_();
  const bool result = are_disjoint(read(*x), read(*y), depth);
  languages_.charge(80);
  disjoint_.emplace(std::tuple(x, y, depth), result);
  return result;
}

bool SchemaCompiler::are_disjoint(const Keywords& p, const Keywords& q, int depth) {
  const unsigned shared = p.kinds & p.value_kinds & q.kinds & q.value_kinds;
  if (shared == 0) return true;
  if (p.has_values && q.has_values)
    return std::none_of(p.value_keys.begin(), p.value_keys.end(),
                        [&](const std::string& key) { return q.value_keys.contains(key); });
  if (shared == Kinds::kString && p.text >= 0 && q.text >= 0)
    return !languages_.live(languages_.both({p.text, q.text}));
  if ((shared & ~(Kinds::kInteger | Kinds::kReal)) == 0) {
    const auto below = [](const Keywords& lo, const Keywords& hi) {
      return lo.bounds.most && hi.bounds.least &&
             (*lo.bounds.most < *hi.bounds.least ||
              (*lo.bounds.most == *hi.bounds.least &&
               (lo.bounds.below_most || hi.bounds.above_least)));
    };
    return below(p, q) || below(q, p);
  }
  return shared == Kinds::kObject && differ_in_member(p, q, depth);
}

// Whether one asks for a member that the other forbids, or both for one of different kinds.
bool SchemaCompiler::differ_in_member(const Keywords& p, const Keywords& q, int depth) {
  const auto property = [](const Keywords& k, const std::string& name) -> const Json* {
    const auto found = k.properties.find(name);
    return found == k.properties.end() ? nullptr : found->second;
  };
  const auto forbids = [&](const Keywords& k, const std::string& name) {
    const bool closed = k.closed_by_strict || (k.additional != nullptr && k.additional->is_bool() &&
                                               !k.additional->as_bool());
    return closed && k.patterns.empty() && property(k, name) == nullptr;
  };
  for (const std::string& name : p.required) {
    languages_.charge(0);
    if (forbids(q, name)) return true;
    const Json *s = property(p, name), *t = property(q, name);
    if (s == nullptr || t == nullptr) continue;
    if (std::binary_search(q.required.begin(), q.required.end(), name) &&
        disjoint(*s, *t, depth - 1))
      return true;
  }
  return std::any_of(q.required.begin(), q.required.end(),
                     [&](const std::string& name) { return forbids(p, name); });
}

}  // namespace flare::frontend::grammar
