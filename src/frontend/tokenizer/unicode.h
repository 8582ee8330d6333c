// Code points of UTF-8 text, the few character classes that tokenizers name, and the plain ones of
// Unicode for the rest of the frontend: the library behind them is included in unicode.cc alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "frontend/tokenizer/unicode_tables.h"

namespace flare::frontend::tokenizer {

struct Decoded {
  char32_t code_point;
  uint32_t bytes;
};

// The code point at text[at]; the text is valid UTF-8 and `at` begins a character.
inline Decoded decode_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  const char32_t lead = byte(at);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(at + 1) & 0x3F), 2};
  if (lead < 0xF0)
    return {(lead & 0x0F) << 12 | (byte(at + 1) & 0x3F) << 6 | (byte(at + 2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(at + 1) & 0x3F) << 12 | (byte(at + 2) & 0x3F) << 6 |
              (byte(at + 3) & 0x3F),
          4};
}
// Start of the character that ends at text[end) (end > 0).
inline size_t previous_start(std::string_view text, size_t end) {
  do {
    --end;
  } while ((static_cast<uint8_t>(text[end]) & 0xC0) == 0x80);
  return end;
}
// Length of the character that this lead byte begins.
inline uint32_t utf8_length(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

void append_utf8(std::string& out, char32_t code_point);

// What stands at bytes[at]: a whole character, the cut beginning of one at the end of the bytes,
// or a maximal broken part (Unicode 3.9, "substitution of maximal subparts").
struct Utf8Part {
  enum Kind { kCharacter, kIncomplete, kBroken } kind;
  uint32_t bytes;
};
Utf8Part utf8_part(std::string_view bytes, size_t at);
// Bytes at the front of `bytes` that are valid UTF-8.
size_t valid_utf8_prefix(std::string_view bytes);
// Number of leading ASCII bytes from `at`.
size_t ascii_run(std::string_view text, size_t at);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

bool contains(CodePointRanges ranges, char32_t code_point);
bool is_white_space(char32_t code_point);
bool is_word(char32_t code_point);
bool is_numeric(char32_t code_point);
// Lower case of one character, without regard to its neighbours.
void append_lowercase(std::string& out, char32_t code_point);

// The general category, its two letters as one value: category("Lu") is that of 'A'.
using Category = uint16_t;
constexpr Category category(const char (&letters)[3]) {
  return static_cast<Category>(static_cast<uint8_t>(letters[0]) << 8 |
                               static_cast<uint8_t>(letters[1]));
}
// In Unicode 14, which the pinned tables above do not follow. Code points that are none are "Cn".
Category category_of(uint32_t code_point);
// Simple case mappings of Unicode 14.
char32_t simple_upper(char32_t code_point);
char32_t simple_lower(char32_t code_point);
char32_t simple_title(char32_t code_point);

}  // namespace flare::frontend::tokenizer
