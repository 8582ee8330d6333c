// json.dumps over values; quotes, brackets and separators are the template's.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "frontend/template/evaluator.h"
#include "frontend/template/operations.h"
#include "frontend/template/text.h"

namespace flare::frontend::jinja {
namespace {

class Dumper {
 public:
  Dumper(Evaluator& evaluator, const JsonStyle& style) : ev_(evaluator), style_(style) {}

  MarkedText run(const Value& value) {
    dump(value, 0);
    return std::move(out_);
  }

 private:
  void plain(std::string_view text) { out_.append(text, Origin::kTemplate); }

  void newline(int depth) {
    if (!style_.indented) return;
    plain("\n");
    for (int i = 0; i < depth; ++i) out_.append(style_.indent);
    ev_.check_size(out_.size());
  }

  void dump(const Value& value, int depth) {
    switch (value.kind()) {
      case Kind::kString:
        return string(value.string().text);
      case Kind::kList:
      case Kind::kTuple:
        return list(value.list().items, depth);
      case Kind::kDict:
        return dict(value.dict(), depth);
      default:
        break;
    }
    if (!scalar(value)) {
      ev_.fail("Object of type {} is not JSON serializable", type_name(value));
    }
  }

  bool scalar(const Value& value) {
    switch (value.kind()) {
      case Kind::kNone:
        return plain("null"), true;
      case Kind::kBool:
        return plain(value.boolean() ? "true" : "false"), true;
      case Kind::kInt:
        return plain(int_to_text(value.integer())), true;
      case Kind::kFloat: {
        const double v = value.real();
        plain(std::isnan(v)   ? "NaN"
              : std::isinf(v) ? (v > 0 ? "Infinity" : "-Infinity")
                              : float_to_text(v));
        return true;
      }
      default:
        return false;
    }
  }

  void list(const std::vector<Value>& items, int depth) {
    if (items.empty()) return plain("[]");
    plain("[");
    bool first = true;
    for (const Value& item : items) {
      if (!first) out_.append(style_.item_separator);
      first = false;
      newline(depth + 1);
      dump(item, depth + 1);
    }
    newline(depth);
    plain("]");
  }

  void dict(const Dict& dict, int depth) {
    if (dict.items.empty()) return plain("{}");
    std::vector<const std::pair<Value, Value>*> members;
    for (const auto& item : dict.items) members.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(members.begin(), members.end(),
                       [&](const auto* a, const auto* b) { return less(ev_, a->first, b->first); });
    }
    plain("{");
    bool first = true;
    for (const auto* member : members) {
      if (!first) out_.append(style_.item_separator);
      first = false;
      newline(depth + 1);
      key(member->first);
      out_.append(style_.key_separator);
      dump(member->second, depth + 1);
    }
    newline(depth);
    plain("}");
  }

  void key(const Value& value) {
    if (value.is_string()) return string(value.string().text);
    plain("\"");
    if (!scalar(value)) {
      ev_.fail("keys must be str, int, float, bool or None, not {}", type_name(value));
    }
    plain("\"");
  }

  // Escapes have the origin of their character.
  void string(const MarkedText& text) {
    plain("\"");
    for_each_code_point(text, [&](uint32_t c, std::string_view raw, Origin origin) {
      static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b", kTo = "\"\\nrtfb";
      const size_t k = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
      if (k != std::string_view::npos) {
        const char escape[] = {'\\', kTo[k]};
        out_.append(std::string_view(escape, 2), origin);
      } else if (c < 0x20 || (style_.ensure_ascii && c > 0x7e)) {
        unicode_escape(c, origin);
      } else {
        out_.append(raw, origin);
      }
    });
    plain("\"");
    ev_.check_size(out_.size());
  }

  void unicode_escape(uint32_t c, Origin origin) {
    char escape[16];
    if (c < 0x10000) {
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
    } else {
      std::snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                    0xdc00 + ((c - 0x10000) & 0x3ff));
    }
    if (c == 0x7f) return out_.append("\x7f", origin);
    out_.append(escape, origin);
  }

  Evaluator& ev_;
  const JsonStyle& style_;
  MarkedText out_;
};

}  // namespace

MarkedText dump_json(Evaluator& evaluator, const Value& value, const JsonStyle& style) {
  return Dumper(evaluator, style).run(value);
}

}  // namespace flare::frontend::jinja
