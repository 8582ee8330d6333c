// Typed reading of request fields: null is absent, 5.0 is an integer, a string is never a number.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "server/api/errors.h"

namespace flare::server {

// What the value of a field without effect must be.
enum class Shape : uint8_t { kAny, kText, kBoolean, kInteger, kObject, kArray };

// Reads one object, which outlives this. Every accessor throws ApiError: invalid_type or
// invalid_value naming field, value and the allowed range.
class Fields {
 public:
  explicit Fields(const Json& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  // The member, or nullptr if absent or null.
  const Json* find(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high) const;
  std::optional<double> number(std::string_view name, double low, double high) const;
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::string> text(std::string_view name, size_t max_bytes) const;
  const Json* object(std::string_view name) const;
  const Json* array(std::string_view name, size_t min, size_t max) const;
  // A field that nothing depends on: its type is checked.
  void without_effect(std::string_view name, Shape shape) const;

  [[noreturn]] void wrong_type(std::string_view name, std::string_view expected) const;
  [[noreturn]] void wrong_value(std::string_view name, const std::string& value,
                                const std::string& expected) const;
  // Refuses `name` unless it is absent or one of the neutral values.
  void refuse(std::string_view name, std::initializer_list<Json> neutral = {}) const;

  // Members that no accessor was asked for, in the object's order: names that nobody knows.
  std::vector<std::string> unread() const;

 private:
  std::string path(std::string_view name) const { return prefix_ + std::string(name); }
  const Json& object_;
  std::string prefix_;
  mutable std::vector<const Json*> read_;  // members asked for, nulls included
};

// `priority` of serving.md S9.2, 0 without one.
int read_priority(const Fields& fields);

}  // namespace flare::server
