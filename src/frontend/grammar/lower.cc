// Expressions become parts, inner ones first; rules that are plain text become leaves of their
// users.
#include "frontend/grammar/lower.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "frontend/grammar/pattern.h"
#include "frontend/grammar/schema.h"

namespace flare::frontend::grammar {
namespace {

// Rules of plain text up to this length are copied to where they are used.
constexpr uint32_t kInlined = 256;
constexpr size_t kMaxSchemaBytes = size_t{1} << 20;

class Lowering {
 public:
  Lowering(const Grammar& grammar, const Vocabulary& vocabulary, Languages& languages,
           const std::function<void()>& check)
      : grammar_(grammar),
        vocabulary_(vocabulary),
        languages_(languages),
        check_(check),
        builder_(languages),
        parts_(grammar.nodes().size(), -1) {}

  Lowered run() {
    if (grammar_.root() < 0) throw ConstraintError(kInvalidGrammar, "", "grammar: it has no root");
    for (size_t i = 0; i < grammar_.rules().size(); ++i) {
      procedures_.push_back(builder_.declare());
      if (grammar_.rules()[i].body < 0)
        throw ConstraintError(kInvalidGrammar, "", "grammar: the rule {} is nowhere defined",
                              quote(grammar_.rules()[i].name));
    }
    order_rules();
    const ProgramBuilder::Part root = part_of(grammar_.root());
    Lowered out{.program = {}, .relaxed = std::move(relaxed_)};
    std::optional<ProgramBuilder::LeftRecursion> loop;
    if (!builder_.build(root, out.program, loop)) {
      if (!grammar_.schemas().empty())
        throw ConstraintError(kUnsatisfiableJsonSchema, "", "schema: no value satisfies it");
      throw ConstraintError(kInvalidGrammar, "", "grammar: no text matches it");
    }
    if (loop) {
      const auto rule = std::ranges::find(procedures_, loop->declared) - procedures_.begin();
      const bool named = std::cmp_less(rule, procedures_.size());
      throw ConstraintError(
          kInvalidGrammar, "",
          "grammar: {} can begin with itself; left recursion is not taken, what repeats goes last",
          named ? "the rule " + quote(grammar_.rules()[static_cast<size_t>(rule)].name) : "a rule");
    }
    return out;
  }

 private:
  // Rules before those that use them, as far as that goes.
  void order_rules() {
    const auto used_by = [&](Grammar::Expr root) {
      std::vector<Grammar::Rule> out;
      std::vector<Grammar::Expr> todo = {root};
      while (!todo.empty()) {
        const Grammar::Node& n = grammar_.node(todo.back());
        todo.pop_back();
        if (n.kind == Grammar::Kind::kUse) out.push_back(n.a);
        todo.insert(todo.end(), n.children.begin(), n.children.end());
      }
      return out;
    };
    const size_t n = grammar_.rules().size();
    std::vector<uint8_t> state(n, 0);
    for (size_t first = 0; first < n; ++first) {
      struct Open {
        size_t rule;
        std::vector<Grammar::Rule> uses;
        size_t next = 0;
      };
      if (state[first] != 0) continue;
      std::vector<Open> stack;
      const auto open = [&](size_t rule) {
        state[rule] = 1;
        stack.push_back({rule, used_by(grammar_.rules()[rule].body)});
      };
      open(first);
      while (!stack.empty()) {
        Open& top = stack.back();
        if (top.next < top.uses.size()) {
          const auto used = static_cast<size_t>(top.uses[top.next++]);
          if (state[used] == 0) open(used);
          continue;
        }
        const size_t rule = top.rule;
        stack.pop_back();
        const ProgramBuilder::Part body = part_of(grammar_.rules()[rule].body);
        builder_.define(procedures_[rule], body);
        state[rule] = 2;
        const Lang l = builder_.as_language(body);
        if (l >= 0 && languages_.min_length(l) <= kInlined) {
          inlined_.resize(n, -1);
          inlined_[rule] = body;
        }
      }
    }
  }

  // Children have smaller numbers than what holds them, so no recursion is needed.
  ProgramBuilder::Part part_of(Grammar::Expr root) {
    std::vector<Grammar::Expr> todo = {root};
    while (!todo.empty()) {
      const Grammar::Expr e = todo.back();
      const auto i = static_cast<size_t>(e);
      if (parts_[i] >= 0) {
        todo.pop_back();
        continue;
      }
      bool ready = true;
      for (const Grammar::Expr child : grammar_.node(e).children) {
        FLARE_ASSERT(child < e);
        if (parts_[static_cast<size_t>(child)] >= 0) continue;
        todo.push_back(child);
        ready = false;
      }
      if (!ready) continue;
      check_();
      parts_[i] = make(grammar_.node(e));
      todo.pop_back();
    }
    return parts_[static_cast<size_t>(root)];
  }

  ProgramBuilder::Part make(const Grammar::Node& n) {
    std::vector<ProgramBuilder::Part> children;
    for (const Grammar::Expr child : n.children)
      children.push_back(parts_[static_cast<size_t>(child)]);
    switch (n.kind) {
      case Grammar::Kind::kLiteral:
        return builder_.leaf(languages_.text(n.text));
      case Grammar::Kind::kMarker:
        if (const std::optional<int32_t> marker = vocabulary_.marker(n.text))
          return builder_.leaf(languages_.letter(kMarkerBase + static_cast<CodePoint>(*marker)));
        return builder_.leaf(languages_.text(n.text));
      case Grammar::Kind::kSequence:
        return builder_.sequence(std::move(children));
      case Grammar::Kind::kChoice:
        return choice(n, std::move(children));
      case Grammar::Kind::kRepeat: {
        const auto bound = [](int32_t v) {
          return v == Grammar::kUnbounded ? Languages::kInfinite : static_cast<uint32_t>(v);
        };
        return builder_.repeat(children[0], static_cast<uint32_t>(n.a), bound(n.b));
      }
      case Grammar::Kind::kTextWithout:
        return text_without(n.stops);
      case Grammar::Kind::kRegex:
        return regex(n.text);
      case Grammar::Kind::kJson:
        return json(grammar_.schemas()[static_cast<size_t>(n.a)], -1);
      case Grammar::Kind::kStringText:
        FLARE_ASSERT(builder_.as_language(children[0]) >= 0);
        return json(grammar_.schemas()[static_cast<size_t>(n.a)],
                    builder_.as_language(children[0]));
      case Grammar::Kind::kUse: {
        const auto rule = static_cast<size_t>(n.a);
        if (rule < inlined_.size() && inlined_[rule] >= 0) return inlined_[rule];
        return builder_.call(procedures_[rule]);
      }
    }
    return builder_.nothing();
  }

  // Many literals share their beginnings.
  ProgramBuilder::Part choice(const Grammar::Node& n, std::vector<ProgramBuilder::Part> children) {
    std::vector<std::u32string> words;
    std::vector<ProgramBuilder::Part> others;
    for (size_t i = 0; i < children.size(); ++i) {
      const Grammar::Node& child = grammar_.node(n.children[i]);
      if (child.kind == Grammar::Kind::kLiteral)
        words.push_back(decode_utf8(child.text));
      else
        others.push_back(children[i]);
    }
    if (!words.empty()) others.push_back(builder_.leaf(languages_.words(std::move(words))));
    return builder_.choice(std::move(others));
  }

  ProgramBuilder::Part text_without(const std::vector<std::string>& stops) {
    std::vector<std::u32string> words;
    for (const std::string& stop : stops)
      if (!vocabulary_.marker(stop)) words.push_back(decode_utf8(stop));
    if (words.empty()) return builder_.leaf(Languages::kEverything);
    const Lang any = Languages::kEverything;
    return builder_.leaf(
        languages_.except(languages_.concat({any, languages_.words(std::move(words)), any})));
  }

  ProgramBuilder::Part regex(const std::string& pattern) {
    try {
      return builder_.leaf(whole_language(languages_, pattern));
    } catch (const PatternError& e) {
      throw ConstraintError(e.kind == PatternError::kTooLarge ? kConstraintTooLarge : kInvalidRegex,
                            "", "regex: byte {}: {}", e.at, e.message);
    }
  }

  // `within` < 0: a value; else its text, if it is a string of that language.
  ProgramBuilder::Part json(const Grammar::Schema& schema, Lang within) {
    if (const size_t bytes = schema.json.to_text().size(); bytes > kMaxSchemaBytes)
      throw ConstraintError(kConstraintTooLarge, "",
                            "schema: it has {} bytes, at most {} are taken", bytes,
                            kMaxSchemaBytes);
    compilers_.push_back(
        std::make_unique<SchemaCompiler>(builder_, schema.json, schema.options, check_));
    SchemaCompiler& compiler = *compilers_.back();
    const ProgramBuilder::Part part =
        within < 0 ? compiler.compile() : compiler.compile_text(within);
    relaxed_.insert(relaxed_.end(), compiler.relaxed().begin(), compiler.relaxed().end());
    return part;
  }

  const Grammar& grammar_;
  const Vocabulary& vocabulary_;
  Languages& languages_;
  const std::function<void()>& check_;
  ProgramBuilder builder_;
  std::vector<ProgramBuilder::Part> parts_;
  std::vector<int32_t> procedures_;
  std::vector<ProgramBuilder::Part> inlined_;
  std::vector<std::string> relaxed_;
  std::vector<std::unique_ptr<SchemaCompiler>> compilers_;
};

}  // namespace

Lowered lower(const Grammar& grammar, const Vocabulary& vocabulary, Languages& languages,
              const std::function<void()>& check) {
  return Lowering(grammar, vocabulary, languages, check).run();
}

}  // namespace flare::frontend::grammar
