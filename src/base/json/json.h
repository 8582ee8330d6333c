// JSON values: ordered members, integers kept apart from reals, strict parsing, deterministic text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace flare {

// An integer of magnitude up to 2^64−1. `negative` with magnitude 0 is the text "-0".
struct JsonInteger {
  uint64_t magnitude = 0;
  bool negative = false;
  bool operator==(const JsonInteger&) const = default;
};

// One JSON value. Value semantics; members of an object keep their order.
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;
  enum class Kind { kNull, kBool, kInteger, kReal, kString, kArray, kObject };

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool v) : value_(v) {}
  Json(double v) : value_(v) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Json(T v)
      : value_(
            JsonInteger{v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v), v < 0}) {}
  Json(JsonInteger v) : value_(v) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(const char* v) : value_(std::string(v)) {}
  Json(Array v) : value_(std::move(v)) {}
  Json(Object v) : value_(std::move(v)) {}
  // Json::object({{"a", 1}, {"b", "x"}})
  static Json object(std::initializer_list<Member> members = {}) { return Json(Object(members)); }
  static Json array(std::initializer_list<Json> items = {}) { return Json(Array(items)); }

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  // "null", "boolean", "integer", "number", "string", "array", "object".
  std::string_view kind_name() const;
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_integer() const { return kind() == Kind::kInteger; }
  bool is_number() const { return is_integer() || kind() == Kind::kReal; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_array() const { return kind() == Kind::kArray; }
  bool is_object() const { return kind() == Kind::kObject; }

  // Typed access. `where` names file and field in the error (kDirectory): as_u64("x.json: rank").
  bool as_bool(std::string_view where = "value") const;
  uint64_t as_u64(std::string_view where = "value") const;
  int64_t as_i64(std::string_view where = "value") const;
  double as_double(std::string_view where = "value") const;  // integers too
  const std::string& as_string(std::string_view where = "value") const;
  const Array& as_array(std::string_view where = "value") const;
  const Object& as_object(std::string_view where = "value") const;
  std::string& mutable_string() { return std::get<std::string>(value_); }  // of a string
  Array& mutable_array();                                                  // turns null into []
  Object& mutable_object();                                                // turns null into {}

  // The member called `name`, or nullptr; nullptr also if this is no object.
  const Json* find(std::string_view name) const;
  // The member called `name`; kDirectory "where: member 'name' missing" otherwise.
  const Json& at(std::string_view name, std::string_view where = "object") const;
  // Adds or replaces a member of an object (or of null, which becomes an object).
  void set(std::string_view name, Json value);
  void push_back(Json value) { mutable_array().push_back(std::move(value)); }

  // Compact text: no white space, raw UTF-8, escapes only \" \\ \b \f \n \r \t and \u00xx.
  // Reals: shortest decimal that round-trips as binary64, positional if 1e-4 <= |v| < 1e16 (with
  // ".0" when integral), else d.ddde±XX with at least two exponent digits (artifact.md §14.5).
  // NaN and infinities are kValue.
  std::string to_text() const;
  // The same, indented by two spaces.
  std::string to_pretty_text() const;

  bool operator==(const Json&) const = default;

 private:
  std::variant<std::monostate, bool, JsonInteger, double, std::string, Array, Object> value_;
};

// A real in the text form of Json::to_text.
std::string real_to_text(double value);
// A string with quotes and the escapes of Json::to_text.
std::string quote_json(std::string_view text);

struct JsonLimits {
  int max_depth = 64;
  size_t max_bytes = size_t{1} << 30;
};

// Parses exactly one value, white space around it allowed. Strict: valid UTF-8, no BOM, no lone
// surrogate escape, no duplicate member name at any depth, nesting limit. Errors: kDirectory,
// "where: byte N: …". Memory grows with the text only.
Json parse_json(std::string_view text, std::string_view where, JsonLimits limits = {});

// The same contract through a parser made for megabytes (tokenizer.json, large headers).
Json parse_large_json(std::string_view text, std::string_view where, JsonLimits limits = {});

}  // namespace flare
