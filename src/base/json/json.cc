// Typed access and text of Json values.
#include "base/json/json.h"

#include <charconv>
#include <cmath>

namespace flare {
namespace {

[[noreturn]] void wrong_kind(std::string_view where, std::string_view wanted, const Json& got) {
  std::string shown;
  if (got.is_string()) {
    shown = " " + quote(got.as_string());
  } else if (got.is_number() || got.is_bool()) {
    shown = " " + got.to_text();
  }
  throw Error(Code::kDirectory, "{}: {} expected, got {}{}", where, wanted, got.kind_name(), shown);
}

std::string integer_to_text(JsonInteger v) {
  return fmt::format("{}{}", v.negative ? "-" : "", v.magnitude);
}

void append_text(const Json& value, std::string& out, int indent, int depth) {
  const auto line = [&](int d) {
    if (indent > 0) out.append(1, '\n').append(static_cast<size_t>(d * indent), ' ');
  };
  switch (value.kind()) {
    case Json::Kind::kNull:
      out += "null";
      return;
    case Json::Kind::kBool:
      out += value.as_bool() ? "true" : "false";
      return;
    case Json::Kind::kInteger:
    case Json::Kind::kReal:
    case Json::Kind::kString:
      out += value.is_string() ? quote_json(value.as_string()) : value.to_text();
      return;
    case Json::Kind::kArray: {
      out += '[';
      bool first = true;
      for (const Json& item : value.as_array()) {
        if (!first) out += ',';
        first = false;
        line(depth + 1);
        append_text(item, out, indent, depth + 1);
      }
      if (!first) line(depth);
      out += ']';
      return;
    }
    case Json::Kind::kObject: {
      out += '{';
      bool first = true;
      for (const auto& [name, member] : value.as_object()) {
        if (!first) out += ',';
        first = false;
        line(depth + 1);
        out += quote_json(name);
        out += indent > 0 ? ": " : ":";
        append_text(member, out, indent, depth + 1);
      }
      if (!first) line(depth);
      out += '}';
      return;
    }
  }
}

}  // namespace

std::string_view Json::kind_name() const {
  constexpr std::string_view names[] = {"null",   "boolean", "integer", "number",
                                        "string", "array",   "object"};
  return names[value_.index()];
}

bool Json::as_bool(std::string_view where) const {
  if (const bool* v = std::get_if<bool>(&value_)) return *v;
  wrong_kind(where, "boolean", *this);
}
uint64_t Json::as_u64(std::string_view where) const {
  const JsonInteger* v = std::get_if<JsonInteger>(&value_);
  if (!v || v->negative) wrong_kind(where, "integer 0..2^64-1", *this);
  return v->magnitude;
}
int64_t Json::as_i64(std::string_view where) const {
  const JsonInteger* v = std::get_if<JsonInteger>(&value_);
  const uint64_t limit = uint64_t{1} << 63;
  if (!v || (v->negative ? v->magnitude > limit : v->magnitude >= limit))
    wrong_kind(where, "64-bit integer", *this);
  return v->negative ? static_cast<int64_t>(0 - v->magnitude) : static_cast<int64_t>(v->magnitude);
}
double Json::as_double(std::string_view where) const {
  if (const double* v = std::get_if<double>(&value_)) return *v;
  const JsonInteger* v = std::get_if<JsonInteger>(&value_);
  if (!v) wrong_kind(where, "number", *this);
  return v->negative ? -static_cast<double>(v->magnitude) : static_cast<double>(v->magnitude);
}
const std::string& Json::as_string(std::string_view where) const {
  if (const std::string* v = std::get_if<std::string>(&value_)) return *v;
  wrong_kind(where, "string", *this);
}
const Json::Array& Json::as_array(std::string_view where) const {
  if (const Array* v = std::get_if<Array>(&value_)) return *v;
  wrong_kind(where, "array", *this);
}
const Json::Object& Json::as_object(std::string_view where) const {
  if (const Object* v = std::get_if<Object>(&value_)) return *v;
  wrong_kind(where, "object", *this);
}
Json::Array& Json::mutable_array() {
  if (is_null()) value_ = Array{};
  return std::get<Array>(value_);
}
Json::Object& Json::mutable_object() {
  if (is_null()) value_ = Object{};
  return std::get<Object>(value_);
}

const Json* Json::find(std::string_view name) const {
  const Object* members = std::get_if<Object>(&value_);
  if (!members) return nullptr;
  for (const auto& [key, value] : *members)
    if (key == name) return &value;
  return nullptr;
}
const Json& Json::at(std::string_view name, std::string_view where) const {
  as_object(where);
  const Json* value = find(name);
  if (!value) throw Error(Code::kDirectory, "{}: member {} missing", where, quote(name));
  return *value;
}
void Json::set(std::string_view name, Json value) {
  for (auto& [key, old] : mutable_object())
    if (key == name) {
      old = std::move(value);
      return;
    }
  mutable_object().emplace_back(name, std::move(value));
}

std::string Json::to_text() const {
  if (const double* v = std::get_if<double>(&value_)) return real_to_text(*v);
  if (const JsonInteger* v = std::get_if<JsonInteger>(&value_)) return integer_to_text(*v);
  std::string out;
  append_text(*this, out, 0, 0);
  return out;
}
std::string Json::to_pretty_text() const {
  if (is_number()) return to_text();
  std::string out;
  append_text(*this, out, 2, 0);
  return out;
}

std::string real_to_text(double value) {
  if (!std::isfinite(value)) throw Error(Code::kValue, "JSON cannot hold a NaN or an infinity");
  if (value == 0) return std::signbit(value) ? "-0.0" : "0.0";
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  const char* exponent_begin = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_begin, end, exponent);
  std::string digits;  // significant digits without sign and point
  for (char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  std::string out = value < 0 ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out.append(1, '.').append(digits, 1);
    return out + fmt::format("e{}{:02d}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t integral = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= integral)
    return out + digits + std::string(integral - digits.size(), '0') + ".0";
  return out + digits.substr(0, integral) + "." + digits.substr(integral);
}

std::string quote_json(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
          out += c;
        }
    }
  }
  return out += '"';
}

}  // namespace flare
