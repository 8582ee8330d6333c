// What Python's str methods know of characters beyond categories and simple case mappings.
#pragma once

#include <cstdint>
#include <string_view>

namespace flare::frontend::jinja {

bool python_is_lower(uint32_t c);
bool python_is_upper(uint32_t c);
bool python_is_digit(uint32_t c);
bool python_is_numeric(uint32_t c);
// UTF-8 of mappings to more than one character; empty: the simple one.
std::string_view long_upper(uint32_t c);
std::string_view long_title(uint32_t c);
// UTF-8 of case foldings that differ from the lower case; empty: the lower case.
std::string_view special_fold(uint32_t c);

}  // namespace flare::frontend::jinja
