// Fuzz target of pre-tokenizer patterns: an expression and, behind a zero byte, a text. Matches
// stand in order; where the first byte is a digit, the well-known expression of that number must
// match what the engine matches.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "frontend/tokenizer/pattern.h"
#include "frontend/tokenizer/unicode.h"
#include "frontend/tokenizer/word_matcher.h"
#include "require.h"

namespace {

using namespace flare::frontend::tokenizer;

std::vector<std::pair<size_t, size_t>> matches(const Pattern& pattern, std::string_view text) {
  MatchScratch scratch;
  std::vector<std::pair<size_t, size_t>> out;
  size_t done = 0;
  pattern.for_each(text, scratch, [&](Match match) {
    require(match.begin >= done && match.end >= match.begin && match.end <= text.size());
    done = match.end;
    out.emplace_back(match.begin, match.end);
  });
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(all.find('\0'), all.size());
  std::string_view text = all.substr(std::min(zero + 1, all.size()));
  text = text.substr(0, valid_utf8_prefix(text));
  try {
    if (!all.empty() && all[0] >= '0' && all[0] <= '9') {
      const auto known = well_known_expressions();
      const std::string_view expression = known[static_cast<size_t>(all[0] - '0') % known.size()];
      require(matches(Pattern::regex(expression, "fuzz"), text) ==
              matches(Pattern::regex(expression, "fuzz", true), text));
      return 0;
    }
    const std::string_view expression = all.substr(0, zero);
    if (valid_utf8_prefix(expression) < expression.size()) return 0;
    matches(Pattern::regex(expression, "fuzz"), text);
  } catch (const flare::Error&) {
  }
  return 0;
}
