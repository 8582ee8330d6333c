// Typed access to one JSON object of tokenizer.json.
#include "frontend/tokenizer/component.h"

#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

namespace {

[[noreturn]] void wrong_kind(std::string_view path, const Json& json, std::string_view expected) {
  if (path.ends_with(": ")) path.remove_suffix(2);  // the file itself
  throw Error(Code::kInvalid, "{}: {} found, {} expected", path, json.kind_name(), expected);
}

uint32_t integer_below(const Json& json, std::string_view path, uint32_t limit) {
  if (!json.is_integer()) wrong_kind(std::string(path), json, "an integer");
  // as_u64 refuses negative numbers with another code.
  const std::string text = json.to_text();
  if (text[0] == '-' || json.as_u64() >= limit)
    throw Error(Code::kInvalid, "{}: {} found, an integer in [0, {}) expected", path, text, limit);
  return static_cast<uint32_t>(json.as_u64());
}

}  // namespace

Component::Component(const Json& json, std::string path) : json_(&json), path_(std::move(path)) {
  if (!json.is_object()) wrong_kind(path_, json, "an object");
}

std::string Component::path_of(std::string_view name) const {
  return fmt::format("{}{}{}", path_, path_.ends_with(": ") ? "" : ".", name);
}
std::string Component::path_of(std::string_view name, size_t index) const {
  return fmt::format("{}[{}]", path_of(name), index);
}

const Json* Component::find(std::string_view name) const {
  const Json* value = json_->find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const Json& Component::at(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) throw Error(Code::kInvalid, "{}: missing", path_of(name));
  return *value;
}

const Json::Array& Component::array(std::string_view name) const {
  const Json& value = at(name);
  if (!value.is_array()) wrong_kind(path_of(name), value, "an array");
  return value.as_array();
}

const std::string& Component::text(std::string_view name) const {
  const Json& value = at(name);
  if (!value.is_string()) wrong_kind(path_of(name), value, "a string");
  return value.as_string();
}

std::string Component::text_or(std::string_view name, std::string fallback) const {
  return find(name) == nullptr ? fallback : text(name);
}

bool Component::flag(std::string_view name) const {
  const Json& value = at(name);
  if (!value.is_bool()) wrong_kind(path_of(name), value, "true or false");
  return value.as_bool();
}

bool Component::flag_or(std::string_view name, bool fallback) const {
  return find(name) == nullptr ? fallback : flag(name);
}

uint32_t Component::number(std::string_view name, uint32_t limit) const {
  return integer_below(at(name), path_of(name), limit);
}

char32_t Component::character(std::string_view name) const {
  const std::string& value = text(name);
  if (value.empty() || utf8_length(value[0]) != value.size())
    throw Error(Code::kInvalid, "{}: {} found, one character expected", path_of(name),
                quote(value));
  return decode_at(value, 0).code_point;
}

void Component::refuse_type() const {
  throw Error(Code::kInvalid, "{}: type {} is not supported", path_, quote(type()));
}

uint32_t id_of(const Json& json, std::string_view path) {
  return integer_below(json, path, kMaxIds);
}

}  // namespace flare::frontend::tokenizer
