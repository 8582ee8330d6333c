// How values print, compare and describe themselves, as Python's do.
#include "frontend/template/value.h"

#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/json/json.h"
#include "frontend/template/loop.h"
#include "frontend/template/text.h"
#include "frontend/template/unicode.h"

namespace flare::frontend::jinja {
namespace {

constexpr size_t kIndexFrom = 16;  // members from which a dict keeps an index

// The namespaces that are being printed: one inside itself is not spelled out.
struct Printing {
  const Namespace* name_space = nullptr;
  const Printing* outer = nullptr;
};

void append_value(MarkedText& out, const Value& value, bool repr, const Printing* outer);

void plain(MarkedText& out, std::string_view text) { out.append(text, Origin::kTemplate); }

void append_items(MarkedText& out, const std::vector<Value>& items, const Printing* outer) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) plain(out, ", ");
    first = false;
    append_value(out, item, true, outer);
  }
}

void append_dict(MarkedText& out, const Dict& dict, const Printing* outer) {
  plain(out, "{");
  bool first = true;
  for (const auto& [key, value] : dict.items) {
    if (!first) plain(out, ", ");
    first = false;
    append_value(out, key, true, outer);
    plain(out, ": ");
    append_value(out, value, true, outer);
  }
  plain(out, "}");
}

void append_view(MarkedText& out, const DictView& view, const Printing* outer) {
  plain(out, type_name(Value(Kind::kDictView, const_cast<DictView*>(&view))));
  plain(out, "([");
  bool first = true;
  for (const auto& [key, value] : view.dict.dict().items) {
    if (!first) plain(out, ", ");
    first = false;
    if (view.part == DictView::Part::kItems) plain(out, "(");
    if (view.part != DictView::Part::kValues) append_value(out, key, true, outer);
    if (view.part == DictView::Part::kItems) plain(out, ", ");
    if (view.part != DictView::Part::kKeys) append_value(out, value, true, outer);
    if (view.part == DictView::Part::kItems) plain(out, ")");
  }
  plain(out, "])");
}

void append_namespace(MarkedText& out, const Namespace& ns, const Printing* outer) {
  // Namespaces may share each other without end: a long text spells no more of them out.
  constexpr size_t kLong = 1u << 20;
  bool known = out.size() > kLong;
  for (const Printing* p = outer; p && !known; p = p->outer) known = p->name_space == &ns;
  if (known) return plain(out, "<Namespace {...}>");
  const Printing inner{&ns, outer};
  plain(out, "<Namespace {");
  bool first = true;
  for (const auto& [name, value] : ns.attributes) {
    if (!first) plain(out, ", ");
    first = false;
    append_repr(out, MarkedText(name, Origin::kTemplate));
    plain(out, ": ");
    append_value(out, value, true, &inner);
  }
  plain(out, "}>");
}

void append_range(MarkedText& out, const Range& range) {
  plain(out, fmt::format("range({}, {}", int_to_text(range.begin), int_to_text(range.end)));
  if (range.step != 1) plain(out, fmt::format(", {}", int_to_text(range.step)));
  plain(out, ")");
}

void append_value(MarkedText& out, const Value& value, bool repr, const Printing* outer) {
  switch (value.kind()) {
    case Kind::kNone:
      return plain(out, "None");
    case Kind::kBool:
      return plain(out, value.boolean() ? "True" : "False");
    case Kind::kInt:
      return plain(out, int_to_text(value.integer()));
    case Kind::kFloat:
      return plain(out, float_to_text(value.real()));
    case Kind::kUndefined:
      return plain(out, repr ? "Undefined" : "");
    case Kind::kString:
      if (!repr) return out.append(value.string().text);
      if (value.string().safe) plain(out, "Markup(");
      append_repr(out, value.string().text);
      if (value.string().safe) plain(out, ")");
      return;
    case Kind::kList:
      plain(out, "[");
      append_items(out, value.list().items, outer);
      return plain(out, "]");
    case Kind::kTuple:
      plain(out, "(");
      append_items(out, value.list().items, outer);
      return plain(out, value.list().items.size() == 1 ? ",)" : ")");
    case Kind::kDict:
      return append_dict(out, value.dict(), outer);
    case Kind::kDictView:
      return append_view(out, value.dict_view(), outer);
    case Kind::kRange:
      return append_range(out, value.range());
    case Kind::kIterator:
      return plain(out, fmt::format("<{} object>", value.iterator().type));
    case Kind::kNamespace:
      return append_namespace(out, value.name_space(), outer);
    case Kind::kFunction:
      return plain(out, value.function().repr);
    case Kind::kLoop:
      return plain(
          out, fmt::format("<LoopContext {}/{}>", value.loop().index0 + 1, value.loop().length()));
    case Kind::kCycler:
      return plain(out, "<jinja2.utils.Cycler object>");
    case Kind::kSelf:
      return plain(out, "<TemplateReference None>");
  }
}

size_t hash_text(std::string_view text) { return std::hash<std::string_view>()(text); }

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = b.find(key);
    if (!other || !equal(value, *other)) return false;
  }
  return true;
}

bool equal_ranges(const Range& a, const Range& b) {
  if (a.size() != b.size()) return false;
  if (a.size() == 0) return true;
  return a.begin == b.begin && (a.size() == 1 || a.step == b.step);
}

}  // namespace

template <typename Equal>
const Value* Dict::lookup(size_t hash, Equal equal) const {
  if (items.size() < kIndexFrom) {
    for (const auto& item : items) {
      if (equal(item.first)) return &item.second;
    }
    return nullptr;
  }
  for (size_t i = index_.size(); i < items.size(); ++i) {
    index_.emplace(jinja::hash(items[i].first), static_cast<uint32_t>(i));
  }
  const auto [first, last] = index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (equal(items[it->second].first)) return &items[it->second].second;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  return lookup(jinja::hash(key), [&](const Value& k) { return equal(k, key); });
}

const Value* Dict::find(std::string_view key) const {
  return lookup(hash_text(key),
                [&](const Value& k) { return k.is_string() && k.string().bytes() == key; });
}

void Dict::set(Value key, Value value) {
  if (const Value* old = find(key)) {
    *const_cast<Value*>(old) = std::move(value);
  } else {
    items.emplace_back(std::move(key), std::move(value));
  }
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  if (const Value* old = find(name)) {
    *const_cast<Value*>(old) = std::move(value);
  } else {
    attributes.emplace_back(name, std::move(value));
  }
}

std::string Undefined::message() const {
  if (!hint.empty()) return hint;
  const MarkedText shown = to_repr(name);
  if (owner.empty()) return fmt::format("{} is undefined", shown.text());
  const bool none = owner == "NoneType";
  const std::string object = none ? "None" : fmt::format("{} object", owner);
  if (!name.is_string()) return fmt::format("{} has no element {}", object, shown.text());
  return fmt::format("'{}' has no attribute {}", object, shown.text());
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kString:
      return value.string().safe ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kDictView:
      switch (value.dict_view().part) {
        case DictView::Part::kKeys:
          return "dict_keys";
        case DictView::Part::kValues:
          return "dict_values";
        case DictView::Part::kItems:
          return "dict_items";
      }
      return "dict_items";
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return value.iterator().type;
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kFunction:
      return value.function().type;
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kSelf:
      return "TemplateReference";
  }
  return "object";
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
    case Kind::kUndefined:
      return false;
    case Kind::kBool:
      return value.boolean();
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.real() != 0;
    case Kind::kString:
      return value.string().length != 0;
    case Kind::kList:
    case Kind::kTuple:
      return !value.list().items.empty();
    case Kind::kDict:
      return !value.dict().items.empty();
    case Kind::kDictView:
      return !value.dict_view().dict.dict().items.empty();
    case Kind::kRange:
      return value.range().size() != 0;
    case Kind::kLoop:
      return value.loop().length() != 0;
    default:
      return true;
  }
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
    return a.real() == b.real();
  }
  if (a.kind() != b.kind()) return false;
  if (a.is_object() && a.object() == b.object()) return true;
  switch (a.kind()) {
    case Kind::kNone:
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      return a.string().bytes() == b.string().bytes();
    case Kind::kList:
    case Kind::kTuple:
      return equal_items(a.list().items, b.list().items);
    case Kind::kDict:
      return equal_dicts(a.dict(), b.dict());
    case Kind::kRange:
      return equal_ranges(a.range(), b.range());
    case Kind::kDictView: {
      const DictView& x = a.dict_view();
      const DictView& y = b.dict_view();
      if (x.part != y.part || x.part == DictView::Part::kValues) return false;
      if (x.part == DictView::Part::kItems) return equal_dicts(x.dict.dict(), y.dict.dict());
      if (x.dict.dict().items.size() != y.dict.dict().items.size()) return false;
      for (const auto& [key, value] : x.dict.dict().items) {
        if (!y.dict.dict().find(key)) return false;
      }
      return true;
    }
    default:
      return false;
  }
}

bool hashable(const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kDict:
    case Kind::kDictView:
      return false;
    case Kind::kTuple:
      for (const Value& item : value.list().items) {
        if (!hashable(item)) return false;
      }
      return true;
    default:
      return true;
  }
}

size_t hash(const Value& value) {
  switch (value.kind()) {
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return std::hash<double>()(value.real());
    case Kind::kString:
      return hash_text(value.string().bytes());
    case Kind::kTuple: {
      size_t h = 1;
      for (const Value& item : value.list().items) h = h * 1000003 ^ hash(item);
      return h;
    }
    default:
      return static_cast<size_t>(value.kind());
  }
}

uint64_t weight_of(const Value& value) {
  constexpr uint64_t kPerValue = 16;
  switch (value.kind()) {
    case Kind::kString:
      return kPerValue + value.string().text.size();
    case Kind::kList:
    case Kind::kTuple:
      return kPerValue + value.list().weight;
    case Kind::kDict:
      return kPerValue + value.dict().weight;
    case Kind::kDictView:
      return kPerValue + value.dict_view().dict.dict().weight;
    default:
      return kPerValue;
  }
}

int depth_of(const Value& value) { return value.is_object() ? value.object()->depth : 0; }

std::string int_to_text(Int value) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  auto magnitude = static_cast<unsigned __int128>(value);
  if (negative) magnitude = 0 - magnitude;
  std::string out;
  for (; magnitude != 0; magnitude /= 10) {
    out += static_cast<char>('0' + static_cast<int>(magnitude % 10));
  }
  if (negative) out += '-';
  return {out.rbegin(), out.rend()};
}

std::string float_to_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return real_to_text(value);
}

MarkedText to_text(const Value& value) {
  if (value.is_string()) return value.string().text;
  MarkedText out;
  append_value(out, value, false, nullptr);
  return out;
}

MarkedText to_repr(const Value& value) {
  MarkedText out;
  append_value(out, value, true, nullptr);
  return out;
}

namespace {

// \x…, \u… or \U….
std::string escape_of(uint32_t c) {
  char escape[16];
  std::snprintf(escape, sizeof escape,
                c < 0x100     ? "\\x%02x"
                : c < 0x10000 ? "\\u%04x"
                              : "\\U%08x",
                c);
  return escape;
}

}  // namespace

MarkedText to_ascii(const Value& value) {
  MarkedText out;
  for_each_code_point(to_repr(value), [&](uint32_t c, std::string_view raw, Origin origin) {
    c < 0x80 ? out.append(raw, origin) : out.append(escape_of(c), origin);
  });
  return out;
}

void append_repr(MarkedText& out, const MarkedText& text) {
  const std::string& bytes = text.text();
  const bool doubled =
      bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos;
  const char mark = doubled ? '"' : '\'';
  plain(out, std::string_view(&mark, 1));
  for_each_code_point(text, [&](uint32_t c, std::string_view raw, Origin origin) {
    if (c == static_cast<uint32_t>(mark) || c == '\\') {
      out.append("\\", origin);
      out.append(raw, origin);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out.append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", origin);
    } else if (is_printable(c)) {
      out.append(raw, origin);
    } else {
      out.append(escape_of(c), origin);
    }
  });
  plain(out, std::string_view(&mark, 1));
}

}  // namespace flare::frontend::jinja
