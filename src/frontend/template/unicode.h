// Unicode facts that Python's string methods rest on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flare::frontend::jinja {

// The code point at byte `at` of valid UTF-8; moves `at` behind it.
uint32_t decode(std::string_view text, size_t& at);
// Where the code point that ends at byte `end` > 0 begins.
size_t previous(std::string_view text, size_t end);
void append_code_point(std::string& out, uint32_t code_point);
// Number of code points.
size_t count_code_points(std::string_view text);
// Byte offset of code point `index`, or text.size() if there are fewer.
size_t byte_offset(std::string_view text, size_t index);
// First byte that breaks UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);

bool is_space(uint32_t c);       // str.isspace
bool is_line_break(uint32_t c);  // where str.splitlines splits
bool is_word(uint32_t c);        // \w
bool is_alpha(uint32_t c);
bool is_decimal(uint32_t c);
bool is_digit(uint32_t c);
bool is_numeric(uint32_t c);
bool is_lower(uint32_t c);
bool is_upper(uint32_t c);
bool is_title(uint32_t c);
bool is_cased(uint32_t c);
bool is_case_ignorable(uint32_t c);
bool is_printable(uint32_t c);  // repr shows it as it is
// Appends the case mapping of `c`.
void append_upper(std::string& out, uint32_t c);
void append_lower(std::string& out, uint32_t c);
void append_title(std::string& out, uint32_t c);
void append_folded(std::string& out, uint32_t c);  // str.casefold

}  // namespace flare::frontend::jinja
