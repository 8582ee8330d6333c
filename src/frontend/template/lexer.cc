// Cuts a template into tokens: text, the three kinds of tags, and white space control.
#include "frontend/template/lexer.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "frontend/template/unicode.h"

namespace flare::frontend::jinja {
namespace {

// Line ends become \n; one line end at the very end of the template is dropped.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_word_start(std::string_view text, size_t at) {
  const unsigned char c = text[at];
  return std::isalnum(c) || c == '_' || c >= 0x80;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view where)
      : source_(normalize_newlines(source)), where_(where) {}

  std::vector<Token> run() {
    if (const size_t bad = find_invalid_utf8(source_); bad != std::string::npos) {
      advance_to(bad);
      fail("the template is not valid UTF-8");
    }
    while (at_ < source_.size()) root();
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string_view message) const {
    throw Error(Code::kInvalid, "{}: line {}: {}", where_, line_, message);
  }

  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  void advance_to(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  bool has(size_t at, std::string_view text) const {
    return std::string_view(source_).substr(std::min(at, source_.size())).starts_with(text);
  }

  size_t skip_space(size_t at) const {
    while (at < source_.size()) {
      size_t next = at;
      if (!is_space(decode(source_, next))) break;
      at = next;
    }
    return at;
  }

  // Emits the text up to the tag at `tag`, whose sign ('-', '+' or 0) controls the white space.
  void emit_data(size_t tag, char sign, bool strip_line) {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    if (sign == '-') {
      text = text.substr(0, rstrip_end(text));
    } else if (sign != '+' && strip_line) {
      const size_t newline = text.rfind('\n');
      const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line_begin > 0 || line_starting_) && skip_space(at_ + line_begin) >= tag) {
        text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) push(TokenKind::kData, std::string(text));
    advance_to(tag);
  }

  static size_t rstrip_end(std::string_view text) {
    size_t end = text.size();
    while (end > 0) {
      size_t begin = previous(text, end), next = begin;
      if (!is_space(decode(text, next))) break;
      end = begin;
    }
    return end;
  }

  void root() {
    size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        push(TokenKind::kData, source_.substr(at_));
        advance_to(source_.size());
        return;
      }
      const char c = source_[tag + 1];
      if (c == '%' || c == '{' || c == '#') break;
    }
    const char c = source_[tag + 1];
    const char after = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const char sign = after == '-' || after == '+' ? after : '\0';
    emit_data(tag, sign, c != '{');
    const size_t inside = tag + 2 + (sign ? 1 : 0);
    if (c == '#') {
      comment(inside);
    } else if (c == '%' && raw(inside)) {
      return;
    } else {
      push(c == '%' ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, "");
      advance_to(inside);
      line_starting_ = false;
      tag_body(c == '%');
    }
  }

  // The end of a closing delimiter that begins at `at`, or npos if there is none. `trim`: one line
  // end behind it belongs to it.
  size_t close_end(size_t at, std::string_view close, bool plus, bool trim) const {
    if (has(at, "-") && has(at + 1, close)) return skip_space(at + 1 + close.size());
    if (plus && has(at, "+") && has(at + 1, close)) return at + 1 + close.size();
    if (!has(at, close)) return std::string::npos;
    const size_t end = at + close.size();
    return trim && has(end, "\n") ? end + 1 : end;
  }

  void finish_tag(size_t end) {
    advance_to(end);
    line_starting_ = end > 0 && source_[end - 1] == '\n';
  }

  void comment(size_t inside) {
    for (size_t at = inside; at < source_.size(); ++at) {
      const size_t end = close_end(at, "#}", true, true);
      if (end != std::string::npos) return finish_tag(end);
    }
    fail("comment '{#' is not closed");
  }

  // Handles {% raw %} … {% endraw %} with the tag's inside at `inside`; false if it is another tag.
  bool raw(size_t inside) {
    size_t at = skip_space(inside);
    if (!has(at, "raw")) return false;
    at = skip_space(at + 3);
    const size_t begin = close_end(at, "%}", false, false);
    if (begin == std::string::npos) return false;
    finish_tag(begin);
    for (size_t tag = source_.find("{%", begin); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      const char after = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      const char sign = after == '-' || after == '+' ? after : '\0';
      const size_t word = skip_space(tag + 2 + (sign ? 1 : 0));
      if (!has(word, "endraw")) continue;
      const size_t end = close_end(skip_space(word + 6), "%}", true, true);
      if (end == std::string::npos) continue;
      emit_data(tag, sign, true);
      finish_tag(end);
      return true;
    }
    fail("'raw' is not closed by 'endraw'");
  }

  void tag_body(bool block) {
    std::string open;  // closing brackets that are still expected
    const std::string_view close = block ? "%}" : "}}";
    while (at_ < source_.size()) {
      if (open.empty()) {
        const size_t end = close_end(at_, close, block, block);
        if (end != std::string::npos) {
          push(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, "");
          return finish_tag(end);
        }
      }
      if (const size_t end = skip_space(at_); end > at_) {
        advance_to(end);
        continue;
      }
      if (!number() && !name() && !string()) op(open);
    }
    fail(block ? "tag '{%' is not closed" : "tag '{{' is not closed");
  }

  static bool digit(char c, int base) {
    if (base == 16) return std::isxdigit(static_cast<unsigned char>(c)) != 0;
    return c >= '0' && c < '0' + base;
  }

  // Digits with single underscores between them; returns the end, `at` if there are none.
  size_t digits(size_t at, int base) const {
    size_t end = at;
    while (end < source_.size()) {
      if (digit(source_[end], base)) {
        ++end;
      } else if (source_[end] == '_' && end > at && end + 1 < source_.size() &&
                 digit(source_[end + 1], base)) {
        end += 2;
      } else {
        break;
      }
    }
    return end;
  }

  void push_number(TokenKind kind, size_t end) {
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    push(kind, std::move(text));
    advance_to(end);
  }

  bool number() {
    if (!digit(source_[at_], 10)) return false;
    const size_t whole = digits(at_, 10);
    if (at_ == 0 || source_[at_ - 1] != '.') {
      size_t end = whole;
      if (has(end, ".") && digits(end + 1, 10) > end + 1) end = digits(end + 1, 10);
      if (has(end, "e") || has(end, "E")) {
        const size_t sign = end + 1 + (has(end + 1, "+") || has(end + 1, "-") ? 1 : 0);
        if (digits(sign, 10) > sign) end = digits(sign, 10);
      }
      if (end > whole) return push_number(TokenKind::kFloat, end), true;
    }
    size_t end = whole;
    if (source_[at_] == '0') {
      const char x =
          at_ + 1 < source_.size()
              ? static_cast<char>(std::tolower(static_cast<unsigned char>(source_[at_ + 1])))
              : '\0';
      const int base = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 0;
      if (base != 0 && digits(at_ + 2, base) > at_ + 2) {
        end = digits(at_ + 2, base);
      } else {
        end = digits(at_, 1);
        if (end == at_) end = at_ + 1;
      }
    }
    push_number(TokenKind::kInteger, end);
    return true;
  }

  bool name() {
    if (!is_word_start(source_, at_)) return false;
    size_t end = at_;
    while (end < source_.size() && is_word_start(source_, end)) {
      const size_t begin = end;
      if (!is_word(decode(source_, end))) {
        end = begin;
        break;
      }
    }
    if (end == at_) return false;
    push(TokenKind::kName, source_.substr(at_, end - at_));
    advance_to(end);
    return true;
  }

  bool string() {
    const char mark = source_[at_];
    if (mark != '\'' && mark != '"') return false;
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != mark) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("string is not closed");
    push(TokenKind::kString, unescape(at_ + 1, end));
    advance_to(end + 1);
    return true;
  }

  std::string unescape(size_t begin, size_t end) const {
    std::string out;
    for (size_t i = begin; i < end;) {
      if (source_[i] != '\\') {
        out += source_[i++];
        continue;
      }
      const char c = source_[i + 1];
      i += 2;
      static constexpr std::string_view kFrom = "nrtabfv\\'\"", kTo = "\n\r\t\a\b\f\v\\'\"";
      if (const size_t k = kFrom.find(c); k != std::string_view::npos) {
        out += kTo[k];
      } else if (c == '\n') {
        continue;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        append_code_point(out, hex(i, n, end));
        i += n;
      } else if (digit(c, 8)) {
        uint32_t value = static_cast<uint32_t>(c - '0');
        for (int k = 0; k < 2 && i < end && digit(source_[i], 8); ++k) {
          value = value * 8 + static_cast<uint32_t>(source_[i++] - '0');
        }
        append_code_point(out, value);
      } else if (c == 'N') {
        fail("string escape \\N is not supported");
      } else {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  uint32_t hex(size_t at, size_t n, size_t end) const {
    uint32_t value = 0;
    for (size_t i = 0; i < n; ++i) {
      if (at + i >= end || !digit(source_[at + i], 16)) fail("string has a truncated \\ escape");
      const char c = source_[at + i];
      value = value * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
      fail("string escape names no Unicode character");
    }
    return value;
  }

  void op(std::string& open) {
    static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    std::string text(1, source_[at_]);
    for (std::string_view two : kTwo) {
      if (has(at_, two)) text = two;
    }
    if (text.size() == 1 &&
        std::string_view("+-/*%~[](){}><=.:|,;").find(text) == std::string_view::npos) {
      size_t end = at_;
      decode(source_, end);
      fail(fmt::format("unexpected character {}", quote(source_.substr(at_, end - at_))));
    }
    if (text == "{") open += '}';
    if (text == "(") open += ')';
    if (text == "[") open += ']';
    if (text == "}" || text == ")" || text == "]") {
      if (open.empty()) fail(fmt::format("unexpected '{}'", text));
      if (open.back() != text[0]) {
        fail(fmt::format("unexpected '{}', expected '{}'", text, open.back()));
      }
      open.pop_back();
    }
    const size_t end = at_ + text.size();
    push(TokenKind::kOperator, std::move(text));
    advance_to(end);
  }

  std::string source_;
  std::string_view where_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the tag before ended with a line end
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, std::string_view where) {
  return Lexer(source, where).run();
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "template text";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kString:
      return "string " + quote(token.text);
    case TokenKind::kEnd:
      return "end of template";
    default:
      return quote(token.text);
  }
}

}  // namespace flare::frontend::jinja
