// Grammars of the arguments of calls, by schema, in each of the ways that bodies carry them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/grammar/grammar.h"
#include "frontend/output/format.h"
#include "frontend/output/tools.h"

namespace flare::frontend::output {

using grammar::Grammar;

// Builds into one grammar. Confined to one thread.
class ArgumentGrammar {
 public:
  ArgumentGrammar(Grammar& grammar, const Format& format) : g_(grammar), format_(format) {}

  // Text of tags, in which the family's tokens are markers.
  Grammar::Expr tag(std::string_view text);
  // The body of a call of `tool`; `enforced`: as its schema says, else anything of that form.
  // A schema that cannot be enforced is loosened, or refused (ConstraintError) for a strict tool.
  Grammar::Expr body(const Spelling& spelling, const Tool& tool, bool enforced);
  std::vector<std::string> take_loosened() { return std::exchange(loosened_, {}); }

  Grammar::Expr gap(const Spelling& spelling);

 private:
  using Expr = Grammar::Expr;
  struct Member {
    std::string key;
    const Json* schema = nullptr;
    bool required = false;
  };

  Expr json_object(const Tool& tool, bool enforced);
  Expr json_value(const Json& schema);
  Expr scalar_value(const Json& schema);
  // True if the schema compiles; else notes why, or refuses.
  bool enforceable(const Json& schema, std::string_view pointer);
  [[noreturn]] void refuse(std::string_view pointer, std::string_view why) const;
  void note_unsaid(const Json* schema, bool is_array);

  std::vector<Member> members(const Json* schema) const;
  bool is_open(const Json* schema) const;
  uint8_t types(const Json* schema) const;
  Json with_root(const Json& schema) const;

  Expr parameters(const Spelling& spelling, bool enforced);
  Expr parameter(const Spelling& spelling, Expr key, const Json* schema, bool typed);
  Expr text_parameter(const Spelling& spelling, Expr text);
  Expr tagged_text(const Json* schema, const std::function<Expr()>& free_text);
  Expr line_text(std::string_view close);

  Expr elements(const Spelling& spelling, const Json* schema, bool enforced, int depth);
  Expr element(const Spelling& spelling, const std::string& key, const Json* schema, bool typed,
               int depth);

  Expr literal_object(const Spelling& spelling, const Json* schema, bool typed, int depth);
  Expr literal_value(const Spelling& spelling, const Json* schema, bool typed, int depth);
  Expr any_literal(const Spelling& spelling);
  Expr quoted(const Spelling& spelling, Expr text);

  Expr empty() { return g_.sequence({}); }

  Grammar& g_;
  const Format& format_;
  const Tool* tool_ = nullptr;  // the one whose body is built
  std::optional<Grammar::Rule> any_literal_;
  std::map<std::string, bool> judged_;  // tool and schema: can be enforced
  double judging_ms_ = 0;               // spent on that; all tools together have one compilation's
  std::vector<std::string> loosened_;
};

}  // namespace flare::frontend::output
