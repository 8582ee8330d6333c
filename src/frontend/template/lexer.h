// The token stream of a Jinja template: text, tags and the tokens inside tags, with lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flare::frontend::jinja {

enum class TokenKind : uint8_t {
  kData,  // text between tags, white space control already applied
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  // text: the unescaped value
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;

  bool is_operator(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
};

// Splits `source` with trim_blocks and lstrip_blocks on and keep_trailing_newline off, as model
// libraries configure jinja2. The last token is kEnd. Errors: kInvalid "where: line N: …".
std::vector<Token> tokenize(std::string_view source, std::string_view where);

// The name of a token in messages.
std::string describe(const Token& token);

}  // namespace flare::frontend::jinja
