// The arena of grammar expressions and the grammars of whole answers.
#include "frontend/grammar/grammar.h"

#include "base/processor_time.h"
#include "frontend/grammar/compiled_grammar.h"
#include "frontend/grammar/pattern.h"

namespace flare::frontend::grammar {

Grammar::Expr Grammar::add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<Expr>(nodes_.size() - 1);
}

Grammar::Expr Grammar::literal(std::string_view utf8) {
  return add({.kind = Kind::kLiteral, .text = std::string(utf8)});
}

Grammar::Expr Grammar::marker(std::string_view text) {
  return add({.kind = Kind::kMarker, .text = std::string(text)});
}

Grammar::Expr Grammar::sequence(std::vector<Expr> parts) {
  return add({.kind = Kind::kSequence, .children = std::move(parts)});
}

Grammar::Expr Grammar::choice(std::vector<Expr> options) {
  return add({.kind = Kind::kChoice, .children = std::move(options)});
}

Grammar::Expr Grammar::repeat(Expr body, int min, int max) {
  return add({.kind = Kind::kRepeat, .a = min, .b = max, .children = {body}});
}

Grammar::Expr Grammar::text_without(std::vector<std::string> stops) {
  return add({.kind = Kind::kTextWithout, .stops = std::move(stops)});
}

Grammar::Expr Grammar::regex(std::string_view pattern) {
  try {
    Languages languages;  // only to see whether the pattern is one
    const double deadline = thread_processor_ms() + CompileLimits().timeout_ms;
    languages.set_check([deadline] {
      if (thread_processor_ms() > deadline) throw Languages::Overflow{};
    });
    whole_language(languages, pattern);
  } catch (const PatternError& e) {
    throw ConstraintError(e.kind == PatternError::kTooLarge ? kConstraintTooLarge : kInvalidRegex,
                          "", "regex: byte {}: {}", e.at, e.message);
  } catch (const Languages::Overflow&) {
    throw ConstraintError(kConstraintTooLarge, "", "regex: it takes too much time or memory");
  }
  return add({.kind = Kind::kRegex, .text = std::string(pattern)});
}

Grammar::Expr Grammar::json(Json schema, SchemaOptions options) {
  schemas_.push_back({std::move(schema), options});
  return add({.kind = Kind::kJson, .a = static_cast<int32_t>(schemas_.size() - 1)});
}

Grammar::Expr Grammar::string_text(Json schema, SchemaOptions options, Expr within) {
  const Expr out = json(std::move(schema), options);
  nodes_.back().kind = Kind::kStringText;
  nodes_.back().children = {within};
  return out;
}

Grammar::Rule Grammar::declare(std::string name) {
  rules_.push_back({std::move(name), -1});
  return static_cast<Rule>(rules_.size() - 1);
}

void Grammar::define(Rule rule, Expr body) { rules_[static_cast<size_t>(rule)].body = body; }

Grammar::Expr Grammar::use(Rule rule) { return add({.kind = Kind::kUse, .a = rule}); }

std::string Grammar::content() const {
  // Every text is preceded by its length, so that no two grammars write the same.
  std::string out;
  const auto put_text = [&](std::string_view text) {
    out += std::to_string(text.size());
    out += ':';
    out += text;
  };
  for (const Node& n : nodes_) {
    out += fmt::format("\n{} {} {} ", static_cast<int>(n.kind), n.a, n.b);
    put_text(n.text);
    for (const Expr child : n.children) out += fmt::format(" {}", child);
    for (const std::string& stop : n.stops) put_text(stop);
  }
  for (const RuleBody& rule : rules_) out += fmt::format("\nrule {}", rule.body);
  for (const Schema& schema : schemas_) {
    out += schema.options.strict ? "\nstrict " : "\nopen ";
    put_text(schema.json.to_text());
  }
  out += fmt::format("\nroot {}", root_);
  return out;
}

Grammar json_object_grammar() { return json_schema_grammar(Json::object({{"type", "object"}})); }

Grammar json_schema_grammar(Json schema, SchemaOptions options) {
  Grammar g;
  g.set_root(g.json(std::move(schema), options));
  return g;
}

Grammar regex_grammar(std::string_view pattern) {
  Grammar g;
  g.set_root(g.regex(pattern));
  return g;
}

Grammar choice_grammar(std::span<const std::string> options) {
  Grammar g;
  std::vector<Grammar::Expr> literals;
  for (const std::string& option : options) literals.push_back(g.literal(option));
  g.set_root(g.choice(std::move(literals)));
  return g;
}

}  // namespace flare::frontend::grammar
