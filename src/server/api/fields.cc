// Reading of single fields, and the wording of what is wrong with one.
#include "server/api/fields.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace flare::server {

const Json* Fields::find(std::string_view name) const {
  const Json* value = object_.find(name);
  if (!value) return nullptr;
  if (std::ranges::find(read_, value) == read_.end()) read_.push_back(value);
  return value->is_null() ? nullptr : value;
}

void Fields::wrong_type(std::string_view name, std::string_view expected) const {
  const Json* value = object_.find(name);
  throw ApiError{400, "invalid_type",
                 fmt::format("'{}' is {}, {} expected", path(name),
                             value ? a_kind(*value) : "missing", expected),
                 path(name)};
}

void Fields::wrong_value(std::string_view name, const std::string& value,
                         const std::string& expected) const {
  throw ApiError{400, "invalid_value",
                 fmt::format("'{}' is {}, {} expected", path(name), value, expected), path(name)};
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t low, int64_t high) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) wrong_type(name, "integer");
  const double real = value->as_double();
  if (!std::isfinite(real) || real != std::floor(real)) wrong_type(name, "integer");
  if (real < static_cast<double>(low) || real > static_cast<double>(high))
    wrong_value(name, value->to_text(), fmt::format("{}..{}", low, high));
  if (!value->is_integer()) {
    constexpr double kTooLarge = 0x1p63;
    if (real >= kTooLarge) wrong_value(name, value->to_text(), fmt::format("{}..{}", low, high));
    return static_cast<int64_t>(real);
  }
  // Compare exactly: doubles are coarse above 2^53.
  try {
    const int64_t exact = value->as_i64();
    if (exact < low || exact > high)
      wrong_value(name, value->to_text(), fmt::format("{}..{}", low, high));
    return exact;
  } catch (const Error&) {
    wrong_value(name, value->to_text(), fmt::format("{}..{}", low, high));
  }
}

std::optional<double> Fields::number(std::string_view name, double low, double high) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) wrong_type(name, "number");
  const double real = value->as_double();
  if (!(real >= low && real <= high))
    wrong_value(name, value->to_text(), fmt::format("{}..{}", low, high));
  return real;
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_bool()) wrong_type(name, "boolean");
  return value->as_bool();
}

std::optional<std::string> Fields::text(std::string_view name, size_t max_bytes) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) wrong_type(name, "string");
  if (value->as_string().size() > max_bytes)
    wrong_value(name, fmt::format("{} bytes", value->as_string().size()),
                fmt::format("at most {}", max_bytes));
  return value->as_string();
}

const Json* Fields::object(std::string_view name) const {
  const Json* value = find(name);
  if (value && !value->is_object()) wrong_type(name, "object");
  return value;
}

const Json* Fields::array(std::string_view name, size_t min, size_t max) const {
  const Json* value = find(name);
  if (!value) return nullptr;
  if (!value->is_array()) wrong_type(name, "array");
  const size_t n = value->as_array().size();
  if (n < min || n > max)
    wrong_value(name, fmt::format("an array of {}", n), fmt::format("{}..{} items", min, max));
  return value;
}

void Fields::without_effect(std::string_view name, Shape shape) const {
  switch (shape) {
    case Shape::kAny:
      find(name);
      break;
    case Shape::kText:
      text(name, SIZE_MAX);
      break;
    case Shape::kBoolean:
      boolean(name);
      break;
    case Shape::kInteger:
      integer(name, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
      break;
    case Shape::kObject:
      object(name);
      break;
    case Shape::kArray:
      array(name, 0, SIZE_MAX);
      break;
  }
}

void Fields::refuse(std::string_view name, std::initializer_list<Json> neutral) const {
  const Json* value = find(name);
  if (!value || std::ranges::find(neutral, *value) != neutral.end()) return;
  throw ApiError{400, "unsupported_parameter",
                 fmt::format("'{}' is not supported by this server", path(name)), path(name)};
}

std::vector<std::string> Fields::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.as_object())
    if (std::ranges::find(read_, &value) == read_.end()) names.push_back(name);
  return names;
}

int read_priority(const Fields& fields) {
  return static_cast<int>(fields.integer("priority", -10, 10).value_or(0));
}

}  // namespace flare::server
