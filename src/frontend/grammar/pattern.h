// ECMA-262 patterns (flag u, with the lenient escapes of Annex B) as regular languages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "frontend/grammar/language.h"

namespace flare::frontend::grammar {

// Why a pattern is not taken. `at` is a byte offset.
struct PatternError {
  enum Kind { kSyntax, kUnsupported, kTooLarge } kind;
  size_t at;
  std::string message;  // names the construct
};

struct PatternLanguage {
  Lang language;
  bool has_lookaround;  // which was taken as always true
};

// Words in which the pattern matches somewhere. Look-around holds everywhere, unless quantified
// (kUnsupported). Throws PatternError, Languages::Overflow.
PatternLanguage search_language(Languages& languages, std::string_view pattern);
// Words that the pattern matches as a whole. Look-around is kUnsupported.
Lang whole_language(Languages& languages, std::string_view pattern);

}  // namespace flare::frontend::grammar
