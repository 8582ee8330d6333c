// Parses a pattern into a tree of bounded depth, then resolves its anchors into plain languages.
#include "frontend/grammar/pattern.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"

namespace flare::frontend::grammar {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 10;
constexpr int kMaxDepth = 256;
constexpr size_t kMaxIntervals = size_t{1} << 20;  // of all classes
constexpr uint32_t kMaxBound = 1u << 30;

struct Tree {
  enum Kind { kSet, kBegin, kEnd, kTrue, kConcat, kChoice, kRepeat } kind;
  bool anchored = false;  // ^ or $ inside
  bool lookaround = false;
  CodePointSet set = {};
  std::vector<std::unique_ptr<Tree>> parts = {};
  uint32_t min = 1, max = 1;
};
using TreePtr = std::unique_ptr<Tree>;

TreePtr make(Tree::Kind kind) {
  auto tree = std::make_unique<Tree>();
  tree->kind = kind;
  tree->anchored = kind == Tree::kBegin || kind == Tree::kEnd;
  return tree;
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) {
    if (pattern.size() > kMaxBytes)
      throw PatternError{
          PatternError::kTooLarge, 0,
          fmt::format("has {} bytes, at most {} are taken", pattern.size(), kMaxBytes)};
    text_ = decode_utf8(pattern);
  }

  TreePtr parse() {
    TreePtr tree = choice(0);
    if (at_ < text_.size()) syntax("')' without '('");
    return tree;
  }
  bool has_lookaround() const { return lookaround_; }

 private:
  [[noreturn]] void fail(PatternError::Kind kind, std::string message) {
    std::string front;
    for (size_t i = 0; i < std::min(at_, text_.size()); ++i) append_utf8(front, text_[i]);
    throw PatternError{kind, front.size(), std::move(message)};
  }
  [[noreturn]] void syntax(std::string message) { fail(PatternError::kSyntax, std::move(message)); }
  [[noreturn]] void unsupported(std::string message) {
    fail(PatternError::kUnsupported, std::move(message));
  }
  bool done() const { return at_ >= text_.size(); }
  char32_t peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : U'\0';
  }
  bool take(char32_t c) {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view word) {
    if (std::u32string_view(text_).substr(std::min(at_, text_.size())).starts_with(word)) {
      at_ += word.size();
      return true;
    }
    return false;
  }

  TreePtr set_of(CodePointSet set) {
    n_intervals_ += set.size();
    if (n_intervals_ > kMaxIntervals) fail(PatternError::kTooLarge, "has too many large classes");
    TreePtr tree = make(Tree::kSet);
    tree->set = std::move(set);
    return tree;
  }

  TreePtr choice(int depth) {
    if (depth > kMaxDepth)
      fail(PatternError::kTooLarge, fmt::format("is nested deeper than {}", kMaxDepth));
    TreePtr out = make(Tree::kChoice);
    do {
      out->parts.push_back(sequence(depth));
      out->anchored |= out->parts.back()->anchored;
    } while (take(U'|'));
    return out->parts.size() == 1 ? std::move(out->parts[0]) : std::move(out);
  }

  TreePtr sequence(int depth) {
    TreePtr out = make(Tree::kConcat);
    while (!done() && peek() != U'|' && peek() != U')') {
      TreePtr item = quantified(atom(depth));
      out->anchored |= item->anchored;
      if (item->kind != Tree::kTrue) out->parts.push_back(std::move(item));
    }
    return out;
  }

  TreePtr quantified(TreePtr item) {
    uint32_t min = 0, max = 0;
    if (take(U'*')) {
      max = Languages::kInfinite;
    } else if (take(U'+')) {
      min = 1;
      max = Languages::kInfinite;
    } else if (take(U'?')) {
      max = 1;
    } else if (!(peek() == U'{' && braces(min, max))) {
      return item;
    }
    if (item->kind == Tree::kTrue) unsupported("a quantified look-around");
    if (item->kind == Tree::kBegin || item->kind == Tree::kEnd) syntax("nothing to repeat");
    take(U'?');  // a lazy quantifier matches the same words
    const char32_t next = peek();
    if (next == U'*' || next == U'+' || next == U'?') syntax("nothing to repeat");
    TreePtr out = make(Tree::kRepeat);
    out->anchored = item->anchored;
    out->min = min;
    out->max = max;
    out->parts.push_back(std::move(item));
    return out;
  }

  // {m}, {m,}, {m,n}; anything else with a brace is text (Annex B).
  bool braces(uint32_t& min, uint32_t& max) {
    const size_t start = at_++;
    const auto number = [&](uint32_t& value) {
      const size_t first = at_;
      uint64_t v = 0;
      for (; peek() >= U'0' && peek() <= U'9'; ++at_)
        v = std::min<uint64_t>(v * 10 + (peek() - U'0'), kMaxBound);
      value = static_cast<uint32_t>(v);
      return at_ > first;
    };
    bool ok = number(min);
    if (ok && take(U',')) {
      if (peek() == U'}')
        max = Languages::kInfinite;
      else
        ok = number(max);
    } else {
      max = min;
    }
    if (!ok || !take(U'}')) {
      at_ = start;
      return false;
    }
    if (min > max) syntax("numbers out of order in {}");
    return true;
  }

  TreePtr atom(int depth) {
    const char32_t c = text_[at_++];
    switch (c) {
      case U'^':
        return make(Tree::kBegin);
      case U'$':
        return make(Tree::kEnd);
      case U'.':
        return set_of(not_line_terminators());
      case U'(':
        return group(depth);
      case U'[':
        return set_of(char_class());
      case U'\\':
        return escape();
      case U'*':
      case U'+':
      case U'?':
        --at_;
        syntax("nothing to repeat");
      default:
        return set_of({{c, c}});
    }
  }

  TreePtr group(int depth) {
    bool look = false;
    if (take(U"?:")) {
    } else if (take(U"?=") || take(U"?!") || take(U"?<=") || take(U"?<!")) {
      look = true;
    } else if (take(U"?<")) {
      size_t name = 0;
      for (; !done() && peek() != U'>'; ++at_, ++name) {
        const char32_t c = peek();
        const bool ok = c == U'$' || c == U'_' || c >= 0x80 || (c < 0x80 && std::isalnum(int(c)));
        if (!ok) syntax("an invalid group name");
      }
      if (name == 0 || !take(U'>')) syntax("an invalid group name");
    } else if (peek() == U'?') {
      syntax("an invalid group");
    }
    TreePtr inside = choice(depth + 1);
    if (!take(U')')) syntax("'(' without ')'");
    if (!look) return inside;
    lookaround_ = true;
    return make(Tree::kTrue);
  }

  std::optional<uint32_t> hex(size_t n_digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < n_digits; ++i) {
      const char32_t c = peek(i);
      if (c >= 0x80 || !std::isxdigit(int(c))) return std::nullopt;
      value = value * 16 + static_cast<uint32_t>(c <= U'9' ? c - U'0' : (c | 0x20) - U'a' + 10);
    }
    at_ += n_digits;
    return value;
  }

  // What \u… stands for, the u being read.
  CodePoint unicode_escape() {
    if (take(U'{')) {
      uint32_t value = 0;
      size_t n = 0;
      while (const std::optional<uint32_t> digit = hex(1)) {
        value = value * 16 + *digit;
        if (value > kMaxCodePoint) syntax("a code point above 10FFFF");
        ++n;
      }
      if (n == 0 || !take(U'}')) syntax("an invalid \\u{…}");
      return value;
    }
    const std::optional<uint32_t> first = hex(4);
    if (!first) syntax("an invalid \\u escape");
    if (*first >= 0xD800 && *first < 0xDC00 && peek() == U'\\' && peek(1) == U'u') {
      const size_t before = at_;
      at_ += 2;
      const std::optional<uint32_t> second = hex(4);
      if (second && *second >= 0xDC00 && *second < 0xE000)
        return 0x10000 + ((*first - 0xD800) << 10) + (*second - 0xDC00);
      at_ = before;
    }
    return *first;
  }

  CodePointSet property_escape(bool negative) {
    std::string name;
    if (take(U'{')) {
      while (!done() && peek() != U'}' && peek() < 0x80) name += static_cast<char>(text_[at_++]);
      if (!take(U'}')) syntax("an invalid \\p{…}");
    } else {
      syntax("\\p without {…}");
    }
    const std::optional<CodePointSet> set = property(name);
    if (!set) unsupported(fmt::format("the property \\p{{{}}}", name));
    return negative ? complement(*set) : *set;
  }

  struct Escape {
    bool is_class;
    CodePointSet set;
  };
  // The escapes that mean a class or a character in and outside of [].
  Escape common_escape() {
    if (done()) syntax("a backslash at the end");
    const char32_t c = text_[at_++];
    const auto one = [](CodePoint v) { return Escape{false, {{v, v}}}; };
    switch (c) {
      case U'd':
        return {true, digits()};
      case U'D':
        return {true, complement(digits())};
      case U'w':
        return {true, word_characters()};
      case U'W':
        return {true, complement(word_characters())};
      case U's':
        return {true, space_characters()};
      case U'S':
        return {true, complement(space_characters())};
      case U'p':
      case U'P':
        return {true, property_escape(c == U'P')};
      case U't':
        return one('\t');
      case U'n':
        return one('\n');
      case U'v':
        return one('\v');
      case U'f':
        return one('\f');
      case U'r':
        return one('\r');
      case U'0':
        if (peek() >= U'0' && peek() <= U'9') syntax("an octal escape");
        return one(0);
      case U'c': {
        const char32_t letter = peek();
        if (letter >= 0x80 || !std::isalpha(int(letter))) syntax("an invalid \\c escape");
        ++at_;
        return one(letter & 0x1F);
      }
      case U'x': {
        const std::optional<uint32_t> value = hex(2);
        if (!value) syntax("an invalid \\x escape");
        return one(*value);
      }
      case U'u':
        return one(unicode_escape());
      default:
        if (c < 0x80 && std::isalnum(int(c))) {
          --at_;
          syntax(fmt::format("the unknown escape \\{}", static_cast<char>(c)));
        }
        return one(c);
    }
  }

  TreePtr escape() {
    const char32_t c = peek();
    if (c == U'b' || c == U'B') {
      ++at_;
      lookaround_ = true;
      return make(Tree::kTrue);
    }
    if ((c >= U'1' && c <= U'9') || c == U'k') unsupported("a back reference");
    return set_of(intersection(normalised(common_escape().set), any_code_point()));
  }

  CodePointSet char_class() {
    const bool negative = take(U'^');
    CodePointSet out;
    const auto item = [&]() -> Escape {
      if (done()) syntax("'[' without ']'");
      const char32_t c = text_[at_++];
      if (c != U'\\') return {false, {{c, c}}};
      if (take(U'b')) return {false, {{8, 8}}};
      if (take(U'B')) syntax("\\B in a class");
      return common_escape();
    };
    while (!take(U']')) {
      Escape first = item();
      const bool range = peek() == U'-' && peek(1) != U']' && at_ + 1 < text_.size();
      if (!range || first.is_class) {
        out.insert(out.end(), first.set.begin(), first.set.end());
        continue;
      }
      ++at_;
      const Escape last = item();
      if (last.is_class) {  // [a-\d]: three things (Annex B)
        out.insert(out.end(), first.set.begin(), first.set.end());
        out.insert(out.end(), last.set.begin(), last.set.end());
        out.push_back({'-', '-'});
        continue;
      }
      if (first.set[0].lo > last.set[0].lo) syntax("a range out of order");
      out.push_back({first.set[0].lo, last.set[0].lo});
    }
    out = normalised(std::move(out));
    return negative ? complement(out) : intersection(out, any_code_point());
  }

  std::u32string text_;
  size_t at_ = 0;
  bool lookaround_ = false;
  size_t n_intervals_ = 0;
};

// A word stands between endless begin and end marks, of which ^ and $ take one each. variant(t, b,
// e): the words w for which t matches w with any number of begin marks before it (none unless b)
// and of end marks behind it (none unless e).
class Resolver {
 public:
  explicit Resolver(Languages& languages) : l_(languages) {}

  using Variants = std::array<Lang, 4>;  // by b + 2e

  Variants variants(const Tree& t) {
    switch (t.kind) {
      case Tree::kSet:
        return all(l_.letters(t.set));
      case Tree::kTrue:
        return all(Languages::kEmptyWord);
      case Tree::kBegin:
        return {Languages::kNothing, Languages::kEmptyWord, Languages::kNothing,
                Languages::kEmptyWord};
      case Tree::kEnd:
        return {Languages::kNothing, Languages::kNothing, Languages::kEmptyWord,
                Languages::kEmptyWord};
      case Tree::kChoice: {
        std::array<std::vector<Lang>, 4> options;
        for (const TreePtr& part : t.parts) {
          const Variants v = variants(*part);
          for (size_t i = 0; i < 4; ++i) options[i].push_back(v[i]);
        }
        if (!t.anchored) return all(l_.either(options[0]));
        Variants out;
        for (size_t i = 0; i < 4; ++i) out[i] = l_.either(options[i]);
        return out;
      }
      case Tree::kConcat: {
        Variants out = all(Languages::kEmptyWord);
        for (size_t i = t.parts.size(); i-- > 0;)
          out = follow(variants(*t.parts[i]), out, t.parts[i]->anchored);
        return out;
      }
      case Tree::kRepeat:
        return repeated(t);
    }
    return all(Languages::kNothing);
  }

  // x, then y.
  Variants follow(const Variants& x, const Variants& y, bool anchored) {
    const bool plain = !anchored && y[0] == y[1] && y[0] == y[2] && y[0] == y[3];
    if (plain) return all(l_.concat(x[0], y[0]));
    const bool only_begins = l_.nullable(x[1]), only_ends = l_.nullable(y[2]);
    Variants out;
    for (size_t i = 0; i < 4; ++i) {
      const bool b = i & 1, e = i & 2;
      std::vector<Lang> ways = {l_.concat(x[b ? 1 : 0], y[e ? 2 : 0])};
      if (b && only_begins && y[i] != y[i & 2]) ways.push_back(y[i]);
      if (e && only_ends && x[i] != x[i & 1]) ways.push_back(x[i]);
      out[i] = l_.either(std::move(ways));
    }
    return out;
  }

  static Variants all(Lang l) { return {l, l, l, l}; }

 private:
  Variants repeated(const Tree& t) {
    const Variants r = variants(*t.parts[0]);
    if (!t.anchored) return all(l_.repeat(r[0], t.min, t.max));
    Variants out;
    for (size_t i = 0; i < 4; ++i) {
      const bool b = i & 1, e = i & 2;
      const bool absorbs = (b && l_.nullable(r[1])) || (e && l_.nullable(r[2]));
      const uint32_t min = absorbs ? 0 : t.min;
      std::vector<Lang> ways;
      if (min == 0) ways.push_back(Languages::kEmptyWord);
      if (min <= 1 && t.max >= 1) ways.push_back(r[i]);
      if (t.max >= 2) {
        const uint32_t most = t.max == Languages::kInfinite ? t.max : t.max - 2;
        const Lang middle = l_.repeat(r[0], min > 2 ? min - 2 : 0, most);
        ways.push_back(l_.concat({r[b ? 1 : 0], middle, r[e ? 2 : 0]}));
      }
      out[i] = l_.either(std::move(ways));
    }
    return out;
  }

  Languages& l_;
};

// Whether the empty word matches: there every anchor holds, in any order.
bool takes_nothing(const Tree& t) {
  const auto takes = [](const TreePtr& part) { return takes_nothing(*part); };
  switch (t.kind) {
    case Tree::kSet:
      return false;
    case Tree::kBegin:
    case Tree::kEnd:
    case Tree::kTrue:
      return true;
    case Tree::kConcat:
      return std::all_of(t.parts.begin(), t.parts.end(), takes);
    case Tree::kChoice:
      return std::any_of(t.parts.begin(), t.parts.end(), takes);
    case Tree::kRepeat:
      return t.min == 0 || takes(t.parts[0]);
  }
  return false;
}

}  // namespace

PatternLanguage search_language(Languages& languages, std::string_view pattern) {
  Parser parser(pattern);
  const TreePtr tree = parser.parse();
  Resolver resolver(languages);
  const Resolver::Variants v = resolver.variants(*tree);
  if (!tree->anchored)
    return {languages.concat({Languages::kEverything, v[0], Languages::kEverything}),
            parser.has_lookaround()};
  // Letter by letter the marks go to what stands outside or to the anchors: both ways are taken.
  Resolver::Variants tail;
  for (size_t i = 0; i < 4; ++i) {
    const bool e = i & 2;
    std::vector<Lang> ways = {languages.concat(v[i & 1], Languages::kEverything)};
    if (e) ways.push_back(v[i]);
    tail[i] = languages.either(std::move(ways));
  }
  const Lang unanchored_front = languages.concat(Languages::kEverything, tail[2]);
  std::vector<Lang> ways = {unanchored_front, tail[3]};
  if (takes_nothing(*tree)) ways.push_back(Languages::kEmptyWord);
  const Lang out = languages.either(std::move(ways));
  return {out, parser.has_lookaround()};
}

Lang whole_language(Languages& languages, std::string_view pattern) {
  Parser parser(pattern);
  const TreePtr tree = parser.parse();
  if (parser.has_lookaround())
    throw PatternError{PatternError::kUnsupported, 0, "look-around in a pattern of the whole"};
  const Lang out = Resolver(languages).variants(*tree)[3];
  return tree->anchored && takes_nothing(*tree) ? languages.optional(out) : out;
}

}  // namespace flare::frontend::grammar
