// GBNF and EBNF with `::=`: rules of literals, classes, groups and repetitions.
#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "frontend/grammar/code_points.h"
#include "frontend/grammar/grammar.h"

namespace flare::frontend::grammar {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 10;
constexpr size_t kMaxRules = 4096;
constexpr int kMaxDepth = 256;
constexpr uint32_t kMaxBound = 1u << 30;

bool is_name(char32_t c) {
  return c == U'-' || c == U'_' || c == U'.' || (c < 0x80 && std::isalnum(int(c)));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(decode_utf8(text)) {}

  Grammar parse() {
    skip(true);
    if (done()) fail("a rule is expected, the text ends");
    while (!done()) rule();
    for (const auto& [name, id] : rules_)
      if (grammar_.rules()[static_cast<size_t>(id)].body < 0) {
        at_ = first_use_.at(name);
        fail(fmt::format("the rule {} is used and nowhere defined", quote(name)));
      }
    const auto root = rules_.find("root");
    grammar_.set_root(grammar_.use(root != rules_.end() ? root->second : 0));
    return std::move(grammar_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < std::min(at_, text_.size()); ++i) {
      ++column;
      if (text_[i] == U'\n') {
        ++line;
        column = 1;
      }
    }
    throw ConstraintError(kInvalidGrammar, "", "grammar: line {} column {}: {}", line, column,
                          message);
  }
  bool done() const { return at_ >= text_.size(); }
  char32_t peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : U'\0';
  }
  bool take(std::u32string_view word) {
    if (!std::u32string_view(text_).substr(std::min(at_, text_.size())).starts_with(word))
      return false;
    at_ += word.size();
    return true;
  }

  // White space and comments; line ends too if a new line may begin here.
  void skip(bool lines) {
    while (!done()) {
      const char32_t c = peek();
      if (c == U' ' || c == U'\t' || (lines && (c == U'\n' || c == U'\r'))) {
        ++at_;
      } else if (c == U'#' || (c == U'/' && peek(1) == U'/')) {
        while (!done() && peek() != U'\n') ++at_;
      } else if (take(U"/*")) {
        while (!done() && !take(U"*/")) ++at_;
      } else {
        break;
      }
    }
  }

  std::string name() {
    std::string out;
    while (!done() && is_name(peek())) out += static_cast<char>(text_[at_++]);
    if (out.empty()) fail("a rule name is expected");
    return out;
  }

  Grammar::Rule rule_of(const std::string& name) {
    const auto [it, fresh] = rules_.try_emplace(name, 0);
    if (fresh) {
      if (rules_.size() > kMaxRules)
        throw ConstraintError(kConstraintTooLarge, "", "grammar: it has more than {} rules",
                              kMaxRules);
      it->second = grammar_.declare(name);
      first_use_.emplace(name, at_);
    }
    return it->second;
  }

  // Whether "name ::=" stands here: the end of the rule before, in whichever line.
  bool at_rule() {
    const size_t before = at_;
    while (!done() && is_name(peek())) ++at_;
    bool found = at_ > before;
    if (found) {
      skip(false);
      found = take(U"::=");
    }
    at_ = before;
    return found;
  }

  void rule() {
    const size_t start = at_;
    const std::string id = name();
    const Grammar::Rule rule = rule_of(id);
    skip(false);
    if (!take(U"::=")) fail("'::=' is expected");
    if (grammar_.rules()[static_cast<size_t>(rule)].body >= 0) {
      at_ = start;
      fail(fmt::format("the rule {} is defined twice", quote(id)));
    }
    skip(true);
    grammar_.define(rule, choice(0));
    skip(true);
    if (take(U";")) skip(true);
    if (!done() && !at_rule()) fail("a rule, or what may stand in one, is expected");
  }

  Grammar::Expr choice(int depth) {
    if (depth > kMaxDepth)
      throw ConstraintError(kConstraintTooLarge, "", "grammar: it is nested deeper than {}",
                            kMaxDepth);
    std::vector<Grammar::Expr> options = {sequence(depth)};
    for (;;) {
      skip(true);
      if (!take(U"|")) break;
      skip(true);
      options.push_back(sequence(depth));
    }
    return options.size() == 1 ? options[0] : grammar_.choice(std::move(options));
  }

  Grammar::Expr sequence(int depth) {
    std::vector<Grammar::Expr> parts;
    for (;;) {
      const size_t before = at_;
      skip(true);
      const char32_t c = peek();
      const bool item = c == U'"' || c == U'\'' || c == U'[' || c == U'(' || c == U'.' ||
                        c == U'<' || (is_name(c) && !at_rule());
      if (done() || !item) {
        at_ = before;
        break;
      }
      parts.push_back(quantified(primary(depth)));
    }
    return parts.size() == 1 ? parts[0] : grammar_.sequence(std::move(parts));
  }

  Grammar::Expr quantified(Grammar::Expr item) {
    for (;;) {
      if (take(U"*")) {
        item = grammar_.repeat(item, 0, Grammar::kUnbounded);
      } else if (take(U"+")) {
        item = grammar_.repeat(item, 1, Grammar::kUnbounded);
      } else if (take(U"?")) {
        item = grammar_.repeat(item, 0, 1);
      } else if (take(U"{")) {
        item = braces(item);
      } else {
        return item;
      }
      if (++n_quantifiers_ > kMaxBytes) fail("too many repetitions");
    }
  }

  Grammar::Expr braces(Grammar::Expr item) {
    const auto number = [&](int& value) {
      const size_t first = at_;
      uint64_t v = 0;
      for (; peek() >= U'0' && peek() <= U'9'; ++at_)
        v = std::min<uint64_t>(v * 10 + (peek() - U'0'), kMaxBound);
      value = static_cast<int>(v);
      return at_ > first;
    };
    int min = 0, max = Grammar::kUnbounded;
    skip(false);
    const bool has_min = number(min);
    skip(false);
    if (take(U",")) {
      skip(false);
      if (!number(max)) max = Grammar::kUnbounded;
    } else if (has_min) {
      max = min;
    } else {
      fail("a number is expected");
    }
    skip(false);
    if (!take(U"}")) fail("'}' is expected");
    if (max != Grammar::kUnbounded && max < min) fail("numbers out of order in {}");
    return grammar_.repeat(item, min, max);
  }

  Grammar::Expr primary(int depth) {
    const char32_t c = peek();
    if (c == U'"' || c == U'\'') return literal(c);
    if (c == U'[') return char_class();
    if (take(U".")) return grammar_.regex("[^]");
    if (c == U'<') return marker();
    if (take(U"(")) {
      skip(true);
      const Grammar::Expr inside = choice(depth + 1);
      skip(true);
      if (!take(U")")) fail("')' is expected");
      return inside;
    }
    return grammar_.use(rule_of(name()));
  }

  Grammar::Expr literal(char32_t delimiter) {
    ++at_;
    std::string out;
    while (peek() != delimiter || done()) {
      if (done() || peek() == U'\n') fail("a literal does not end");
      append_utf8(out, character());
    }
    ++at_;
    return grammar_.literal(out);
  }

  Grammar::Expr marker() {
    const size_t end = text_.find(U'>', at_);
    if (end == std::u32string::npos || end == at_ + 1) fail("a marker is expected to end with '>'");
    std::string out;
    for (; at_ <= end; ++at_) append_utf8(out, text_[at_]);
    return grammar_.marker(out);
  }

  uint32_t hex(size_t n_digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < n_digits; ++i, ++at_) {
      const char32_t c = peek();
      if (c >= 0x80 || !std::isxdigit(int(c))) fail("a hexadecimal digit is expected");
      value = value * 16 + static_cast<uint32_t>(c <= U'9' ? c - U'0' : (c | 0x20) - U'a' + 10);
    }
    if (value > kMaxCodePoint || (value >= 0xD800 && value < 0xE000)) fail("no Unicode character");
    return value;
  }

  CodePoint character() {
    const char32_t c = text_[at_++];
    if (c != U'\\') return c;
    if (done()) fail("an escape does not end");
    const char32_t e = text_[at_++];
    switch (e) {
      case U'n':
        return '\n';
      case U'r':
        return '\r';
      case U't':
        return '\t';
      case U'x':
        return hex(2);
      case U'u':
        return hex(4);
      case U'U':
        return hex(8);
      default:
        if (e < 0x80 && std::isalnum(int(e))) fail("an unknown escape");
        return e;
    }
  }

  // #xN in a class of EBNF, where hexadecimal digits follow.
  CodePoint class_character() {
    if (peek() == U'#' && peek(1) == U'x' && peek(2) < 0x80 && std::isxdigit(int(peek(2)))) {
      at_ += 2;
      size_t n = 0;
      while (n < 6 && peek(n) < 0x80 && std::isxdigit(int(peek(n)))) ++n;
      return hex(n);
    }
    return character();
  }

  // As a pattern of the same class, so that one parser knows what a class means.
  Grammar::Expr char_class() {
    ++at_;
    std::string pattern = "[";
    if (take(U"^")) pattern += '^';
    const auto put = [&](CodePoint c) { pattern += fmt::format("\\u{{{:x}}}", c); };
    while (peek() != U']' || done()) {
      if (done() || peek() == U'\n') fail("a class does not end");
      const CodePoint first = class_character();
      put(first);
      if (peek() == U'-' && peek(1) != U']' && at_ + 1 < text_.size()) {
        ++at_;
        const CodePoint last = class_character();
        if (last < first) fail("a range out of order");
        pattern += '-';
        put(last);
      }
    }
    ++at_;
    return grammar_.regex(pattern + "]");
  }

  std::u32string text_;
  size_t at_ = 0;
  size_t n_quantifiers_ = 0;
  Grammar grammar_;
  std::unordered_map<std::string, Grammar::Rule> rules_;
  std::unordered_map<std::string, size_t> first_use_;
};

}  // namespace

Grammar parse_gbnf(std::string_view text) {
  if (text.size() > kMaxBytes)
    throw ConstraintError(kConstraintTooLarge, "", "grammar: it has {} bytes, at most {} are taken",
                          text.size(), kMaxBytes);
  return Parser(text).parse();
}

}  // namespace flare::frontend::grammar
