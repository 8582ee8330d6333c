// What a constrained answer may look like: an arena of expressions over text, markers and JSON.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"

namespace flare::frontend::grammar {

// A constraint that cannot be used. `wire_code` is the code of serving.md S3, such as
// "unsupported_json_schema"; `pointer` is the JSON pointer of the offender ("" otherwise).
class ConstraintError : public Error {
 public:
  template <typename... Args>
  ConstraintError(std::string_view wire_code, std::string pointer, fmt::format_string<Args...> text,
                  Args&&... args)
      : Error(Code::kInvalid, text, std::forward<Args>(args)...),
        wire_code_(wire_code),
        pointer_(std::move(pointer)) {}
  std::string_view wire_code() const { return wire_code_; }
  const std::string& pointer() const { return pointer_; }

 private:
  std::string_view wire_code_;  // of static storage
  std::string pointer_;
};

inline constexpr std::string_view kInvalidJsonSchema = "invalid_json_schema";
inline constexpr std::string_view kUnsupportedJsonSchema = "unsupported_json_schema";
inline constexpr std::string_view kUnsatisfiableJsonSchema = "unsatisfiable_json_schema";
inline constexpr std::string_view kInvalidRegex = "invalid_regex";
inline constexpr std::string_view kInvalidGrammar = "invalid_grammar";
inline constexpr std::string_view kConstraintTooLarge = "constraint_too_large";

struct SchemaOptions {
  // An object that lists `properties` is closed; an unknown `format` is refused.
  bool strict = false;
};

// A grammar under construction. Value semantics; confined to one thread. The last call is
// set_root(); compile() (compiled_grammar.h) then makes an automaton of it.
class Grammar {
 public:
  using Expr = int32_t;
  using Rule = int32_t;
  static constexpr int kUnbounded = -1;

  // Exactly these bytes (valid UTF-8).
  Expr literal(std::string_view utf8);
  // A structural token with this text; if the vocabulary has none, the bytes themselves.
  Expr marker(std::string_view text);
  Expr sequence(std::vector<Expr> parts);  // of none: the empty text
  Expr choice(std::vector<Expr> options);  // of none: nothing matches
  // min..max copies (max may be kUnbounded). Bounds are counters: their size costs nothing.
  Expr repeat(Expr body, int min, int max);
  Expr optional(Expr body) { return repeat(body, 0, 1); }
  // Any valid UTF-8, the empty one included, that holds none of the stops. A stop that is a marker
  // of the vocabulary is kept out as token, like every other marker, not as bytes.
  Expr text_without(std::vector<std::string> stops);
  // All that the ECMA-262 pattern (flag u) matches as a whole; ^ and $ are those of the whole.
  // Errors: invalid_regex with the position, constraint_too_large.
  Expr regex(std::string_view pattern);
  // One JSON value that the schema allows, with the white space of S7.2 between its tokens. Errors
  // come from compile(): {invalid,unsupported,unsatisfiable}_json_schema, constraint_too_large.
  Expr json(Json schema, SchemaOptions options = {});
  // The text of a string that the schema allows, without quotes or escapes, as far as `within`, a
  // regex() or text_without(), has it too. Errors as of json().
  Expr string_text(Json schema, SchemaOptions options, Expr within);

  // Recursion: declare, use anywhere, define once. No left recursion (invalid_grammar).
  Rule declare(std::string name);
  void define(Rule rule, Expr body);
  Expr use(Rule rule);

  void set_root(Expr root) { root_ = root; }
  Expr root() const { return root_; }

  // Equal text: equal grammar. The key of caches.
  std::string content() const;

  enum class Kind : uint8_t {
    kLiteral,
    kMarker,
    kSequence,
    kChoice,
    kRepeat,
    kTextWithout,
    kRegex,
    kJson,
    kStringText,
    kUse
  };
  struct Node {
    Kind kind;
    int32_t a = 0, b = 0;   // repeat: min, max; use: rule; json, text: index of the schema
    std::string text = {};  // literal, marker, regex
    std::vector<Expr> children = {};  // sequence, choice, repeat
    std::vector<std::string> stops = {};
  };
  struct RuleBody {
    std::string name;
    Expr body = -1;
  };
  struct Schema {
    Json json;
    SchemaOptions options;
  };
  const Node& node(Expr e) const { return nodes_[static_cast<size_t>(e)]; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const RuleBody> rules() const { return rules_; }
  std::span<const Schema> schemas() const { return schemas_; }

 private:
  Expr add(Node node);

  std::vector<Node> nodes_;
  std::vector<RuleBody> rules_;
  std::vector<Schema> schemas_;
  Expr root_ = -1;
};

// GBNF (llama.cpp) and EBNF with `::=`: literals in " or ', classes, . ( ) | * + ? {m,n}, comments
// with # or in /* */, <text> for a marker. The root is the rule `root`, else the first. Errors:
// invalid_grammar with line and column, constraint_too_large (S7.5).
Grammar parse_gbnf(std::string_view text);

// The whole answer is one JSON object (`json_object`), one value of a schema, a match of a pattern,
// or one of 1..1024 texts.
Grammar json_object_grammar();
Grammar json_schema_grammar(Json schema, SchemaOptions options = {});
Grammar regex_grammar(std::string_view pattern);
Grammar choice_grammar(std::span<const std::string> options);

}  // namespace flare::frontend::grammar
