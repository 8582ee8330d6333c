// From the reference's regular expressions to PCRE2's: other class contents, other escapes.
#include <vector>

#include "frontend/tokenizer/pattern.h"
#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

namespace {

std::string class_items(CodePointRanges ranges) {
  std::string out;
  for (const auto& [first, last] : ranges) {
    out += fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(first));
    if (last != first) out += fmt::format("-\\x{{{:x}}}", static_cast<uint32_t>(last));
  }
  return out;
}

// Class items of \p{name} in the reference.
std::string property_items(std::string_view name) {
  std::string out = fmt::format("\\p{{{}}}", name);
  for (const PropertyAddition& addition : property_additions())
    if (addition.name == name) out += class_items(addition.ranges);
  return out;
}

class Translator {
 public:
  Translator(std::string_view expression, std::string_view where)
      : in_(expression), where_(where) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        const Escape escape = read_escape();
        if (escape.items.empty())
          out_ += escape.verbatim;
        else
          out_ += fmt::format("[{}{}]", escape.negated ? "^" : "", escape.items);
      } else if (c == '[') {
        out_ += read_class(0);
      } else {
        if (c == '}' && at_ + 1 < in_.size() && in_[at_ + 1] == '+')
          refuse("a quantifier after an interval");
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  // An escape: a set of characters (items, perhaps negated) or text to keep as it is.
  struct Escape {
    std::string items;
    bool negated = false;
    std::string verbatim;
  };

  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(Code::kInvalid, "{}: regular expression {}, byte {}: {} is not supported", where_,
                quote(in_), at_, what);
  }

  Escape read_escape() {
    if (at_ + 1 >= in_.size()) refuse("a trailing backslash");
    const char c = in_[at_ + 1];
    Escape out;
    switch (c) {
      case 's':
      case 'S':
        out.items = class_items(white_space());
        out.negated = c == 'S';
        break;
      case 'w':
      case 'W':
        out.items = class_items(regex_word());
        out.negated = c == 'W';
        break;
      case 'd':
      case 'D':
        out.items = property_items("Nd");
        out.negated = c == 'D';
        break;
      case 'h':
      case 'H':
        out.items = "0-9A-Fa-f";
        out.negated = c == 'H';
        break;
      case 'p':
      case 'P':
        return read_property(c == 'P');
      case 'u':
        return read_code_point();
      default:
        // A non-ASCII character after the backslash keeps all its bytes: they follow verbatim.
        out.verbatim = std::string(in_.substr(at_, 2));
        break;
    }
    at_ += 2;
    return out;
  }

  Escape read_property(bool negated) {
    const size_t close = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || close == std::string_view::npos)
      refuse("a property without braces");
    std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    Escape out;
    out.items = property_items(name);
    out.negated = negated;
    at_ = close + 1;
    return out;
  }

  Escape read_code_point() {
    const std::string_view digits = in_.substr(at_ + 2, 4);
    if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos)
      refuse("\\u without four hexadecimal digits");
    Escape out;
    out.verbatim = fmt::format("\\x{{{}}}", digits);
    at_ += 6;
    return out;
  }

  // A class from '[' to its ']'. A negated set among its items cannot be written as items, since
  // what Unicode 16 adds would have to be taken out: it becomes an alternative or a condition.
  std::string read_class(int depth) {
    if (depth > 8) refuse("deep nesting of classes");
    ++at_;
    bool negated = false;
    if (at_ < in_.size() && in_[at_] == '^') {
      negated = true;
      ++at_;
    }
    std::string items, condition;
    std::vector<std::string> complements;
    for (bool first = true;; first = false) {
      if (at_ >= in_.size()) refuse("a class without end");
      const char c = in_[at_];
      if (c == ']' && !first) break;
      if (c == '\\') {
        const Escape escape = read_escape();
        if (escape.negated)
          complements.push_back(escape.items);
        else
          items += escape.items.empty() ? escape.verbatim : escape.items;
      } else if (in_.substr(at_).starts_with("[:")) {
        const size_t close = in_.find(":]", at_);
        if (close == std::string_view::npos) refuse("a nested class");
        items += in_.substr(at_, close + 2 - at_);
        at_ = close + 2;
      } else if (c == '[') {
        refuse("a nested class");
      } else if (in_.substr(at_).starts_with("&&")) {
        at_ += 2;
        if (negated || at_ >= in_.size() || in_[at_] != '[') refuse("this class intersection");
        condition = fmt::format("(?={})", read_class(depth + 1));
        if (at_ >= in_.size() || in_[at_] != ']') refuse("this class intersection");
        break;
      } else {
        items += c;
        ++at_;
      }
    }
    ++at_;
    return assemble(items, negated, condition, complements);
  }

  static std::string assemble(const std::string& items, bool negated, const std::string& condition,
                              const std::vector<std::string>& complements) {
    if (complements.empty()) {
      const std::string plain = fmt::format("[{}{}]", negated ? "^" : "", items);
      return condition.empty() ? plain : fmt::format("(?:{}{})", condition, plain);
    }
    std::string out = "(?:" + condition;
    if (negated) {
      for (const std::string& set : complements) out += fmt::format("(?=[{}])", set);
      return out + (items.empty() ? "(?s:.)" : fmt::format("[^{}]", items)) + ")";
    }
    out += "(?:";
    for (const std::string& set : complements) out += fmt::format("[^{}]|", set);
    if (items.empty())
      out.pop_back();
    else
      out += fmt::format("[{}]", items);
    return out + "))";
  }

  std::string_view in_;
  std::string_view where_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string translate_regex(std::string_view expression, std::string_view where) {
  return Translator(expression, where).run();
}

}  // namespace flare::frontend::tokenizer
