// Matching token by token with the set of places in the name that the tokens so far may end at.
#include "prepare/recipe/name_pattern.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace flare::prepare {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The whole text as a number; nullopt-like false if it is none or has leading zeros.
bool as_number(std::string_view text, uint64_t* number) {
  if (text.empty() || (text.size() > 1 && text[0] == '0') || !std::ranges::all_of(text, is_digit))
    return false;
  return std::from_chars(text.data(), text.data() + text.size(), *number).ec == std::errc();
}

}  // namespace

NamePattern::Alternative NamePattern::alternative(std::string_view text, std::string_view pattern) {
  Alternative out{.text = std::string(text)};
  const size_t dash = text.find('-');
  if (dash == text.npos) return out;
  out.is_interval =
      as_number(text.substr(0, dash), &out.first) && as_number(text.substr(dash + 1), &out.last);
  if (out.is_interval && out.last < out.first)
    throw Error(Code::kUsage, "pattern {}: {} ends before it begins", quote(pattern), quote(text));
  return out;
}

NamePattern::NamePattern(std::string_view pattern) : text_(pattern) {
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '*') {
      tokens_.push_back({Token::Kind::kAny, {}, {}});
    } else if (c == '?') {
      tokens_.push_back({Token::Kind::kOne, {}, {}});
    } else if (c == '{') {
      const size_t close = pattern.find('}', i);
      std::string_view inner =
          close == pattern.npos ? std::string_view{} : pattern.substr(i + 1, close - i - 1);
      if (inner.empty() || inner.find('{') != inner.npos)
        throw Error(Code::kUsage, "pattern {}: '{{' opens no list, expected {{a,b}} or {{0-23}}",
                    quote(pattern));
      Token token{Token::Kind::kChoice, {}, {}};
      for (size_t comma; !inner.empty(); inner.remove_prefix(comma)) {
        comma = std::min(inner.find(','), inner.size());
        token.choices.push_back(alternative(inner.substr(0, comma), pattern));
        if (comma < inner.size()) ++comma;
      }
      tokens_.push_back(std::move(token));
      i = close;
    } else {
      if (tokens_.empty() || tokens_.back().kind != Token::Kind::kText)
        tokens_.push_back({Token::Kind::kText, {}, {}});
      tokens_.back().text += c;
    }
  }
}

bool NamePattern::matches(std::string_view name) const {
  std::vector<bool> at(name.size() + 1), next;
  at[0] = true;
  for (const Token& token : tokens_) {
    next.assign(name.size() + 1, false);
    bool reached = false;  // an earlier place was reached, which `*` extends
    for (size_t i = 0; i <= name.size(); ++i) {
      reached = reached || at[i];
      if (token.kind == Token::Kind::kAny) next[i] = reached;
      if (!at[i]) continue;
      const std::string_view rest = name.substr(i);
      if (token.kind == Token::Kind::kOne && !rest.empty()) next[i + 1] = true;
      if (token.kind == Token::Kind::kText && rest.starts_with(token.text))
        next[i + token.text.size()] = true;
      for (const Alternative& choice : token.choices) {
        if (!choice.is_interval) {
          if (rest.starts_with(choice.text)) next[i + choice.text.size()] = true;
          continue;
        }
        const size_t digits =
            static_cast<size_t>(std::ranges::find_if_not(rest, is_digit) - rest.begin());
        uint64_t number = 0;
        if (as_number(rest.substr(0, digits), &number) && number >= choice.first &&
            number <= choice.last)
          next[i + digits] = true;
      }
    }
    at.swap(next);
  }
  return at[name.size()];
}

}  // namespace flare::prepare
