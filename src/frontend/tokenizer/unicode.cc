// UTF-8 scanning and lookups in the pinned tables.
#include "frontend/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

namespace flare::frontend::tokenizer {

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

Utf8Part utf8_part(std::string_view bytes, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return {Utf8Part::kCharacter, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Part::kBroken, 1};
  const uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and values above U+10FFFF.
  uint8_t low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (uint32_t i = 1; i < length; ++i) {
    if (at + i == bytes.size()) return {Utf8Part::kIncomplete, i};
    if (byte(at + i) < low || byte(at + i) > high) return {Utf8Part::kBroken, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Part::kCharacter, length};
}

size_t ascii_run(std::string_view text, size_t at) {
  const size_t begin = at;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
  return at - begin;
}

size_t valid_utf8_prefix(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    at += ascii_run(bytes, at);
    if (at == bytes.size()) break;
    const Utf8Part part = utf8_part(bytes, at);
    if (part.kind != Utf8Part::kCharacter) break;
    at += part.bytes;
  }
  return at;
}

bool contains(CodePointRanges ranges, char32_t code_point) {
  const auto it = std::upper_bound(
      ranges.begin(), ranges.end(), code_point,
      [](char32_t value, const CodePointRange& range) { return value < range.first; });
  return it != ranges.begin() && code_point <= std::prev(it)->last;
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return contains(white_space(), c);
}
bool is_word(char32_t c) { return contains(word(), c); }
bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return contains(numeric(), c);
}

void append_lowercase(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return;
  }
  if (c == 0x130) {  // the only character whose lower case is two
    out += "i\xCC\x87";
    return;
  }
  const auto extra = lowercase_additions();
  const auto it = std::lower_bound(
      extra.begin(), extra.end(), c,
      [](const CaseAddition& entry, char32_t value) { return entry.upper < value; });
  if (it != extra.end() && it->upper == c)
    append_utf8(out, it->lower);
  else
    append_utf8(out, simple_lower(c));
}

Category category_of(uint32_t c) {
  const char* letters = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
  return category({letters[0], letters[1], '\0'});
}

char32_t simple_upper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t simple_lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}
char32_t simple_title(char32_t c) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

}  // namespace flare::frontend::tokenizer
