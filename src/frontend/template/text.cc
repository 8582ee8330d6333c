// String operations that carry the origin of every byte along.
#include "frontend/template/text.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <functional>

namespace flare::frontend::jinja {

size_t find_text(std::string_view text, std::string_view needle, size_t from, size_t to) {
  if (from > to || to - from < needle.size()) return kNotFound;
  if (needle.empty()) return from;
  // memmem is linear in the worst case; std::string::find is not.
  const void* hit = memmem(text.data() + from, to - from, needle.data(), needle.size());
  return hit ? static_cast<size_t>(static_cast<const char*>(hit) - text.data()) : kNotFound;
}

size_t rfind_text(std::string_view text, std::string_view needle, size_t from, size_t to) {
  if (from > to || to - from < needle.size()) return kNotFound;
  if (needle.empty()) return to;
  const std::string reversed_text(text.substr(from, to - from).rbegin(),
                                  text.substr(from, to - from).rend());
  const std::string reversed_needle(needle.rbegin(), needle.rend());
  const size_t at = find_text(reversed_text, reversed_needle, 0, reversed_text.size());
  return at == kNotFound ? kNotFound : to - at - needle.size();
}

MarkedText strip(const MarkedText& text, const std::string_view* chars, bool left, bool right) {
  const std::string_view bytes = text.text();
  const auto strips = [&](size_t begin, size_t end) {
    if (chars) return chars->find(bytes.substr(begin, end - begin)) != std::string_view::npos;
    return is_space(decode(bytes, begin));
  };
  size_t begin = 0, end = bytes.size();
  while (left && begin < end) {
    size_t next = begin;
    decode(bytes, next);
    if (!strips(begin, next)) break;
    begin = next;
  }
  while (right && end > begin) {
    const size_t last = previous(bytes, end);
    if (!strips(last, end)) break;
    end = last;
  }
  return text.slice(begin, end);
}

std::vector<MarkedText> split(const MarkedText& text, std::string_view separator, size_t limit) {
  const std::string_view bytes = text.text();
  std::vector<MarkedText> out;
  size_t begin = 0;
  while (out.size() < limit) {
    const size_t at = find_text(bytes, separator, begin, bytes.size());
    if (at == kNotFound) break;
    out.push_back(text.slice(begin, at));
    begin = at + separator.size();
  }
  out.push_back(text.slice(begin, bytes.size()));
  return out;
}

std::vector<MarkedText> rsplit(const MarkedText& text, std::string_view separator, size_t limit) {
  // Hits from the right are not the mirror of hits from the left when they overlap.
  const std::string reversed_text(text.text().rbegin(), text.text().rend());
  const std::string reversed_needle(separator.rbegin(), separator.rend());
  const size_t n = reversed_text.size();
  std::vector<MarkedText> out;
  size_t begin = 0;
  while (out.size() < limit) {
    const size_t at = find_text(reversed_text, reversed_needle, begin, n);
    if (at == kNotFound) break;
    out.push_back(text.slice(n - at, n - begin));
    begin = at + separator.size();
  }
  out.push_back(text.slice(0, n - begin));
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<MarkedText> split_space(const MarkedText& text, size_t limit) {
  const std::string_view bytes = text.text();
  std::vector<MarkedText> out;
  size_t at = 0;
  const auto skip = [&](bool space) {
    while (at < bytes.size()) {
      size_t next = at;
      if (is_space(decode(bytes, next)) != space) break;
      at = next;
    }
  };
  for (skip(true); at < bytes.size(); skip(true)) {
    const size_t begin = at;
    if (out.size() == limit) {
      // The rest stays whole, white space behind it included.
      out.push_back(text.slice(begin, bytes.size()));
      return out;
    }
    skip(false);
    out.push_back(text.slice(begin, at));
  }
  return out;
}

std::vector<MarkedText> rsplit_space(const MarkedText& text, size_t limit) {
  const std::string_view bytes = text.text();
  std::vector<MarkedText> out;
  size_t end = bytes.size();
  const auto skip = [&](bool space) {
    while (end > 0) {
      const size_t last = previous(bytes, end);
      size_t next = last;
      if (is_space(decode(bytes, next)) != space) break;
      end = last;
    }
  };
  for (skip(true); end > 0; skip(true)) {
    const size_t word_end = end;
    if (out.size() == limit) {
      out.push_back(text.slice(0, word_end));
      break;
    }
    skip(false);
    out.push_back(text.slice(end, word_end));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends) {
  const std::string_view bytes = text.text();
  std::vector<MarkedText> out;
  size_t begin = 0, at = 0;
  while (at < bytes.size()) {
    const size_t line_end = at;
    const uint32_t c = decode(bytes, at);
    if (!is_line_break(c)) continue;
    if (c == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    out.push_back(text.slice(begin, keep_ends ? at : line_end));
    begin = at;
  }
  if (begin < bytes.size()) out.push_back(text.slice(begin, bytes.size()));
  return out;
}

MarkedText replace(const MarkedText& text, std::string_view old_text, const MarkedText& new_text,
                   size_t limit) {
  const std::string_view bytes = text.text();
  MarkedText out;
  size_t begin = 0, n = 0;
  if (old_text.empty()) {
    size_t at = 0;
    for (; n < limit; ++n) {
      out.append(new_text);
      if (at >= bytes.size()) return out;
      begin = at;
      decode(bytes, at);
      out.append(text.slice(begin, at));
    }
    out.append(text.slice(at, bytes.size()));
    return out;
  }
  for (; n < limit; ++n) {
    const size_t at = find_text(bytes, old_text, begin, bytes.size());
    if (at == kNotFound) break;
    out.append(text.slice(begin, at));
    out.append(new_text);
    begin = at + old_text.size();
  }
  if (n == 0) return text;
  out.append(text.slice(begin, bytes.size()));
  return out;
}

size_t count_text(std::string_view text, std::string_view needle) {
  if (needle.empty()) return count_code_points(text) + 1;
  size_t n = 0;
  for (size_t at = 0; (at = find_text(text, needle, at, text.size())) != kNotFound;
       at += needle.size()) {
    ++n;
  }
  return n;
}

namespace {

// Whether the capital sigma at byte `at` ends a word, so that its lower case is the final one.
bool is_final_sigma(std::string_view text, size_t at) {
  constexpr int kFar = 64;  // marks that the look around a letter steps over
  size_t before = at;
  uint32_t c = 0;
  int n = 0;
  do {
    if (before == 0 || ++n > kFar) return false;
    before = previous(text, before);
    size_t next = before;
    c = decode(text, next);
  } while (is_case_ignorable(c));
  if (!is_cased(c)) return false;
  decode(text, at);
  for (n = 0; at < text.size() && n <= kFar; ++n) {
    c = decode(text, at);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

void append_lower_at(std::string& out, std::string_view text, size_t at, uint32_t c) {
  constexpr uint32_t kSigma = 0x3a3;
  if (c == kSigma && is_final_sigma(text, at)) {
    out += "\u03c2";
  } else {
    append_lower(out, c);
  }
}

}  // namespace

MarkedText map_case(const MarkedText& text, CaseMap map) {
  MarkedText out;
  std::string mapped;
  bool word = false;  // the code point before had a case (kTitle), or any came before
  const std::string_view bytes = text.text();
  for_each_code_point(text, [&](uint32_t c, std::string_view raw, Origin origin) {
    const auto at = static_cast<size_t>(raw.data() - bytes.data());
    mapped.clear();
    switch (map) {
      case CaseMap::kUpper:
        append_upper(mapped, c);
        break;
      case CaseMap::kLower:
        append_lower_at(mapped, bytes, at, c);
        break;
      case CaseMap::kFold:
        append_folded(mapped, c);
        break;
      case CaseMap::kSwap:
        if (is_upper(c)) {
          append_lower_at(mapped, bytes, at, c);
        } else if (is_lower(c)) {
          append_upper(mapped, c);
        } else {
          mapped = raw;
        }
        break;
      case CaseMap::kCapitalize:
        word ? append_lower_at(mapped, bytes, at, c) : append_title(mapped, c);
        word = true;
        break;
      case CaseMap::kTitle:
        word ? append_lower_at(mapped, bytes, at, c) : append_title(mapped, c);
        word = is_cased(c);
        break;
    }
    out.append(mapped, origin);
  });
  return out;
}

MarkedText escape_html(const MarkedText& text) {
  MarkedText out;
  for_each_code_point(text, [&](uint32_t c, std::string_view raw, Origin origin) {
    switch (c) {
      case '&':
        return out.append("&amp;", origin);
      case '<':
        return out.append("&lt;", origin);
      case '>':
        return out.append("&gt;", origin);
      case '\'':
        return out.append("&#39;", origin);
      case '"':
        return out.append("&#34;", origin);
      default:
        return out.append(raw, origin);
    }
  });
  return out;
}

MarkedText escape_url(const MarkedText& text, std::string_view safe, bool plus) {
  MarkedText out;
  for_each_code_point(text, [&](uint32_t c, std::string_view raw, Origin origin) {
    const bool plain = c < 0x80 && (std::isalnum(static_cast<int>(c)) ||
                                    std::string_view("_.-~").find(static_cast<char>(c)) !=
                                        std::string_view::npos ||
                                    safe.find(static_cast<char>(c)) != std::string_view::npos);
    if (plain) return out.append(raw, origin);
    if (plus && c == ' ') return out.append("+", origin);
    for (const char byte : raw) {
      char code[8];
      std::snprintf(code, sizeof code, "%%%02X",
                    static_cast<unsigned>(static_cast<unsigned char>(byte)));
      out.append(code, origin);
    }
  });
  return out;
}

}  // namespace flare::frontend::jinja
