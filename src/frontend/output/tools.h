// The tools a request declares, and which JSON types their schemas allow (serving.md S6.3).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json/json.h"

namespace flare::frontend {

// JSON types as bits.
inline constexpr uint8_t kStringType = 1, kNumberType = 2, kBoolType = 4, kNullType = 8,
                         kArrayType = 16, kObjectType = 32, kAnyType = 63;

// Types that `schema` allows: type (lists), nullable, enum, const, anyOf, oneOf, allOf and local
// $ref into `root`. Without any of them, and for null, all are. Bounded depth.
uint8_t schema_types(const Json& root, const Json* schema);
// The schema of a member of objects that `schema` describes, found through the same keywords; null
// if it declares none.
const Json* member_schema(const Json& root, const Json* schema, std::string_view key);
// What a local reference ("#", "#/$defs/x") in `root` points at; null if nothing.
const Json* resolve_reference(const Json& root, const Json& reference);
// The schema of the items of arrays; null if there is none.
const Json* item_schema(const Json& root, const Json* schema);

struct Tool {
  std::string name;
  Json parameters = {};  // the schema; null: any object
  bool strict = false;
  std::string path = {};  // where the schema stands: "tools[3].function.parameters"
};

// The declared tools. Immutable, any thread.
class ToolSet {
 public:
  ToolSet() = default;
  // From the `tools` of a request: {"type":"function","function":{name, parameters, strict}} or
  // flat {name, parameters | input_schema, strict}. What is no function is left out; of two with
  // one name the first stays.
  static ToolSet from_json(const Json& tools);

  bool empty() const { return tools_.empty(); }
  const std::vector<Tool>& tools() const { return tools_; }
  const Tool* find(std::string_view name) const;  // null if not declared
  // The schema of the argument `key`; null if not declared.
  static const Json* argument_schema(const Tool& tool, std::string_view key) {
    return member_schema(tool.parameters, &tool.parameters, key);
  }

 private:
  std::vector<Tool> tools_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace flare::frontend
