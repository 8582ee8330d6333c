// Typed reading of request fields: null is absent, 5.0 is an integer, a string is never a number.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "server/api/errors.h"

namespace flare::server {

// Reads one object. Every accessor throws ApiError: invalid_type or invalid_value naming field,
// value and the allowed range.
class Fields {
 public:
  explicit Fields(const Json& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}

  // The member, or nullptr if absent or null.
  const Json* find(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high) const;
  std::optional<double> number(std::string_view name, double low, double high) const;
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::string> text(std::string_view name, size_t max_bytes) const;
  const Json* object(std::string_view name) const;
  const Json* array(std::string_view name, size_t min, size_t max) const;

  [[noreturn]] void wrong_type(std::string_view name, std::string_view expected) const;
  [[noreturn]] void wrong_value(std::string_view name, const std::string& value,
                                const std::string& expected) const;
  // Refuses `name` unless it is absent or one of the neutral values.
  void refuse(std::string_view name, std::initializer_list<Json> neutral = {}) const;

 private:
  std::string path(std::string_view name) const { return prefix_ + std::string(name); }
  const Json& object_;
  std::string prefix_;
};

// `priority` of serving.md S9.2, 0 without one.
int read_priority(const Fields& fields);

// Names of the body's members that stand in none of the lists, in the body's order.
std::vector<std::string> unknown_names(
    const Json& body, std::initializer_list<std::span<const std::string_view>> known);

}  // namespace flare::server
