// Filters that break text into lines: wordwrap (Python's textwrap) and pprint (Python's pprint).
#include <algorithm>

#include "frontend/template/evaluator.h"
#include "frontend/template/filters.h"
#include "frontend/template/operations.h"
#include "frontend/template/text.h"

namespace flare::frontend::jinja {
namespace {

// ---- wordwrap ----

// One line as code points, with where each begins.
struct Line {
  std::vector<uint32_t> code;
  std::vector<size_t> offset;

  explicit Line(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      offset.push_back(at);
      code.push_back(decode(text, at));
    }
    offset.push_back(text.size());
  }
  size_t size() const { return code.size(); }
};

bool is_wrap_space(uint32_t c) { return c == ' ' || (c >= 9 && c <= 13); }
bool is_letter(uint32_t c) { return is_word(c) && !is_decimal(c); }
bool is_word_mark(uint32_t c) {
  return is_word(c) || (c < 0x80 && std::string_view("!\"'&.,?").find(static_cast<char>(c)) !=
                                        std::string_view::npos);
}

// Cuts a line where it may be broken, as the regular expressions of textwrap do.
class Splitter {
 public:
  Splitter(const Line& line, bool on_hyphens) : line_(line), on_hyphens_(on_hyphens) {
    dashes_.resize(line.size() + 1);
    for (size_t i = line.size(); i-- > 0;) {
      dashes_[i] = line.code[i] == '-' ? dashes_[i + 1] + 1 : 0;
    }
  }

  // The end of the chunk that begins at `begin`.
  size_t end_of(size_t begin) const {
    const size_t n = line_.size();
    size_t at = begin;
    if (is_wrap_space(code(at))) {
      while (at < n && is_wrap_space(code(at))) ++at;
      return at;
    }
    if (!on_hyphens_) {
      while (at < n && !is_wrap_space(code(at))) ++at;
      return at;
    }
    if (begin > 0 && is_word_mark(code(begin - 1)) && is_long_dash(begin)) {
      return begin + dashes_[begin];
    }
    for (at = begin + 1;; ++at) {
      if (at < n && code(at) == '-' && is_hyphen(at)) return at + 1;
      if (at == n || is_wrap_space(code(at))) return at;
      if (is_word_mark(code(at - 1)) && is_long_dash(at)) return at;
    }
  }

 private:
  uint32_t code(size_t i) const { return line_.code[i]; }
  bool letter(size_t i) const { return i < line_.size() && is_letter(code(i)); }
  // Two or more dashes and a word behind them.
  bool is_long_dash(size_t at) const {
    const size_t end = at + dashes_[at];
    return dashes_[at] >= 2 && end < line_.size() && is_word(code(end));
  }
  // A hyphen at which a word may be broken.
  bool is_hyphen(size_t at) const {
    const bool two = at >= 2 && letter(at - 2) && letter(at - 1);
    const bool part =
        at >= 3 && letter(at - 3) && code(at - 2) == '-' && is_word_mark(code(at - 1));
    if (!two && !part) return false;
    if (!letter(at + 1)) return false;
    return letter(at + 2) || (at + 2 < line_.size() && code(at + 2) == '-' && letter(at + 3));
  }

  const Line& line_;
  bool on_hyphens_;
  std::vector<size_t> dashes_;  // number of dashes from here on
};

struct WrapStyle {
  Int width = 79;
  bool break_words = true;
  bool on_hyphens = true;
};

// Ranges of code points that make up the lines.
class Wrapper {
 public:
  Wrapper(const Line& line, const WrapStyle& style) : line_(line), style_(style) {
    const Splitter splitter(line, style.on_hyphens);
    for (size_t at = 0; at < line.size();) {
      const size_t end = splitter.end_of(at);
      chunks_.push_back({at, end});
      at = end;
    }
    std::reverse(chunks_.begin(), chunks_.end());
  }

  std::vector<std::pair<size_t, size_t>> run() {
    std::vector<std::pair<size_t, size_t>> lines;
    while (!chunks_.empty()) {
      if (!lines.empty() && is_blank(chunks_.back())) chunks_.pop_back();
      std::vector<Chunk> current;
      Int length = 0;
      while (!chunks_.empty() && length + size(chunks_.back()) <= style_.width) {
        length += size(chunks_.back());
        current.push_back(chunks_.back());
        chunks_.pop_back();
      }
      if (!chunks_.empty() && size(chunks_.back()) > style_.width) take_part(current, length);
      if (!current.empty() && is_blank(current.back())) current.pop_back();
      if (!current.empty()) lines.emplace_back(current.front().first, current.back().second);
    }
    return lines;
  }

 private:
  using Chunk = std::pair<size_t, size_t>;
  static Int size(const Chunk& chunk) { return static_cast<Int>(chunk.second - chunk.first); }
  bool is_blank(const Chunk& chunk) const {
    return std::all_of(line_.code.begin() + static_cast<ptrdiff_t>(chunk.first),
                       line_.code.begin() + static_cast<ptrdiff_t>(chunk.second), is_space);
  }

  // A word that no line holds.
  void take_part(std::vector<Chunk>& current, Int length) {
    Chunk& chunk = chunks_.back();
    if (style_.break_words) {
      const auto room = static_cast<size_t>(style_.width - length);
      size_t end = chunk.first + room;
      if (style_.on_hyphens && static_cast<size_t>(size(chunk)) > room) {
        size_t hyphen = end;
        while (hyphen > chunk.first && line_.code[hyphen - 1] != '-') --hyphen;
        const auto is_other = [](uint32_t c) { return c != '-'; };
        if (hyphen > chunk.first + 1 &&
            std::any_of(line_.code.begin() + static_cast<ptrdiff_t>(chunk.first),
                        line_.code.begin() + static_cast<ptrdiff_t>(hyphen - 1), is_other)) {
          end = hyphen;
        }
      }
      current.emplace_back(chunk.first, end);
      chunk.first = end;
    } else if (current.empty()) {
      current.push_back(chunk);
      chunks_.pop_back();
    }
  }

  const Line& line_;
  const WrapStyle& style_;
  std::vector<Chunk> chunks_;  // the next one last
};

Value word_wrap_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "wordwrap", arguments,
                     {"s", "width", "break_long_words", "wrapstring", "break_on_hyphens"}, 1);
  const MarkedText& text = p.text(0);
  WrapStyle style;
  style.width = std::min<Int>(p.integer(1, 79), Int{1} << 40);
  style.break_words = p.flag(2, true);
  style.on_hyphens = p.flag(4, true);
  const bool given = p.has(3) && !p[3].is_none();
  const MarkedText end = given ? p.text(3) : MarkedText("\n", Origin::kTemplate);
  const bool safe = given && is_safe(p[3]);
  MarkedText out;
  bool first = true;
  const auto add = [&](const MarkedText& line) {
    if (!first) out.append(end);
    first = false;
    out.append(safe ? escape_html(line) : line);
    ev.check_size(out.size());
  };
  for (const MarkedText& paragraph : split_lines(text, false)) {
    if (style.width <= 0) ev.fail("invalid width {} (must be > 0)", int_to_text(style.width));
    ev.work(paragraph.size() * 32 + 64);
    const Line line(paragraph.text());
    const auto lines = Wrapper(line, style).run();
    if (lines.empty()) add(MarkedText());
    for (const auto& [begin, stop] : lines) {
      add(paragraph.slice(line.offset[begin], line.offset[stop]));
    }
  }
  return ev.make_string(std::move(out), safe);
}

// ---- pprint ----

class PrettyPrinter {
 public:
  explicit PrettyPrinter(Evaluator& ev) : ev_(ev) {}

  MarkedText run(const Value& value) {
    format(value, 0, 0, 1);
    return std::move(out_);
  }

 private:
  static constexpr Int kWidth = 80;

  void plain(std::string_view text) { out_.append(text, Origin::kTemplate); }
  static Int length(const MarkedText& text) {
    return static_cast<Int>(count_code_points(text.text()));
  }
  void new_line(std::string_view before, Int indent) {
    plain(before);
    plain("\n");
    plain(std::string(static_cast<size_t>(indent), ' '));
    ev_.check_size(out_.size());
  }

  static bool is_plain_list(const Value& value) {
    return value.is_sequence() && !value.list().is_group;
  }

  using Members = std::vector<std::pair<Value, Value>>;

  // Python's order of keys of any types: by value where they compare, else by type.
  Members sorted(const Dict& dict) {
    Members out = dict.items;
    std::stable_sort(out.begin(), out.end(), [&](const auto& a, const auto& b) {
      ev_.work(64);
      const Value &x = a.first, &y = b.first;
      const bool ordered = (x.is_number() && y.is_number()) || (x.is_string() && y.is_string());
      if (ordered) return less(ev_, x, y);
      return type_name(x) < type_name(y);
    });
    return out;
  }

  // repr with sorted mappings.
  void repr(MarkedText& out, const Value& value) {
    const auto put = [&](std::string_view text) { out.append(text, Origin::kTemplate); };
    if (value.is(Kind::kDict)) {
      put("{");
      bool first = true;
      for (const auto& [key, member] : sorted(value.dict())) {
        if (!std::exchange(first, false)) put(", ");
        repr(out, key);
        put(": ");
        repr(out, member);
      }
      return put("}");
    }
    if (!is_plain_list(value)) return out.append(to_repr(value));
    const bool tuple = value.is(Kind::kTuple);
    put(tuple ? "(" : "[");
    bool first = true;
    for (const Value& item : value.list().items) {
      if (!std::exchange(first, false)) put(", ");
      repr(out, item);
    }
    put(!tuple ? "]" : value.list().items.size() == 1 ? ",)" : ")");
  }

  MarkedText repr_of(const Value& value) {
    MarkedText out;
    repr(out, value);
    ev_.work(out.size());
    ev_.check_size(out.size());
    return out;
  }

  void format(const Value& value, Int indent, Int allowance, int level) {
    ev_.step();
    const MarkedText whole = repr_of(value);
    if (length(whole) <= kWidth - indent - allowance) return out_.append(whole);
    if (value.is(Kind::kDict)) return dict(value.dict(), indent, allowance + 1, level + 1);
    if (is_plain_list(value)) return list(value, indent, allowance, level + 1);
    if (value.is_string() && !is_safe(value)) {
      return string(value.string().text, indent, allowance, level, whole);
    }
    out_.append(whole);
  }

  void dict(const Dict& dict, Int indent, Int allowance, int level) {
    plain("{");
    const Members members = sorted(dict);
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) new_line(",", indent + 1);
      const MarkedText key = repr_of(members[i].first);
      out_.append(key);
      plain(": ");
      const bool last = i + 1 == members.size();
      format(members[i].second, indent + 1 + length(key) + 2, last ? allowance : 1, level);
    }
    plain("}");
  }

  void list(const Value& value, Int indent, Int allowance, int level) {
    const std::vector<Value>& items = value.list().items;
    const bool tuple = value.is(Kind::kTuple);
    const std::string_view end = !tuple ? "]" : items.size() == 1 ? ",)" : ")";
    plain(tuple ? "(" : "[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) new_line(",", indent + 1);
      const bool last = i + 1 == items.size();
      format(items[i], indent + 1, last ? allowance + static_cast<Int>(end.size()) : 1, level);
    }
    plain(end);
  }

  static MarkedText text_repr(const MarkedText& text) {
    MarkedText out;
    append_repr(out, text);
    return out;
  }

  // A long line in pieces that fit, each broken behind white space.
  void pieces(const MarkedText& line, bool last, Int width, Int allowance,
              std::vector<MarkedText>& out) {
    const std::string_view bytes = line.text();
    size_t begin = 0, end = 0;
    const auto skip = [&](bool space) {
      while (end < bytes.size()) {
        size_t next = end;
        if (is_space(decode(bytes, next)) != space) break;
        end = next;
      }
    };
    while (end < bytes.size()) {
      const size_t part = end;
      skip(false);
      skip(true);
      if (last && end == bytes.size()) width -= allowance;
      ev_.work(end - begin);
      if (length(text_repr(line.slice(begin, end))) <= width) continue;
      if (part > begin) out.push_back(text_repr(line.slice(begin, part)));
      begin = part;
    }
    if (begin < bytes.size()) out.push_back(text_repr(line.slice(begin, bytes.size())));
  }

  void string(const MarkedText& text, Int indent, Int allowance, int level,
              const MarkedText& whole) {
    // The outermost value gets brackets around its pieces.
    if (level == 1) ++indent, ++allowance;
    const Int width = kWidth - indent;
    std::vector<MarkedText> out;
    const std::vector<MarkedText> lines = split_lines(text, true);
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool last = i + 1 == lines.size();
      MarkedText line = text_repr(lines[i]);
      if (length(line) <= (last ? width - allowance : width)) {
        out.push_back(std::move(line));
      } else {
        pieces(lines[i], last, width, allowance, out);
      }
    }
    if (out.size() <= 1) return out_.append(whole);
    if (level == 1) plain("(");
    for (size_t i = 0; i < out.size(); ++i) {
      if (i > 0) new_line("", indent);
      out_.append(out[i]);
    }
    if (level == 1) plain(")");
  }

  Evaluator& ev_;
  MarkedText out_;
};

Value pretty_print_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "pprint", arguments, {"value"}, 1);
  return ev.make_string(PrettyPrinter(ev).run(p[0]));
}

constexpr FilterEntry kFilters[] = {
    {"wordwrap", word_wrap_filter},
    {"pprint", pretty_print_filter},
};

}  // namespace

std::span<const FilterEntry> wrap_filters() { return kFilters; }

}  // namespace flare::frontend::jinja
