// The well-known expressions that cut text into words, written by hand: what they match is what
// the general engine matches, at many times the speed.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace flare::frontend::tokenizer {

// End of the match at text[at), which begins a character of valid UTF-8; `at` if there is none.
// No match is empty.
using WordMatcher = size_t (*)(std::string_view text, size_t at);

// The matcher of an expression, spelled exactly so; nullptr if there is none.
WordMatcher find_word_matcher(std::string_view expression);
std::vector<std::string_view> well_known_expressions();

}  // namespace flare::frontend::tokenizer
