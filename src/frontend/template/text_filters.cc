// Filters that make text.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "frontend/template/evaluator.h"
#include "frontend/template/filters.h"
#include "frontend/template/operations.h"
#include "frontend/template/string_methods.h"
#include "frontend/template/text.h"

namespace flare::frontend::jinja {
namespace {

// jinja2's soft_str: strings stay what they are, safe ones too.
Value soft_string(Evaluator& ev, const Value& value) {
  return value.is_string() ? value : ev.make_string(to_text(value));
}

template <CaseMap map>
Value case_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "upper", arguments, {"s"}, 1);
  return ev.make_string(map_case(soft_string(ev, p[0]).string().text, map), is_safe(p[0]));
}

// Words begin behind white space and opening brackets, unlike in str.title.
Value title_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "title", arguments, {"s"}, 1);
  const Value held = soft_string(ev, p[0]);
  const MarkedText& text = held.string().text;
  const auto separates = [](uint32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  MarkedText out;
  for (size_t at = 0; at < text.size();) {
    // A run of separators or of others; its first character is upper case, the rest lower.
    const size_t begin = at;
    const bool kind = separates(decode(text.text(), at));
    const size_t second = at;
    while (at < text.size()) {
      size_t next = at;
      if (separates(decode(text.text(), next)) != kind) break;
      at = next;
    }
    out.append(map_case(text.slice(begin, second), CaseMap::kUpper));
    out.append(map_case(text.slice(second, at), CaseMap::kLower));
  }
  return ev.make_string(std::move(out));
}

Value trim_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "trim", arguments, {"value", "chars"}, 1);
  const Value text = soft_string(ev, p[0]);
  if (p[1].is_none()) {
    return ev.make_string(strip(text.string().text, nullptr, true, true), is_safe(p[0]));
  }
  const std::string_view chars = p.text(1).text();
  return ev.make_string(strip(text.string().text, &chars, true, true), is_safe(p[0]));
}

Value replace_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "replace", arguments, {"s", "old", "new", "count"}, 3);
  Value self = ev.make_string(to_text(p[0]));
  const Value old_text = ev.make_string(to_text(p[1]));
  const Int n = p[3].is_none() ? Int{-1} : p.integer(3, -1);
  const size_t limit = n < 0 || n > (Int{1} << 40) ? kAll : static_cast<size_t>(n);
  if (!ev.escaping()) return replace_text(ev, self, old_text, to_text(p[2]), limit);
  const bool marked = is_safe(p[1]) || (is_safe(p[2]) && !is_safe(p[0]));
  if (marked && !is_safe(p[0])) {
    self = ev.make_string(escape_html(to_text(p[0])), true);
  } else {
    self = ev.make_string(to_text(p[0]), is_safe(p[0]));
  }
  const bool escape_new = is_safe(self) && !is_safe(p[2]);
  return replace_text(ev, self, old_text, escape_new ? escape_html(to_text(p[2])) : to_text(p[2]),
                      limit);
}

Value string_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "string", arguments, {"object"}, 1);
  return soft_string(ev, p[0]);
}

Value safe_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "safe", arguments, {"value"}, 1);
  return ev.make_string(to_text(p[0]), true);
}

Value escape_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "escape", arguments, {"s"}, 1);
  if (is_safe(p[0])) return p[0];
  return ev.make_string(escape_html(to_text(p[0])), true);
}

Value force_escape_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "forceescape", arguments, {"value"}, 1);
  return ev.make_string(escape_html(to_text(p[0])), true);
}

Value center_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "center", arguments, {"value", "width"}, 1);
  return ev.make_string(justify(ev, soft_string(ev, p[0]).string().text, p.integer(1, 80),
                                MarkedText(" ", Origin::kTemplate), '^'),
                        is_safe(p[0]));
}

Value format_filter(Evaluator& ev, CallArguments& arguments) {
  if (arguments.positional.size() > 1 && !arguments.keywords.empty()) {
    ev.fail("can't handle positional and keyword arguments at the same time");
  }
  const Value format = soft_string(ev, arguments.positional[0]);
  Value values;
  if (!arguments.keywords.empty()) {
    std::vector<std::pair<Value, Value>> items;
    for (auto& [key, value] : arguments.keywords) items.emplace_back(ev.make_string(key), value);
    values = ev.make_dict(std::move(items));
  } else {
    values =
        ev.make_list({arguments.positional.begin() + 1, arguments.positional.end()}, Kind::kTuple);
  }
  return format_percent(ev, format.string(), values);
}

Value indent_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "indent", arguments, {"s", "width", "first", "blank"}, 1);
  if (p[0].is_undefined()) ev.fail_undefined(p[0]);
  if (!p[0].is_string()) {
    ev.fail("unsupported operand type(s) for +=: '{}' and 'str'", type_name(p[0]));
  }
  MarkedText indention;
  if (p.has(1) && p[1].is_string()) {
    indention = p[1].string().text;
  } else {
    const Int width = std::clamp<Int>(p.integer(1, 4), 0, Int{1} << 40);
    ev.check_size(static_cast<uint64_t>(width));
    indention = MarkedText(std::string(static_cast<size_t>(width), ' '), Origin::kTemplate);
  }
  MarkedText text = p[0].string().text;
  text.append("\n", Origin::kTemplate);  // as jinja2 does, so that a last line end counts
  const std::vector<MarkedText> lines = split_lines(text, false);
  const bool blank = p.flag(3, false);
  MarkedText out;
  if (p.flag(2, false)) out.append(indention);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n", Origin::kTemplate);
    if (i > 0 && (blank || !lines[i].empty())) out.append(indention);
    out.append(lines[i]);
    ev.check_size(out.size());
  }
  return ev.make_string(std::move(out), is_safe(p[0]));
}

Value truncate_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "truncate", arguments, {"s", "length", "killwords", "end", "leeway"}, 1);
  const MarkedText end = p.has(3) ? p.text(3) : MarkedText("...", Origin::kTemplate);
  const Int length = p.integer(1, 255), leeway = p[4].is_none() ? 5 : p.integer(4, 5);
  const auto n_end = static_cast<Int>(count_code_points(end.text()));
  if (length < n_end)
    ev.fail("expected length >= {}, got {}", int_to_text(n_end), int_to_text(length));
  if (leeway < 0) ev.fail("expected leeway >= 0, got {}", int_to_text(leeway));
  if (ev.length(p[0]) <= add_int(ev, length, leeway)) return p[0];
  const MarkedText& text = p.text(0);
  MarkedText out = text.slice(0, byte_offset(text.text(), static_cast<size_t>(length - n_end)));
  if (!p.flag(2, false)) out = rsplit(out, " ", 1)[0];
  const bool safe = is_safe(p[0]);
  const bool end_is_safe = p.has(3) && is_safe(p[3]);
  out.append(safe && !end_is_safe ? escape_html(end) : end);
  return ev.make_string(std::move(out), safe);
}

Value url_encode_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "urlencode", arguments, {"value"}, 1);
  const Value& value = p[0];
  if (value.is_string() || !value.is_iterable()) {
    return ev.make_string(escape_url(to_text(value), "/", false));
  }
  MarkedText out;
  const auto pair = [&](const Value& key, const Value& item) {
    if (!out.empty()) out.append("&", Origin::kTemplate);
    out.append(escape_url(to_text(key), "", true));
    out.append("=", Origin::kTemplate);
    out.append(escape_url(to_text(item), "", true));
  };
  if (value.is(Kind::kDict)) {
    for (const auto& [key, item] : value.dict().items) pair(key, item);
  } else {
    Cursor cursor(ev, value);
    for (Value item; cursor.next(item);) {
      const std::vector<Value> parts = ev.to_vector(item);
      if (parts.size() != 2) ev.fail("urlencode expects pairs");
      pair(parts[0], parts[1]);
    }
  }
  return ev.make_string(std::move(out));
}

Value word_count_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "wordcount", arguments, {"s"}, 1);
  Int n = 0;
  bool word = false;
  const Value text = soft_string(ev, p[0]);
  for_each_code_point(text.string().text, [&](uint32_t c, std::string_view, Origin) {
    n += is_word(c) && !word ? 1 : 0;
    word = is_word(c);
  });
  return Value(n);
}

Value xml_attributes_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "xmlattr", arguments, {"d", "autospace"}, 1);
  if (!p[0].is(Kind::kDict)) ev.fail("xmlattr expects a mapping, not {}", type_name(p[0]));
  MarkedText out;
  for (const auto& [key, value] : p[0].dict().items) {
    if (value.is_none() || value.is_undefined()) continue;
    if (!key.is_string()) ev.fail("xmlattr expects text keys");
    if (key.string().bytes().find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      ev.fail("Invalid character in attribute name: {}", to_repr(key).text());
    }
    if (!out.empty()) out.append(" ", Origin::kTemplate);
    out.append(escape_html(key.string().text));
    out.append("=\"", Origin::kTemplate);
    out.append(is_safe(value) ? value.string().text : escape_html(to_text(value)));
    out.append("\"", Origin::kTemplate);
  }
  if (out.empty() || !p.flag(1, true)) return ev.make_string(std::move(out), ev.escaping());
  MarkedText spaced(" ", Origin::kTemplate);
  spaced.append(out);
  return ev.make_string(std::move(spaced), ev.escaping());
}

Value to_json_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "tojson", arguments,
                     {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style;
  style.ensure_ascii = p.flag(1, false);
  style.sort_keys = p.flag(4, false);
  style.indented = p.has(2) && !p[2].is_none();
  if (style.indented && p[2].is_string()) {
    style.indent = p[2].string().text;
  } else if (style.indented) {
    const Int n = std::clamp<Int>(p.integer(2, 0), 0, Int{1} << 40);
    ev.check_size(static_cast<uint64_t>(n));
    style.indent = MarkedText(std::string(static_cast<size_t>(n), ' '), Origin::kTemplate);
  }
  style.item_separator = MarkedText(style.indented ? "," : ", ", Origin::kTemplate);
  style.key_separator = MarkedText(": ", Origin::kTemplate);
  if (p.has(3) && !p[3].is_none()) {
    const std::vector<Value> parts = ev.to_vector(p[3]);
    if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string()) {
      ev.fail("tojson() separators must be two strings");
    }
    style.item_separator = parts[0].string().text;
    style.key_separator = parts[1].string().text;
  }
  return ev.make_string(dump_json(ev, p[0], style));
}

// Not a filter of jinja2; templates of some models rely on a host that has it. All text in the
// result counts as the caller's, because the pieces of a JSON text have no origin of their own.
Value from_json_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "from_json", arguments, {"value"}, 1);
  const std::string& text = p.text(0).text();
  ev.step(text.size() / 64);
  try {
    return ev.from_json(parse_json(text, "from_json"), Origin::kCaller);
  } catch (const Error& error) {
    ev.fail_with(error.message());
  }
}

constexpr FilterEntry kFilters[] = {
    {"upper", case_filter<CaseMap::kUpper>},
    {"lower", case_filter<CaseMap::kLower>},
    {"capitalize", case_filter<CaseMap::kCapitalize>},
    {"title", title_filter},
    {"trim", trim_filter},
    {"replace", replace_filter},
    {"string", string_filter},
    {"safe", safe_filter},
    {"e", escape_filter},
    {"escape", escape_filter},
    {"forceescape", force_escape_filter},
    {"center", center_filter},
    {"format", format_filter},
    {"indent", indent_filter},
    {"truncate", truncate_filter},
    {"urlencode", url_encode_filter},
    {"wordcount", word_count_filter},
    {"xmlattr", xml_attributes_filter},
    {"tojson", to_json_filter},
    {"from_json", from_json_filter},
    {"fromjson", from_json_filter},
};

}  // namespace

std::span<const FilterEntry> text_filters() { return kFilters; }

}  // namespace flare::frontend::jinja
