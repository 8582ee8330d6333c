// The descriptions behind find_format, one source file per format.
#pragma once

#include <string_view>

#include "frontend/output/format.h"

namespace flare::frontend::output {

extern const Format kHermes, kQwenXml, kDsml, kXtml, kKimi, kLlama3, kMistral, kHarmony, kGemma,
    kGlm, kMinimax, kAtem;
extern const ReasoningFormat kThinkXtml, kThinkMistral, kThinkHarmony, kThinkGemma, kThinkMinimax,
    kThinkAtem;

// The word (up to white space or "<") behind the first `prefix` in a header; empty if it has none.
inline std::string_view word_after(std::string_view header, std::string_view prefix) {
  const size_t at = header.find(prefix);
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + prefix.size());
  return header.substr(0, header.find_first_of(" \t\r\n<"));
}

}  // namespace flare::frontend::output
