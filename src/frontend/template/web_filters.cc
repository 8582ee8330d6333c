// Filters that know HTML: striptags and urlize.
#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "frontend/template/evaluator.h"
#include "frontend/template/filters.h"
#include "frontend/template/html_entities.h"
#include "frontend/template/operations.h"
#include "frontend/template/text.h"

namespace flare::frontend::jinja {
namespace {

constexpr size_t npos = std::string_view::npos;

// ---- striptags ----

// Without what stands between `open` and the first `close` behind it.
MarkedText without(const MarkedText& text, std::string_view open, std::string_view close) {
  const std::string_view bytes = text.text();
  MarkedText out;
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t begin = find_text(bytes, open, at, bytes.size());
    if (begin == kNotFound) break;
    const size_t end = find_text(bytes, close, begin + open.size(), bytes.size());
    if (end == kNotFound) break;
    out.append(text.slice(at, begin));
    at = end + close.size();
  }
  out.append(text.slice(at, bytes.size()));
  return out;
}

// What a numeric reference names, as HTML's parser reads it.
std::string numbered_character(uint64_t c) {
  static constexpr std::array<uint16_t, 32> kC1 = {
      0x20ac, 0x81,   0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
      0x2039, 0x0152, 0x8d,   0x017d, 0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
      0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d,   0x017e, 0x0178};
  std::string out;
  if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
    c = 0xfffd;
  } else if (c >= 0x80 && c < 0xa0) {
    c = kC1[c - 0x80];
  } else if (c == 0xd) {
    c = 0xd;
  } else if ((c < 0x20 && c != 9 && c != 10 && c != 12) || c == 0x7f ||
             (c >= 0xfdd0 && c <= 0xfdef) || (c & 0xfffe) == 0xfffe) {
    return out;
  }
  append_code_point(out, static_cast<uint32_t>(c));
  return out;
}

// The character reference that begins with the '&' at `at`: its replacement and its end; end is
// `at` if there is none.
std::pair<std::string, size_t> reference_at(std::string_view text, size_t at) {
  size_t end = at + 1;
  if (end < text.size() && text[end] == '#') {
    ++end;
    const bool hex = end < text.size() && (text[end] == 'x' || text[end] == 'X');
    if (hex) ++end;
    uint64_t value = 0;
    const size_t digits = end;
    for (; end < text.size(); ++end) {
      const auto c = static_cast<unsigned char>(text[end]);
      if (hex ? !std::isxdigit(c) : !std::isdigit(c)) break;
      const int digit = std::isdigit(c) ? c - '0' : (c | 32) - 'a' + 10;
      value = std::min<uint64_t>(value * (hex ? 16 : 10) + static_cast<uint64_t>(digit), 1u << 30);
    }
    if (end == digits) return {{}, at};
    if (end < text.size() && text[end] == ';') ++end;
    return {numbered_character(value), end};
  }
  // At most 32 characters, then perhaps a semicolon.
  for (int n = 0; n < 32 && end < text.size(); ++n) {
    if (std::string_view("\t\n\f <&#;").find(text[end]) != npos) break;
    decode(text, end);
  }
  if (end < text.size() && text[end] == ';') ++end;
  const std::string_view name = text.substr(at + 1, end - at - 1);
  for (size_t n = name.size(); n > 1; --n) {
    const std::string_view found = html_entity(name.substr(0, n));
    if (!found.empty()) return {std::string(found), at + 1 + n};
  }
  return {{}, at};
}

// Python's html.unescape. A character has the caller's origin if any part of its reference has.
MarkedText unescape(const MarkedText& text) {
  const std::string_view bytes = text.text();
  MarkedText out;
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t mark = std::min(bytes.find('&', at), bytes.size());
    out.append(text.slice(at, mark));
    at = mark;
    if (at == bytes.size()) break;
    const auto [replacement, end] = reference_at(bytes, at);
    if (end == at) {
      out.append(text.slice(at, at + 1));
      ++at;
      continue;
    }
    const bool trusted = text.all_template(at, end);
    out.append(replacement, trusted ? Origin::kTemplate : Origin::kCaller);
    at = end;
  }
  return out;
}

Value strip_tags_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "striptags", arguments, {"value"}, 1);
  const MarkedText text = without(without(to_text(p[0]), "<!--", "-->"), "<", ">");
  ev.work(text.size() * 4);
  MarkedText out;
  for (const MarkedText& word : split_space(text, kAll)) {
    if (!out.empty()) out.append(" ", Origin::kTemplate);
    out.append(word);
  }
  return ev.make_string(unescape(out));
}

// ---- urlize ----

bool is_tld_letter(uint32_t c) {
  // What [a-z] matches when Python ignores case.
  return (c < 0x80 && std::isalpha(static_cast<int>(c)) != 0) || c == 0x130 || c == 0x131 ||
         c == 0x17f || c == 0x212a;
}

bool starts_with_folded(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), text.begin(), [](char l, char t) {
           return std::tolower(static_cast<unsigned char>(t)) == l;
         });
}

template <typename Test>
bool all_code_points(std::string_view text, Test test) {
  for (size_t at = 0; at < text.size();) {
    if (!test(decode(text, at))) return false;
  }
  return true;
}

// The labels of the longest run of characters that host names consist of, from `at`; moves it.
std::vector<std::string_view> host_labels(std::string_view text, size_t& at) {
  std::vector<std::string_view> labels;
  size_t begin = at;
  for (;;) {
    size_t next = at;
    const uint32_t c = at < text.size() ? decode(text, next) : 0;
    const bool inside = at < text.size() && (is_word(c) || c == '%' || c == '-');
    if (inside) {
      at = next;
      continue;
    }
    labels.push_back(text.substr(begin, at - begin));
    if (at >= text.size() || text[at] != '.') return labels;
    begin = ++at;
  }
}

bool is_top_level(std::string_view label) {
  const size_t n = count_code_points(label);
  if (n >= 2 && n <= 63 && all_code_points(label, is_tld_letter)) return true;
  return starts_with_folded(label, "xn--") && n >= 6 && n <= 63 &&
         all_code_points(label.substr(4), [](uint32_t c) { return is_word(c) || c == '%'; });
}

// Port, path, query and fragment up to the end.
bool is_url_tail(std::string_view text, size_t at) {
  if (at < text.size() && text[at] == ':') {
    int n = 0;
    for (++at; at < text.size(); ++n) {
      size_t next = at;
      if (!is_decimal(decode(text, next))) break;
      at = next;
    }
    if (n < 1 || n > 5) return false;
  }
  return at == text.size() || text[at] == '/' || text[at] == '?' || text[at] == '#';
}

// With the scheme in front of `at`: a host name whose labels before the last may be anything.
bool is_named_host(std::string_view text, size_t at) {
  const std::vector<std::string_view> labels = host_labels(text, at);
  for (size_t i = 0; i + 1 < labels.size(); ++i) {
    if (labels[i].empty()) return false;
  }
  return is_top_level(labels.back()) && is_url_tail(text, at);
}

bool is_bare_host(std::string_view text) {
  static constexpr std::string_view kTop[] = {"com", "net", "int",  "edu",
                                              "gov", "org", "info", "mil"};
  size_t at = 0;
  const std::vector<std::string_view> labels = host_labels(text, at);
  if (labels.size() < 2) return false;
  for (size_t i = 0; i + 1 < labels.size(); ++i) {
    const size_t n = count_code_points(labels[i]);
    if (n < 2 || n > 63) return false;
  }
  const std::string_view last = labels.back();
  const bool known = std::any_of(std::begin(kTop), std::end(kTop), [&](std::string_view top) {
    return last.size() == top.size() && starts_with_folded(last, top);
  });
  return known && is_url_tail(text, at);
}

bool is_address(std::string_view text, size_t at) {
  const auto run = [&](auto test, int most) {
    int n = 0;
    for (; n < most && at < text.size(); ++n) {
      size_t next = at;
      if (!test(decode(text, next))) break;
      at = next;
    }
    return n;
  };
  if (at < text.size() && text[at] != '[') {
    for (int part = 0; part < 4; ++part) {
      if (part > 0 && (at >= text.size() || text[at++] != '.')) return false;
      if (run(is_decimal, 3) == 0) return false;
    }
    return is_url_tail(text, at);
  }
  const auto hex = [](uint32_t c) {
    return is_decimal(c) || (c < 0x80 && std::isxdigit(static_cast<int>(c)) != 0);
  };
  ++at;
  for (int part = 0; part < 8; ++part) {
    run(hex, 4);
    const bool colon = at < text.size() && text[at] == ':';
    if (colon) ++at;
    if (!colon && part < 2) return false;
    if (part >= 2 && at < text.size() && text[at] == ']') return is_url_tail(text, at + 1);
  }
  return false;
}

bool is_url(std::string_view text) {
  const size_t scheme = starts_with_folded(text, "http://")    ? 7
                        : starts_with_folded(text, "https://") ? 8
                                                               : 0;
  if (scheme > 0 && (is_named_host(text, scheme) || is_address(text, scheme))) return true;
  if (starts_with_folded(text, "www.") && is_named_host(text, 4)) return true;
  return is_bare_host(text);
}

bool is_email(std::string_view text) {
  const size_t sign = text.rfind('@');
  if (sign == npos || sign == 0) return false;
  const std::string_view host = text.substr(sign + 1);
  const size_t dot = host.rfind('.');
  if (dot == npos || dot == 0 || dot + 1 == host.size()) return false;
  size_t second = 0;
  return is_word(decode(host, second)) && all_code_points(host.substr(dot + 1), is_word) &&
         all_code_points(host, [](uint32_t c) { return is_word(c) || c == '.' || c == '-'; });
}

struct LinkStyle {
  MarkedText rel, target;  // whole attributes, or empty
  bool trims = false;
  Int limit = 0;
  std::vector<std::string> schemes;
};

MarkedText shortened(const MarkedText& text, const LinkStyle& style) {
  const auto n = static_cast<Int>(count_code_points(text.text()));
  if (!style.trims || n <= style.limit) return text;
  const Int kept = std::max<Int>(style.limit < 0 ? n + style.limit : style.limit, 0);
  MarkedText out = text.slice(0, byte_offset(text.text(), static_cast<size_t>(kept)));
  out.append("...", Origin::kTemplate);
  return out;
}

MarkedText linked(std::string_view prefix, const MarkedText& address, const MarkedText& shown,
                  const LinkStyle* style) {
  MarkedText out("<a href=\"" + std::string(prefix), Origin::kTemplate);
  out.append(address);
  out.append("\"", Origin::kTemplate);
  if (style) {
    out.append(style->rel);
    out.append(style->target);
  }
  out.append(">", Origin::kTemplate);
  out.append(shown);
  out.append("</a>", Origin::kTemplate);
  return out;
}

// A word without the marks around it, as a link if it is an address.
MarkedText link_word(const MarkedText& word, const LinkStyle& style) {
  const std::string& text = word.text();
  if (is_url(text)) {
    const bool scheme = text.starts_with("https://") || text.starts_with("http://");
    return linked(scheme ? "" : "https://", word, shortened(word, style), &style);
  }
  if (text.starts_with("mailto:") && is_email(std::string_view(text).substr(7))) {
    return linked("", word, word.slice(7, text.size()), nullptr);
  }
  if (!text.starts_with("www.") && text.find(':') == npos && is_email(text)) {
    return linked("mailto:", word, word, nullptr);
  }
  MarkedText out = word;
  for (const std::string& scheme : style.schemes) {
    if (out.text() != scheme && out.text().starts_with(scheme)) {
      out = linked("", out, out, &style);
    }
  }
  return out;
}

size_t mark_at(std::string_view text, size_t at, std::initializer_list<std::string_view> marks) {
  for (const std::string_view mark : marks) {
    if (text.substr(at).starts_with(mark)) return mark.size();
  }
  return 0;
}

// Opening marks in front and closing ones behind do not belong to an address.
MarkedText link_marked_word(const MarkedText& word, const LinkStyle& style) {
  const std::string_view text = word.text();
  size_t begin = 0, end = text.size();
  while (const size_t n = mark_at(text, begin, {"(", "<", "&lt;"})) begin += n;
  for (;;) {
    const std::string_view rest = text.substr(begin, end - begin);
    if (rest.ends_with("&gt;")) {
      end -= 4;
    } else if (!rest.empty() && std::string_view(")>.,").find(rest.back()) != npos) {
      end -= 1;
    } else {
      break;
    }
  }
  static constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
  for (const auto& [open, close] : kPairs) {
    const std::string_view middle = text.substr(begin, end - begin);
    const size_t n_open = count_text(middle, open);
    if (n_open <= count_text(middle, close)) continue;
    const size_t n = std::min(n_open, count_text(text.substr(end), close));
    for (size_t i = 0; i < n; ++i) end = text.find(close, end) + close.size();
  }
  MarkedText out = word.slice(0, begin);
  out.append(link_word(word.slice(begin, end), style));
  out.append(word.slice(end, text.size()));
  return out;
}

MarkedText attribute_text(std::string_view name, const MarkedText& value) {
  MarkedText out(" " + std::string(name) + "=\"", Origin::kTemplate);
  out.append(value);
  out.append("\"", Origin::kTemplate);
  return out;
}

LinkStyle link_style(Evaluator& ev, const Parameters& p) {
  LinkStyle style;
  style.trims = p.has(1) && !p[1].is_none();
  if (style.trims) style.limit = p.integer(1, 0);
  std::set<std::string> parts = {"noopener"};
  if (truthy(p[4])) {
    for (const MarkedText& part : split_space(p.text(4), kAll)) parts.insert(part.text());
  }
  if (p.flag(2, false)) parts.insert("nofollow");
  std::string rel;
  for (const std::string& part : parts) rel += (rel.empty() ? "" : " ") + part;
  const Origin origin = truthy(p[4]) && !p.text(4).all_template(0, p.text(4).size())
                            ? Origin::kCaller
                            : Origin::kTemplate;
  style.rel = attribute_text("rel", escape_html(MarkedText(rel, origin)));
  if (truthy(p[3])) {
    style.target =
        attribute_text("target", is_safe(p[3]) ? to_text(p[3]) : escape_html(to_text(p[3])));
  }
  if (!truthy(p[5])) return style;
  for (const Value& scheme : ev.to_vector(p[5])) {
    if (!scheme.is_string())
      ev.fail("expected string or bytes-like object, got '{}'", type_name(scheme));
    std::string_view name = scheme.string().bytes();
    const size_t colon = name.rfind(':');
    const bool valid = colon != npos && count_code_points(name.substr(0, colon)) >= 2 &&
                       all_code_points(name.substr(0, colon),
                                       [](uint32_t c) {
                                         return is_word(c) || c == '.' || c == '+' || c == '-';
                                       }) &&
                       (name.substr(colon + 1).empty() || name.substr(colon + 1) == "/" ||
                        name.substr(colon + 1) == "//");
    if (!valid) ev.fail("{} is not a valid URI scheme prefix.", to_repr(scheme).text());
    style.schemes.emplace_back(name);
  }
  return style;
}

Value urlize_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "urlize", arguments,
                     {"value", "trim_url_limit", "nofollow", "target", "rel", "extra_schemes"}, 1);
  const LinkStyle style = link_style(ev, p);
  const MarkedText text = is_safe(p[0]) ? to_text(p[0]) : escape_html(to_text(p[0]));
  const std::string_view bytes = text.text();
  ev.work(bytes.size() * 8);
  MarkedText out;
  size_t begin = 0;
  const auto end_of = [&](size_t at, bool space) {
    while (at < bytes.size()) {
      size_t next = at;
      if (is_space(decode(bytes, next)) != space) break;
      at = next;
    }
    return at;
  };
  while (begin < bytes.size()) {
    const size_t word_end = end_of(begin, false);
    out.append(link_marked_word(text.slice(begin, word_end), style));
    begin = end_of(word_end, true);
    out.append(text.slice(word_end, begin));
    ev.check_size(out.size());
  }
  return ev.make_string(std::move(out), ev.escaping());
}

constexpr FilterEntry kFilters[] = {
    {"striptags", strip_tags_filter},
    {"urlize", urlize_filter},
};

}  // namespace

std::span<const FilterEntry> web_filters() { return kFilters; }

}  // namespace flare::frontend::jinja
