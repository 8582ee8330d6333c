// Python's string operations on marked text; every piece keeps its origin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "frontend/marked_text.h"
#include "frontend/template/unicode.h"

namespace flare::frontend::jinja {

// Calls f(code point, its bytes, origin) for each code point.
template <typename F>
void for_each_code_point(const MarkedText& text, F f) {
  const std::string_view bytes = text.text();
  size_t at = 0;
  for (const MarkedText::Run& run : text.runs()) {
    while (at < run.end) {
      const size_t begin = at;
      const uint32_t c = decode(bytes, at);
      f(c, bytes.substr(begin, at - begin), run.origin);
    }
  }
}

inline constexpr size_t kAll = static_cast<size_t>(-1);
inline constexpr size_t kNotFound = static_cast<size_t>(-1);

// First or last byte position of `needle` in bytes [from, to) of `text`, or kNotFound. Linear time.
size_t find_text(std::string_view text, std::string_view needle, size_t from, size_t to);
size_t rfind_text(std::string_view text, std::string_view needle, size_t from, size_t to);

// `chars` empty pointer: white space.
MarkedText strip(const MarkedText& text, const std::string_view* chars, bool left, bool right);
// At most `limit` splits. On white space: runs of it separate, none at the ends.
std::vector<MarkedText> split(const MarkedText& text, std::string_view separator, size_t limit);
std::vector<MarkedText> rsplit(const MarkedText& text, std::string_view separator, size_t limit);
std::vector<MarkedText> split_space(const MarkedText& text, size_t limit);
std::vector<MarkedText> rsplit_space(const MarkedText& text, size_t limit);
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends);
MarkedText replace(const MarkedText& text, std::string_view old_text, const MarkedText& new_text,
                   size_t limit);
size_t count_text(std::string_view text, std::string_view needle);

enum class CaseMap : uint8_t { kUpper, kLower, kFold, kSwap, kCapitalize, kTitle };
MarkedText map_case(const MarkedText& text, CaseMap map);

// HTML escapes of & < > ' "; an escape has the origin of its character.
MarkedText escape_html(const MarkedText& text);
// Percent-encodes all but letters, digits, _.-~ and `safe`; with `plus`, a space is '+'.
MarkedText escape_url(const MarkedText& text, std::string_view safe, bool plus);

}  // namespace flare::frontend::jinja
