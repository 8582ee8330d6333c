// JSON Schema (S7.3) to parts of a program: keywords are enforced, widened with a note, refused by
// pointer and name, or ignored, as the table there says.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/json/json.h"
#include "frontend/grammar/decimal.h"
#include "frontend/grammar/grammar.h"
#include "frontend/grammar/program.h"

namespace flare::frontend::grammar {

// Keywords that no automaton here can enforce (S7.3).
inline constexpr std::array kRefusedKeywords = {
    std::string_view("not"),
    std::string_view("if"),
    std::string_view("then"),
    std::string_view("else"),
    std::string_view("dependentSchemas"),
    std::string_view("unevaluatedItems"),
    std::string_view("unevaluatedProperties"),
    std::string_view("contains"),
    std::string_view("minContains"),
    std::string_view("maxContains"),
    std::string_view("propertyNames"),
    std::string_view("$dynamicRef"),
    std::string_view("$recursiveRef"),
};

// Types of JSON values, as bits.
struct Kinds {
  static constexpr unsigned kNull = 1, kBool = 2, kInteger = 4, kReal = 8, kString = 16,
                            kArray = 32, kObject = 64, kAll = 127;
};

// Compiles one schema. All schemas that apply to one value together make one set; a set is compiled
// once, to a procedure. Confined to one thread; errors: ConstraintError.
class SchemaCompiler {
 public:
  // The schema must outlive the compiler. `check` is called now and then and may throw.
  SchemaCompiler(ProgramBuilder& builder, const Json& schema, SchemaOptions options,
                 std::function<void()> check);

  // One value, or the bare text of a string, as far as it is in `within`; call one of them once.
  ProgramBuilder::Part compile();
  ProgramBuilder::Part compile_text(Lang within);
  // What was widened: "POINTER: what".
  const std::vector<std::string>& relaxed() const { return relaxed_; }

 private:
  using Part = ProgramBuilder::Part;
  // Schemas that all apply, by address: ascending, without repetition.
  using Set = std::vector<const Json*>;
  struct Origin {
    const Json* parent = nullptr;
    std::string token;
    bool value = false;  // inside of enum or const: no schema
  };
  // What one schema says of each kind, checked; pointers into it.
  struct Keywords {
    unsigned kinds = Kinds::kAll;
    std::vector<const Json*> values;  // of enum or const
    std::unordered_set<std::string> value_keys;
    bool has_values = false;
    unsigned value_kinds = Kinds::kAll;  // of the values, if there are any
    const Json* ref = nullptr;           // its target
    const Json::Array* all_of = nullptr;
    std::vector<const Json::Array*> any_of;
    NumberBounds bounds;
    Lang text = -1;  // patterns, format and length; -1: any
    bool has_array = false, has_object = false;
    std::vector<const Json*> prefix;
    const Json* items = nullptr;
    uint32_t min_items = 0, max_items = Languages::kInfinite;
    std::unordered_map<std::string_view, const Json*> properties;
    std::vector<std::pair<Lang, const Json*>> patterns;
    const Json* additional = nullptr;
    bool closed_by_strict = false;
    std::vector<std::string> required;  // ascending
    std::vector<std::pair<std::string, std::vector<std::string>>> needs;
    uint32_t min_members = 0, max_members = Languages::kInfinite;
  };

  // schema_read.cc
  void survey(const Json& schema);
  std::string pointer(const Json& node, std::string_view keyword = {}) const;
  const Keywords& read(const Json& schema);
  void read_member(const Json& schema, std::string_view key, const Json& value, Keywords& out);
  bool read_number(const Json& schema, std::string_view key, const Json& value, Keywords& out);
  bool read_string(const Json& schema, std::string_view key, const Json& value, Keywords& out);
  bool read_array(const Json& schema, std::string_view key, const Json& value, Keywords& out);
  bool read_object(const Json& schema, std::string_view key, const Json& value, Keywords& out);
  bool read_joint(const Json& schema, std::string_view key, const Json& value, Keywords& out);
  void read_values(std::span<const Json> values, Keywords& out);
  void keep_common(std::vector<const Json*>& values, const Keywords& other);
  unsigned read_kinds(const Json& schema, const Json& value);
  Lang read_pattern(const Json& schema, std::string_view key, std::string_view pattern);
  const Json* resolve(const Json& schema, const std::string& ref);
  const Json* find_target(const Json& schema, const std::string& ref);
  const Json* find_anchor(std::string_view name, bool& is_unique);
  void compare_branches();
  void note(const Json& schema, std::string_view keyword, std::string_view what);
  bool is_schema(const Json& value) const { return value.is_object() || value.is_bool(); }
  bool disjoint(const Json& a, const Json& b, int depth);
  bool are_disjoint(const Keywords& p, const Keywords& q, int depth);
  bool differ_in_member(const Keywords& p, const Keywords& q, int depth);
  const Json* follow(const Json* schema);

  // schema.cc
  void survey_root();
  void compile_procedures();
  int32_t procedure(Set set);
  Set simplified(Set set);
  Part compile_set(const Set& set);
  class Branching;
  struct Joint;  // an alternative's keywords together
  Joint join(const Set& set);
  void compile_alternative(const Set& set, bool ignore_values, std::vector<Part>& out,
                           std::vector<Lang>& texts);
  void compile_values(const Joint& joint, const Set& set, std::vector<Part>& out,
                      std::vector<Lang>& texts);
  const Json* schema_of_value(const Json& value);
  Part array(const Joint& joint);
  Part object(const Joint& joint);
  void value_set(const Joint& joint, const std::string& name, Set& out, bool& forbidden);
  std::vector<ObjectSpec::Others> other_names(const Joint& joint);
  Part call(Set set) { return builder_.call(procedure(std::move(set))); }

  ProgramBuilder& builder_;
  Languages& languages_;
  const Json& root_;
  const SchemaOptions options_;
  std::function<void()> check_;
  std::unordered_map<const Json*, Origin> origins_;
  std::unordered_map<const Json*, Keywords> keywords_;
  std::unordered_map<const Json*, const Json*> targets_;                 // of schemas with $ref
  std::optional<std::unordered_map<std::string, const Json*>> anchors_;  // nullptr: more than one
  std::vector<std::pair<const Json*, const Json::Array*>> one_ofs_;      // schema, its branches
  std::map<std::tuple<const Json*, const Json*, int>, bool> disjoint_;
  std::unordered_set<std::string> noted_;
  std::vector<std::string> relaxed_;
  std::map<Set, int32_t> procedures_;
  std::vector<std::pair<Set, int32_t>> todo_;
  std::deque<Json> made_;  // schemas of enumerated arrays and objects
  size_t n_alternatives_ = 0;
  Lang white_;
};

}  // namespace flare::frontend::grammar
