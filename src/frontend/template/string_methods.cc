// The methods of Python's str.
#include "frontend/template/string_methods.h"

#include <algorithm>

#include "frontend/template/evaluator.h"
#include "frontend/template/operations.h"
#include "frontend/template/text.h"

namespace flare::frontend::jinja {
namespace {

Value same_kind(Evaluator& ev, const Value& self, MarkedText text) {
  return ev.make_string(std::move(text), self.string().safe);
}

// A text argument; joined into safe text it is escaped first.
MarkedText insertable(const Value& self, const Parameters& p, size_t i) {
  if (self.string().safe && !p[i].string().safe) return escape_html(p.text(i));
  return p.text(i);
}

size_t limit_of(const Parameters& p, size_t i) {
  const Int n = p.integer(i, -1);
  return n < 0 || n > (Int{1} << 40) ? kAll : static_cast<size_t>(n);
}

template <bool left, bool right>
Value strip_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "strip", arguments, {"chars"}, 0);
  if (p[0].is_none()) return same_kind(ev, self, strip(self.string().text, nullptr, left, right));
  const std::string_view chars = p.text(0).text();
  ev.work(self.string().bytes().size() + chars.size());
  return same_kind(ev, self, strip(self.string().text, &chars, left, right));
}

template <bool from_right>
Value split_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, from_right ? "rsplit" : "split", arguments, {"sep", "maxsplit"}, 0);
  const MarkedText& text = self.string().text;
  // One piece beyond the budget is enough to fail.
  const size_t limit = std::min(limit_of(p, 1), static_cast<size_t>(ev.steps_left()) + 1);
  if (p[0].is_none()) {
    return ev.make_strings(from_right ? rsplit_space(text, limit) : split_space(text, limit),
                           self.string().safe);
  }
  const std::string& separator = p.text(0).text();
  if (separator.empty()) ev.fail("empty separator");
  return ev.make_strings(
      from_right ? rsplit(text, separator, limit) : split(text, separator, limit),
      self.string().safe);
}

Value splitlines_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "splitlines", arguments, {"keepends"}, 0);
  ev.step(self.string().bytes().size() / 256);
  return ev.make_strings(split_lines(self.string().text, p.flag(0, false)), self.string().safe);
}

template <bool at_end>
Value affix_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const std::string_view name = at_end ? "endswith" : "startswith";
  const Parameters p(ev, name, arguments, {"prefix", "start", "end"}, 1);
  std::string_view text = self.string().bytes();
  const auto n = static_cast<Int>(self.string().length);
  const auto bound = [&](size_t i, Int otherwise) {
    if (p[i].is_none()) return otherwise;
    const Int v = p.integer(i, otherwise);
    return std::clamp<Int>(v < 0 ? v + n : v, 0, n + 1);
  };
  const Int begin = bound(1, 0), end = std::min(bound(2, n), n);
  if (begin > end) return Value(false);
  const size_t from = byte_offset(text, static_cast<size_t>(begin));
  text = text.substr(from, byte_offset(text, static_cast<size_t>(end)) - from);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string()) {
      ev.fail("{} first arg must be str or a tuple of str, not {}", name, type_name(affix));
    }
    const std::string_view a = affix.string().bytes();
    return at_end ? text.ends_with(a) : text.starts_with(a);
  };
  if (!p[0].is(Kind::kTuple)) return Value(matches(p[0]));
  for (const Value& affix : p[0].list().items) {
    if (matches(affix)) return Value(true);
  }
  return Value(false);
}

Value replace_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  if (!arguments.keywords.empty()) ev.fail("replace() takes no keyword arguments");
  const Parameters p(ev, "replace", arguments, {"old", "new", "count"}, 2);
  p.text(0), p.text(1);
  return replace_text(ev, self, p[0], insertable(self, p, 1), limit_of(p, 2));
}

template <CaseMap map>
Value case_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "upper", arguments, {}, 0);
  return same_kind(ev, self, map_case(self.string().text, map));
}

enum class Find { kFirst, kLast };

// Code point position of the hit, or -1.
Int find_position(Evaluator& ev, const Value& self, const Parameters& p, Find which) {
  const std::string& text = self.string().bytes();
  const auto n = static_cast<Int>(self.string().length);
  const auto bound = [&](size_t i, Int otherwise) {
    if (p[i].is_none()) return otherwise;
    const Int v = p.integer(i, otherwise);
    return std::clamp<Int>(v < 0 ? v + n : v, 0, n + 1);
  };
  const Int begin = bound(1, 0), end = std::min(bound(2, n), n);
  const std::string& needle = p.text(0).text();
  if (begin > end) return -1;
  const size_t from = byte_offset(text, static_cast<size_t>(begin));
  const size_t to = byte_offset(text, static_cast<size_t>(end));
  ev.work(text.size());
  const size_t at = which == Find::kFirst ? find_text(text, needle, from, to)
                                          : rfind_text(text, needle, from, to);
  if (at == kNotFound) return -1;
  return static_cast<Int>(count_code_points(std::string_view(text).substr(0, at)));
}

template <Find which, bool must>
Value find_method_of(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, must ? "index" : "find", arguments, {"sub", "start", "end"}, 1);
  const Int at = find_position(ev, self, p, which);
  if (must && at < 0) ev.fail("substring not found");
  return Value(at);
}

Value count_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "count", arguments, {"sub", "start", "end"}, 1);
  Value text = self;
  if (p.has(1)) {
    const auto n = static_cast<Int>(self.string().length);
    const auto bound = [&](size_t i, Int otherwise) {
      if (p[i].is_none()) return otherwise;
      const Int v = p.integer(i, otherwise);
      return std::max<Int>(v < 0 ? v + n : v, 0);
    };
    if (bound(1, 0) > std::min(bound(2, n), n)) return Value(Int{0});
    text = slice(ev, self, p[1], p[2], Value());
  }
  ev.work(text.string().bytes().size());
  return Value(static_cast<Int>(count_text(text.string().bytes(), p.text(0).text())));
}

Value join_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "join", arguments, {"iterable"}, 1);
  MarkedText out;
  Cursor cursor(ev, p[0]);
  size_t n = 0;
  const bool safe = self.string().safe;
  for (Value item; cursor.next(item); ++n) {
    if (!item.is_string() && !safe) {
      ev.fail("sequence item {}: expected str instance, {} found", n, type_name(item));
    }
    if (n > 0) out.append(self.string().text);
    out.append(safe && !is_safe(item) ? escape_html(to_text(item)) : to_text(item));
    ev.check_size(out.size());
  }
  return same_kind(ev, self, std::move(out));
}

Value format_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  return format_braces(ev, self.string(), arguments);
}

Value format_map_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "format_map", arguments, {"mapping"}, 1);
  if (!p[0].is(Kind::kDict)) ev.fail("format_map() expects a mapping");
  CallArguments inner;
  for (const auto& [key, value] : p[0].dict().items) {
    if (key.is_string()) inner.keywords.emplace_back(key.string().bytes(), value);
  }
  return format_braces(ev, self.string(), inner);
}

template <bool (*test)(uint32_t)>
Value every_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "isalpha", arguments, {}, 0);
  const std::string_view text = self.string().bytes();
  for (size_t at = 0; at < text.size();) {
    if (!test(decode(text, at))) return Value(false);
  }
  return Value(!text.empty());
}

bool is_alnum(uint32_t c) { return is_alpha(c) || is_numeric(c); }

template <bool upper>
Value cased_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "isupper", arguments, {}, 0);
  return Value(is_cased(self.string().bytes(), upper));
}

Value isascii_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "isascii", arguments, {}, 0);
  return Value(self.string().ascii());
}

Value isprintable_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  if (self.string().length == 0) return Value(true);
  return every_method<is_printable>(ev, self, arguments);
}

Value isidentifier_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "isidentifier", arguments, {}, 0);
  const std::string_view text = self.string().bytes();
  for (size_t at = 0; at < text.size();) {
    const bool first = at == 0;
    const uint32_t c = decode(text, at);
    if (!is_word(c) || (first && c != '_' && !is_alpha(c))) return Value(false);
  }
  return Value(!text.empty());
}

Value istitle_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "istitle", arguments, {}, 0);
  const std::string_view text = self.string().bytes();
  bool word = false, any = false;
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = decode(text, at);
    const bool upper = is_upper(c) || is_title(c), lower = is_lower(c);
    if ((upper && word) || (lower && !word)) return Value(false);
    word = upper || lower;
    any |= word;
  }
  return Value(any);
}

template <bool at_end>
Value remove_affix_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, at_end ? "removesuffix" : "removeprefix", arguments, {"affix"}, 1);
  const std::string& text = self.string().bytes();
  const std::string& affix = p.text(0).text();
  // Of escaped markup these give plain text.
  const bool cut = at_end ? text.ends_with(affix) : text.starts_with(affix);
  const size_t begin = cut && !at_end ? affix.size() : 0;
  const size_t end = cut && at_end ? text.size() - affix.size() : text.size();
  return ev.make_string(self.string().text.slice(begin, end));
}

template <bool from_right>
Value partition_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "partition", arguments, {"sep"}, 1);
  const MarkedText& text = self.string().text;
  const std::string& separator = p.text(0).text();
  if (separator.empty()) ev.fail("empty separator");
  const size_t at = from_right ? rfind_text(text.text(), separator, 0, text.size())
                               : find_text(text.text(), separator, 0, text.size());
  const Value empty = same_kind(ev, self, MarkedText());
  std::vector<Value> parts;
  if (at == kNotFound) {
    parts = from_right ? std::vector<Value>{empty, empty, self}
                       : std::vector<Value>{self, empty, empty};
  } else {
    parts = {same_kind(ev, self, text.slice(0, at)),
             same_kind(ev, self, text.slice(at, at + separator.size())),
             same_kind(ev, self, text.slice(at + separator.size(), text.size()))};
  }
  return ev.make_list(std::move(parts), Kind::kTuple);
}

template <char align>
Value justify_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "center", arguments, {"width", "fillchar"}, 1);
  MarkedText fill(" ", Origin::kTemplate);
  if (p.has(1)) fill = p.text(1);
  if (count_code_points(fill.text()) != 1) {
    ev.fail("The fill character must be exactly one character long");
  }
  return same_kind(ev, self, justify(ev, self.string().text, p.integer(0, 0), fill, align));
}

Value zfill_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "zfill", arguments, {"width"}, 1);
  const MarkedText& text = self.string().text;
  const auto missing = p.integer(0, 0) - static_cast<Int>(self.string().length);
  if (missing <= 0) return self;
  ev.check_size(static_cast<uint64_t>(std::min<Int>(missing, Int{1} << 40)));
  const bool sign = !text.empty() && (text.text()[0] == '-' || text.text()[0] == '+');
  MarkedText out = text.slice(0, sign ? 1 : 0);
  out.append(std::string(static_cast<size_t>(missing), '0'), Origin::kTemplate);
  out.append(text.slice(sign ? 1 : 0, text.size()));
  return same_kind(ev, self, std::move(out));
}

Value expandtabs_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "expandtabs", arguments, {"tabsize"}, 0);
  const auto size = static_cast<int64_t>(std::clamp<Int>(p.integer(0, 8), 0, 1 << 20));
  MarkedText out;
  int64_t column = 0;
  for_each_code_point(self.string().text, [&](uint32_t c, std::string_view raw, Origin origin) {
    if (c == '\t') {
      const int64_t n = size == 0 ? 0 : size - column % size;
      ev.check_size(out.size() + static_cast<uint64_t>(n));
      out.append(std::string(static_cast<size_t>(n), ' '), origin);
      column += n;
      return;
    }
    column = c == '\n' || c == '\r' ? 0 : column + 1;
    out.append(raw, origin);
  });
  return same_kind(ev, self, std::move(out));
}

struct Entry {
  std::string_view name;
  MethodFunction method;
};

constexpr Entry kMethods[] = {
    {"strip", strip_method<true, true>},
    {"lstrip", strip_method<true, false>},
    {"rstrip", strip_method<false, true>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"splitlines", splitlines_method},
    {"startswith", affix_method<false>},
    {"endswith", affix_method<true>},
    {"replace", replace_method},
    {"upper", case_method<CaseMap::kUpper>},
    {"lower", case_method<CaseMap::kLower>},
    {"casefold", case_method<CaseMap::kFold>},
    {"title", case_method<CaseMap::kTitle>},
    {"capitalize", case_method<CaseMap::kCapitalize>},
    {"swapcase", case_method<CaseMap::kSwap>},
    {"find", find_method_of<Find::kFirst, false>},
    {"rfind", find_method_of<Find::kLast, false>},
    {"index", find_method_of<Find::kFirst, true>},
    {"rindex", find_method_of<Find::kLast, true>},
    {"count", count_method},
    {"join", join_method},
    {"format", format_method},
    {"format_map", format_map_method},
    {"isalpha", every_method<is_alpha>},
    {"isalnum", every_method<is_alnum>},
    {"isdigit", every_method<is_digit>},
    {"isdecimal", every_method<is_decimal>},
    {"isnumeric", every_method<is_numeric>},
    {"isspace", every_method<is_space>},
    {"isascii", isascii_method},
    {"isprintable", isprintable_method},
    {"isidentifier", isidentifier_method},
    {"istitle", istitle_method},
    {"isupper", cased_method<true>},
    {"islower", cased_method<false>},
    {"removeprefix", remove_affix_method<false>},
    {"removesuffix", remove_affix_method<true>},
    {"partition", partition_method<false>},
    {"rpartition", partition_method<true>},
    {"center", justify_method<'^'>},
    {"ljust", justify_method<'<'>},
    {"rjust", justify_method<'>'>},
    {"zfill", zfill_method},
    {"expandtabs", expandtabs_method},
};

}  // namespace

MethodFunction find_string_method(std::string_view name) {
  for (const Entry& entry : kMethods) {
    if (entry.name == name) return entry.method;
  }
  return nullptr;
}

Value replace_text(Evaluator& ev, const Value& self, const Value& old_text,
                   const MarkedText& new_text, size_t limit) {
  const std::string& text = self.string().bytes();
  const std::string& old_bytes = old_text.string().bytes();
  const size_t hits = std::min(count_text(text, old_bytes), limit);
  const uint64_t removed = old_bytes.size() * hits;
  ev.work(text.size());
  if (!new_text.empty()) {
    const bool huge = hits > (size_t{1} << 40) / new_text.size();
    ev.check_size(huge ? kAll : text.size() + hits * new_text.size() - removed);
  }
  return same_kind(ev, self, replace(self.string().text, old_bytes, new_text, limit));
}

MarkedText justify(Evaluator& ev, const MarkedText& text, Int width, const MarkedText& fill,
                   char align) {
  const Int missing = width - static_cast<Int>(count_code_points(text.text()));
  if (missing <= 0) return text;
  ev.check_size(static_cast<uint64_t>(std::min<Int>(missing, Int{1} << 40)) * fill.size());
  // Python's center puts the odd one left only if the width is odd.
  const Int left = align == '>' ? missing : align == '<' ? 0 : missing / 2 + (missing & width & 1);
  MarkedText out;
  for (Int i = 0; i < left; ++i) out.append(fill);
  out.append(text);
  for (Int i = left; i < missing; ++i) out.append(fill);
  return out;
}

bool is_cased(std::string_view text, bool upper) {
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = decode(text, at);
    if (is_title(c) || (upper ? is_lower(c) : is_upper(c))) return false;
    any |= upper ? is_upper(c) : is_lower(c);
  }
  return any;
}

}  // namespace flare::frontend::jinja
