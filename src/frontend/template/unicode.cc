// Character classes and case mappings as Python has them, over the categories of Unicode.
#include "frontend/template/unicode.h"

#include <algorithm>
#include <iterator>

#include "frontend/template/python_tables.h"
#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::jinja {
namespace {

using tokenizer::category;
using tokenizer::category_of;

}  // namespace

uint32_t decode(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) & 0x3fu : 0;
  };
  const uint32_t first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return ++at, first;
  const size_t i = at;
  if (first < 0xe0) return at += 2, (first & 0x1f) << 6 | byte(i + 1);
  if (first < 0xf0) return at += 3, (first & 0x0f) << 12 | byte(i + 1) << 6 | byte(i + 2);
  return at += 4, (first & 0x07) << 18 | byte(i + 1) << 12 | byte(i + 2) << 6 | byte(i + 3);
}

size_t previous(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

void append_code_point(std::string& out, uint32_t c) {
  tokenizer::append_utf8(out, static_cast<char32_t>(c));
}

size_t count_code_points(std::string_view text) {
  constexpr size_t kBlock = 255;  // whose count is a byte, so that bytes are added
  size_t n = 0;
  for (; !text.empty(); text.remove_prefix(std::min(kBlock, text.size()))) {
    uint8_t of_block = 0;
    for (const char c : text.substr(0, kBlock)) {
      of_block += static_cast<uint8_t>((static_cast<unsigned char>(c) & 0xc0) != 0x80);
    }
    n += of_block;
  }
  return n;
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80 && index-- == 0) return at;
  }
  return at;
}

size_t find_invalid_utf8(std::string_view text) {
  const size_t valid = tokenizer::valid_utf8_prefix(text);
  return valid == text.size() ? std::string::npos : valid;
}

bool is_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_line_break(uint32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_word(uint32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }

bool is_alpha(uint32_t c) {
  const auto k = category_of(c);
  return k == category("Lu") || k == category("Ll") || k == category("Lt") || k == category("Lm") ||
         k == category("Lo");
}

bool is_decimal(uint32_t c) { return category_of(c) == category("Nd"); }

bool is_digit(uint32_t c) { return python_is_digit(c); }
bool is_numeric(uint32_t c) { return python_is_numeric(c); }

bool is_lower(uint32_t c) { return python_is_lower(c); }
bool is_upper(uint32_t c) { return python_is_upper(c); }
bool is_title(uint32_t c) { return category_of(c) == category("Lt"); }

bool is_printable(uint32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7f;
  switch (category_of(c)) {
    case category("Cn"):
    case category("Cc"):
    case category("Cf"):
    case category("Cs"):
    case category("Co"):
    case category("Zs"):
    case category("Zl"):
    case category("Zp"):
      return false;
    default:
      return true;
  }
}

bool is_cased(uint32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }

bool is_case_ignorable(uint32_t c) {
  static constexpr uint32_t kMarks[] = {0x27,   0x2e,   0x3a,   0xb7,   0x387,  0x55f,
                                        0x5f4,  0x2018, 0x2019, 0x2024, 0x2027, 0xfe13,
                                        0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
  switch (category_of(c)) {
    case category("Mn"):
    case category("Me"):
    case category("Cf"):
    case category("Lm"):
    case category("Sk"):
      return true;
    default:
      return std::find(std::begin(kMarks), std::end(kMarks), c) != std::end(kMarks);
  }
}

void append_upper(std::string& out, uint32_t c) {
  if (const std::string_view longer = long_upper(c); !longer.empty()) {
    out += longer;
  } else {
    tokenizer::append_utf8(out, tokenizer::simple_upper(c));
  }
}

void append_lower(std::string& out, uint32_t c) {
  if (c == 0x130) {
    out += "i\u0307";  // the one letter whose lower case is longer
  } else {
    tokenizer::append_utf8(out, tokenizer::simple_lower(c));
  }
}

void append_title(std::string& out, uint32_t c) {
  if (const std::string_view longer = long_title(c); !longer.empty()) {
    out += longer;
  } else {
    tokenizer::append_utf8(out, tokenizer::simple_title(c));
  }
}

void append_folded(std::string& out, uint32_t c) {
  if (const std::string_view folded = special_fold(c); !folded.empty()) {
    out += folded;
  } else {
    append_lower(out, c);
  }
}

}  // namespace flare::frontend::jinja
