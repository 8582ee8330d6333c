// What a terminal or a log may be shown.
#include "base/one_line.h"

#include <fmt/core.h>

#include <cstdint>

namespace flare {
namespace {

// Bytes of the UTF-8 character that `text` begins with; 0 for a control character (C1, which
// terminals obey, included) and for what is no UTF-8.
size_t printable_length(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  uint32_t code = first & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr uint32_t smallest[] = {0, 0, 0xa0, 0x800, 0x10000};
  if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
  return length;
}

}  // namespace

void append_printable(std::string_view text, size_t* i, std::string* out) {
  const size_t length = printable_length(text.substr(*i));
  if (length > 0) {
    *out += text.substr(*i, length);
    *i += length;
    return;
  }
  const auto c = static_cast<unsigned char>(text[(*i)++]);
  *out += c == '\n' ? std::string("\\n") : fmt::format("\\x{:02x}", c);
}

std::string one_line(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) append_printable(text, &i, &out);
  return out;
}

}  // namespace flare
