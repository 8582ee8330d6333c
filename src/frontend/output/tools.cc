// Reading tool declarations, and following schemas to the types they allow.
#include "frontend/output/tools.h"

#include <algorithm>
#include <cstdlib>

namespace flare::frontend {
namespace {

constexpr int kMaxDepth = 32;    // of $ref and combinations; deeper schemas allow any type
constexpr int kMaxVisits = 512;  // per question

uint8_t named_type(std::string_view name) {
  if (name == "string") return kStringType;
  if (name == "number" || name == "integer") return kNumberType;
  if (name == "boolean") return kBoolType;
  if (name == "null") return kNullType;
  if (name == "array") return kArrayType;
  if (name == "object") return kObjectType;
  return 0;
}

uint8_t type_of_value(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::kNull:
      return kNullType;
    case Json::Kind::kBool:
      return kBoolType;
    case Json::Kind::kInteger:
    case Json::Kind::kReal:
      return kNumberType;
    case Json::Kind::kString:
      return kStringType;
    case Json::Kind::kArray:
      return kArrayType;
    case Json::Kind::kObject:
      return kObjectType;
  }
  return kAnyType;
}

std::string unescape_pointer(std::string_view token) {
  std::string text;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
      text += token[++i] == '0' ? '~' : '/';
    } else if (token[i] == '%' && i + 2 < token.size() && std::isxdigit(token[i + 1] & 0xff) &&
               std::isxdigit(token[i + 2] & 0xff)) {
      text += static_cast<char>(std::stoi(std::string(token.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      text += token[i];
    }
  }
  return text;
}

struct Walk {
  const Json& root;
  int visits = 0;

  uint8_t types(const Json* schema, int depth) {
    if (!schema || !schema->is_object() || depth > kMaxDepth || ++visits > kMaxVisits)
      return kAnyType;
    uint8_t allowed = kAnyType;
    if (const Json* type = schema->find("type")) allowed &= listed_types(*type);
    if (const Json* values = schema->find("enum"); values && values->is_array()) {
      uint8_t found = 0;
      for (const Json& value : values->as_array()) found |= type_of_value(value);
      allowed &= found;
    }
    if (const Json* value = schema->find("const")) allowed &= type_of_value(*value);
    if (const Json* reference = schema->find("$ref"))
      if (const Json* target = resolve_reference(root, *reference))
        allowed &= types(target, depth + 1);
    for (const std::string_view any : {"anyOf", "oneOf"})
      if (const Json* branches = schema->find(any); branches && branches->is_array()) {
        uint8_t found = 0;
        for (const Json& branch : branches->as_array()) found |= types(&branch, depth + 1);
        allowed &= found;
      }
    if (const Json* branches = schema->find("allOf"); branches && branches->is_array())
      for (const Json& branch : branches->as_array()) allowed &= types(&branch, depth + 1);
    if (const Json* nullable = schema->find("nullable"); nullable && *nullable == Json(true))
      allowed |= kNullType;
    return allowed;
  }

  // The first subschema for which `pick` finds something.
  template <typename Pick>
  const Json* search(const Json* schema, const Pick& pick, int depth) {
    if (!schema || !schema->is_object() || depth > kMaxDepth || ++visits > kMaxVisits)
      return nullptr;
    if (const Json* found = pick(*schema)) return found;
    if (const Json* reference = schema->find("$ref"))
      if (const Json* found = search(resolve_reference(root, *reference), pick, depth + 1))
        return found;
    for (const std::string_view list : {"allOf", "anyOf", "oneOf"})
      if (const Json* branches = schema->find(list); branches && branches->is_array())
        for (const Json& branch : branches->as_array())
          if (const Json* found = search(&branch, pick, depth + 1)) return found;
    return nullptr;
  }

 private:
  static uint8_t listed_types(const Json& type) {
    if (type.is_string()) {
      const uint8_t bits = named_type(type.as_string());
      return bits ? bits : kAnyType;
    }
    if (!type.is_array()) return kAnyType;
    uint8_t bits = 0;
    for (const Json& name : type.as_array())
      if (name.is_string()) bits |= named_type(name.as_string());
    return bits ? bits : kAnyType;
  }
};

}  // namespace

const Json* resolve_reference(const Json& root, const Json& reference) {
  if (!reference.is_string()) return nullptr;
  std::string_view rest = reference.as_string();
  if (!rest.starts_with('#')) return nullptr;
  rest.remove_prefix(1);
  const Json* at = &root;
  while (at && rest.starts_with('/')) {
    rest.remove_prefix(1);
    const std::string token = unescape_pointer(rest.substr(0, rest.find('/')));
    rest.remove_prefix(std::min(rest.find('/'), rest.size()));
    if (!at->is_array()) {
      at = at->find(token);
      continue;
    }
    const bool is_index = !token.empty() && token.size() < 7 &&
                          token.find_first_not_of("0123456789") == std::string::npos;
    const size_t index = is_index ? std::stoul(token) : at->as_array().size();
    at = index < at->as_array().size() ? &at->as_array()[index] : nullptr;
  }
  return rest.empty() ? at : nullptr;
}

uint8_t schema_types(const Json& root, const Json* schema) {
  const uint8_t types = Walk{root}.types(schema, 0);
  return types ? types : kAnyType;
}

const Json* member_schema(const Json& root, const Json* schema, std::string_view key) {
  return Walk{root}.search(
      schema,
      [key](const Json& s) {
        const Json* properties = s.find("properties");
        return properties ? properties->find(key) : nullptr;
      },
      0);
}

const Json* item_schema(const Json& root, const Json* schema) {
  return Walk{root}.search(schema, [](const Json& s) { return s.find("items"); }, 0);
}

ToolSet ToolSet::from_json(const Json& tools) {
  ToolSet set;
  if (!tools.is_array()) return set;
  for (size_t i = 0; i < tools.as_array().size(); ++i) {
    const Json& entry = tools.as_array()[i];
    const Json* type = entry.find("type");
    const Json* nested = entry.find("function");
    if (type && *type != Json("function") && !entry.find("input_schema")) continue;
    const bool is_nested = nested && nested->is_object();
    const Json& function = is_nested ? *nested : entry;
    const Json* name = function.find("name");
    if (!name || !name->is_string() || set.index_.contains(name->as_string())) continue;
    Tool tool{.name = name->as_string(), .parameters = {}};
    for (const std::string_view member : {"parameters", "input_schema"})
      if (const Json* schema = function.find(member); schema && tool.parameters.is_null()) {
        tool.parameters = *schema;
        tool.path = fmt::format("tools[{}]{}.{}", i, is_nested ? ".function" : "", member);
      }
    if (const Json* strict = function.find("strict")) tool.strict = *strict == Json(true);
    set.index_.emplace(tool.name, set.tools_.size());
    set.tools_.push_back(std::move(tool));
  }
  return set;
}

const Tool* ToolSet::find(std::string_view name) const {
  const auto at = index_.find(std::string(name));
  return at == index_.end() ? nullptr : &tools_[at->second];
}

}  // namespace flare::frontend
