// Patterns over logical parameter names, as format rules use them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flare::prepare {

// `*` stands for any bytes, '/' included; `?` for one; `{a,b}` for one of these texts, and an
// alternative N-M for a decimal number of that interval without leading zeros. Everything else
// stands for itself. The whole name must match. Matching takes time in proportion to pattern ×
// name.
class NamePattern {
 public:
  // kUsage for braces that do not close, are nested or hold nothing, and for an interval whose end
  // lies before its begin.
  explicit NamePattern(std::string_view pattern);
  bool matches(std::string_view name) const;
  const std::string& text() const { return text_; }

 private:
  struct Alternative {
    std::string text;
    bool is_interval = false;
    uint64_t first = 0, last = 0;
  };
  struct Token {
    enum class Kind { kText, kOne, kAny, kChoice } kind;
    std::string text;
    std::vector<Alternative> choices;
  };
  static Alternative alternative(std::string_view text, std::string_view pattern);
  std::string text_;
  std::vector<Token> tokens_;
};

}  // namespace flare::prepare
