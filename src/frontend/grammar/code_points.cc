// Algebra on ranges; general categories come from the tokenizer's Unicode tables.
#include "frontend/grammar/code_points.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::grammar {

const CodePointSet& any_code_point() {
  static const CodePointSet any = {{0, 0xD7FF}, {0xE000, kMaxCodePoint}};
  return any;
}

CodePointSet normalised(CodePointSet set) {
  std::sort(set.begin(), set.end(), [](const auto& x, const auto& y) { return x.lo < y.lo; });
  CodePointSet out;
  for (const CodePointInterval& i : set) {
    if (!out.empty() && i.lo <= out.back().hi + 1)
      out.back().hi = std::max(out.back().hi, i.hi);
    else
      out.push_back(i);
  }
  return out;
}

CodePointSet union_of(const CodePointSet& a, const CodePointSet& b) {
  CodePointSet all = a;
  all.insert(all.end(), b.begin(), b.end());
  return normalised(std::move(all));
}

CodePointSet intersection(const CodePointSet& a, const CodePointSet& b) {
  CodePointSet out;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const CodePoint lo = std::max(a[i].lo, b[j].lo);
    const CodePoint hi = std::min(a[i].hi, b[j].hi);
    if (lo <= hi) out.push_back({lo, hi});
    (a[i].hi < b[j].hi ? i : j)++;
  }
  return out;
}

CodePointSet complement(const CodePointSet& set) {
  CodePointSet gaps;
  CodePoint next = 0;
  for (const CodePointInterval& i : set) {
    if (i.lo > next) gaps.push_back({next, i.lo - 1});
    next = i.hi + 1;
  }
  if (next <= kMaxCodePoint) gaps.push_back({next, kMaxCodePoint});
  return intersection(gaps, any_code_point());
}

bool contains(const CodePointSet& set, CodePoint c) {
  const auto after = std::upper_bound(set.begin(), set.end(), c,
                                      [](CodePoint v, const auto& i) { return v < i.lo; });
  return after != set.begin() && c <= std::prev(after)->hi;
}

bool includes(const CodePointSet& set, const CodePointSet& part) {
  return intersection(set, part) == part;
}

CodePointSet digits() { return {{'0', '9'}}; }
CodePointSet word_characters() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
CodePointSet space_characters() {
  return {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}
CodePointSet not_line_terminators() {
  return complement({{0x0A, 0x0A}, {0x0D, 0x0D}, {0x2028, 0x2029}});
}

namespace {

// Short name and its long spellings (PropertyValueAliases.txt).
constexpr std::array<std::array<std::string_view, 2>, 37> kCategories = {{
    {"L", "Letter"},
    {"Lu", "Uppercase_Letter"},
    {"Ll", "Lowercase_Letter"},
    {"Lt", "Titlecase_Letter"},
    {"LC", "Cased_Letter"},
    {"Lm", "Modifier_Letter"},
    {"Lo", "Other_Letter"},
    {"M", "Mark"},
    {"Mn", "Nonspacing_Mark"},
    {"Mc", "Spacing_Mark"},
    {"Me", "Enclosing_Mark"},
    {"N", "Number"},
    {"Nd", "Decimal_Number"},
    {"Nl", "Letter_Number"},
    {"No", "Other_Number"},
    {"P", "Punctuation"},
    {"Pc", "Connector_Punctuation"},
    {"Pd", "Dash_Punctuation"},
    {"Ps", "Open_Punctuation"},
    {"Pe", "Close_Punctuation"},
    {"Pi", "Initial_Punctuation"},
    {"Pf", "Final_Punctuation"},
    {"Po", "Other_Punctuation"},
    {"S", "Symbol"},
    {"Sm", "Math_Symbol"},
    {"Sc", "Currency_Symbol"},
    {"Sk", "Modifier_Symbol"},
    {"So", "Other_Symbol"},
    {"Z", "Separator"},
    {"Zs", "Space_Separator"},
    {"Zl", "Line_Separator"},
    {"Zp", "Paragraph_Separator"},
    {"C", "Other"},
    {"Cc", "Control"},
    {"Cf", "Format"},
    {"Co", "Private_Use"},
    {"Cn", "Unassigned"},
}};

CodePointSet of_category(std::string_view wanted) {
  CodePointSet out;
  for (const CodePointInterval& part : any_code_point()) {
    for (CodePoint c = part.lo; c <= part.hi; ++c) {
      const tokenizer::Category category = tokenizer::category_of(c);
      const char major = static_cast<char>(category >> 8), minor = static_cast<char>(category);
      const bool in = wanted == "LC"
                          ? major == 'L' && (minor == 'u' || minor == 'l' || minor == 't')
                          : wanted[0] == major && (wanted.size() == 1 || wanted[1] == minor);
      if (!in) continue;
      if (!out.empty() && out.back().hi + 1 == c)
        out.back().hi = c;
      else
        out.push_back({c, c});
    }
  }
  return out;
}

// Scanning all code points takes milliseconds: done once per category.
CodePointSet cached_category(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, CodePointSet, std::less<>> sets;
  const std::lock_guard lock(mutex);
  const auto found = sets.find(name);
  if (found != sets.end()) return found->second;
  return sets.emplace(std::string(name), of_category(name)).first->second;
}

}  // namespace

std::optional<CodePointSet> property(std::string_view name) {
  if (name == "Any") return any_code_point();
  if (name == "ASCII") return CodePointSet{{0, 0x7F}};
  if (name == "White_Space" || name == "space") {
    CodePointSet out;
    for (const auto& range : tokenizer::white_space()) out.push_back({range.first, range.last});
    return out;
  }
  if (name == "Alphabetic" || name == "Alpha")
    return union_of(cached_category("L"), cached_category("Nl"));
  if (name == "Lowercase" || name == "Lower") return cached_category("Ll");
  if (name == "Uppercase" || name == "Upper") return cached_category("Lu");
  for (const std::string_view prefix : {"General_Category=", "gc="})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  if (name == "digit") name = "Nd";
  if (name == "punct") name = "P";
  for (const auto& [brief, full] : kCategories)
    if (name == brief || name == full) return cached_category(brief);
  return std::nullopt;
}

std::u32string decode_utf8(std::string_view text) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    const tokenizer::Utf8Part part = tokenizer::utf8_part(text, at);
    out += part.kind == tokenizer::Utf8Part::kCharacter ? tokenizer::decode_at(text, at).code_point
                                                        : U'\uFFFD';
    at += std::max<uint32_t>(part.bytes, 1);
  }
  return out;
}

void append_utf8(std::string& out, CodePoint c) {
  tokenizer::append_utf8(out, static_cast<char32_t>(c));
}

}  // namespace flare::frontend::grammar
