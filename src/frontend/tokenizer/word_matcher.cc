// Expressions of families as rules over character classes; alternatives are tried in their order.
#include "frontend/tokenizer/word_matcher.h"

#include <array>
#include <cstdint>
#include <memory>

#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

namespace {

// Classes of a code point in the reference's regular expressions (Unicode 16).
using Bits = uint16_t;
enum : Bits {
  kUpper = 1,    // \p{Lu}\p{Lt}
  kLower = 2,    // \p{Ll}
  kLetter = 4,   // \p{Lm}\p{Lo}
  kMark = 8,     // \p{M}
  kNumber = 16,  // \p{N}
  kSpace = 32,   // \s
  kBreak = 64,   // \r and \n
  kPunctuation = 128,
  kSymbol = 256,
  kBlank = 512,  // the space itself
  kSlash = 1024,
  kEnd = 2048,  // behind the text
};
constexpr Bits kAnyLetter = kUpper | kLower | kLetter;
// Of the case rules: what may begin a word, and what may end one.
constexpr Bits kHead = kUpper | kLetter | kMark, kTail = kLower | kLetter | kMark;

Bits bits_of_property(std::string_view name) {
  if (name == "Lu" || name == "Lt") return kUpper;
  if (name == "Ll") return kLower;
  if (name == "Lm" || name == "Lo") return kLetter;
  switch (name[0]) {
    case 'M':
      return kMark;
    case 'N':
      return kNumber;
    case 'P':
      return kPunctuation;
    case 'S':
      return kSymbol;
    default:
      return 0;
  }
}

// The pinned additions come first: the library may know such a code point as something else.
Bits compute_bits(char32_t c) {
  Bits out = 0;
  for (const PropertyAddition& addition : property_additions())
    if (addition.name != "Han" && addition.name != "L" && contains(addition.ranges, c))
      out |= bits_of_property(addition.name);
  if (out == 0) {
    const Category category = category_of(c);
    const char name[2] = {static_cast<char>(category >> 8), static_cast<char>(category & 0xFF)};
    out = bits_of_property({name, 2});
  }
  if (is_white_space(c)) out |= kSpace;
  if (c == '\r' || c == '\n') out |= kBreak;
  if (c == ' ') out |= kBlank;
  if (c == '/') out |= kSlash;
  return out;
}

// Classes of the plane that nearly all text is in.
class BasicPlane {
 public:
  BasicPlane() : bits_(std::make_unique<Bits[]>(kSize)) {
    // The same as compute_bits() everywhere, without searching the additions each time.
    for (char32_t c = 0; c < kSize; ++c) {
      const Category category = category_of(c);
      const char name[2] = {static_cast<char>(category >> 8), static_cast<char>(category & 0xFF)};
      bits_[c] = bits_of_property({name, 2});
    }
    for (const PropertyAddition& addition : property_additions())
      for (const CodePointRange& range : addition.ranges)
        for (char32_t c = range.first; c <= range.last && c < kSize; ++c)
          bits_[c] = compute_bits(c);
    for (const CodePointRange& range : white_space())
      for (char32_t c = range.first; c <= range.last && c < kSize; ++c) bits_[c] = compute_bits(c);
    bits_['/'] = compute_bits('/');
  }
  Bits operator[](char32_t c) const { return bits_[c]; }

  static constexpr char32_t kSize = 0x10000;

 private:
  std::unique_ptr<Bits[]> bits_;
};

const BasicPlane& basic_plane() {
  static const BasicPlane plane;
  return plane;
}

// Reads characters of one text with their classes.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text), plane_(basic_plane()) {}

  struct Character {
    Bits bits;
    uint32_t bytes;  // 0 behind the text
    bool is(Bits set) const { return (bits & set) != 0; }
  };
  Character operator[](size_t at) const {
    if (at >= text_.size()) return {kEnd, 0};
    const Decoded d = decode_at(text_, at);
    return {d.code_point < BasicPlane::kSize ? plane_[d.code_point] : compute_bits(d.code_point),
            d.bytes};
  }
  // End of the run of characters with some class of `set`.
  size_t run(size_t at, Bits set) const {
    for (Character c = (*this)[at]; c.is(set); c = (*this)[at]) at += c.bytes;
    return at;
  }
  // End of the run of characters without any class of `set`.
  size_t run_without(size_t at, Bits set) const {
    set |= kEnd;
    for (Character c = (*this)[at]; !c.is(set); c = (*this)[at]) at += c.bytes;
    return at;
  }
  char byte(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
  const BasicPlane& plane_;
};

// 's|'t|'re|'ve|'m|'ll|'d, in small letters or in any.
size_t contraction(const Reader& text, size_t at, bool any_case) {
  if (text.byte(at) != '\'') return at;
  const auto letter = [&](size_t i) {
    const char c = text.byte(i);
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char first = letter(at + 1), second = letter(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
  if (first == 'l' && second == 'l') return at + 3;
  // U+017F is a form of s.
  if (any_case && first == '\xC5' && text.byte(at + 2) == '\xBF') return at + 3;
  return at;
}

struct Rules {
  enum { kNoContraction, kSmallContraction, kAnyContraction } contractions;
  enum {
    kBlankWords,   //  ?\p{L}+
    kWords,        // [^\r\n\p{L}\p{N}]?\p{L}+
    kMarkedWords,  // [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+
    kCasedWords,   // one word for each capital, perhaps with a contraction
    kCasedPlain,   // the same without
    kAsciiWords,   // punctuation in front of ASCII letters; [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
  } words;
  enum { kNoDigits, kOneDigit, kThreeDigits, kBlankDigits } digits;
  Bits no_symbol;   // symbols are ` ?[^…]+`; 0: ` ?[\p{P}\p{S}]+`
  Bits tail;        // taken along behind symbols
  bool break_runs;  // \s*[\r\n]+
};

// [^\r\n\p{L}\p{N}]?HEAD*TAIL+ or else [^\r\n\p{L}\p{N}]?HEAD+TAIL*
size_t cased_word(const Reader& text, size_t at) {
  const Reader::Character first = text[at];
  const bool may_lead = !first.is(kBreak | kAnyLetter | kNumber | kEnd);
  // TAIL+ gets the last letter that can end a word, wherever HEAD* has to stop for it.
  const auto ending = [&](size_t from) {
    size_t last = from, i = from;
    for (Reader::Character c = text[i]; c.is(kHead); c = text[i]) {
      i += c.bytes;
      if (c.is(kTail)) last = i;
    }
    return text[i].is(kLower) ? text.run(i, kTail) : last;
  };
  const auto beginning = [&](size_t from) {
    const size_t i = text.run(from, kHead);
    return i == from ? from : text.run(i, kTail);
  };
  const size_t behind = at + first.bytes;
  if (may_lead)
    if (const size_t end = ending(behind); end > behind) return end;
  if (const size_t end = ending(at); end > at) return end;
  if (may_lead)
    if (const size_t end = beginning(behind); end > behind) return end;
  return beginning(at);
}

// One character that may lead, if not of `not_leading`, and letters behind it, or letters alone.
size_t led_word(const Reader& text, size_t at, Bits letters, Bits not_leading) {
  const Reader::Character first = text[at];
  if (first.is(letters)) return text.run(at, letters);
  if (first.is(not_leading | kEnd)) return at;
  const size_t behind = at + first.bytes, end = text.run(behind, letters);
  return end > behind ? end : at;
}

bool is_ascii_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+
size_t ascii_word(const Reader& text, size_t at) {
  const char c = text.byte(at);
  if (c < '!' || c > '~' || is_ascii_letter(c) || (c >= '0' && c <= '9')) return at;
  size_t end = at + 1;
  while (is_ascii_letter(text.byte(end))) ++end;
  return end > at + 1 ? end : at;
}

template <Rules kRules>
size_t word(const Reader& text, size_t at) {
  switch (kRules.words) {
    case Rules::kBlankWords: {
      const size_t from = text.byte(at) == ' ' ? at + 1 : at;
      const size_t end = text.run(from, kAnyLetter);
      return end > from ? end : at;
    }
    case Rules::kWords:
      return led_word(text, at, kAnyLetter, kBreak | kAnyLetter | kNumber);
    case Rules::kMarkedWords:
      return led_word(text, at, kAnyLetter | kMark, kBreak | kAnyLetter | kNumber);
    case Rules::kCasedPlain:
      return cased_word(text, at);
    case Rules::kCasedWords: {
      const size_t end = cased_word(text, at);
      return end > at ? contraction(text, end, true) : at;
    }
    case Rules::kAsciiWords: {
      const size_t end = ascii_word(text, at);
      if (end > at) return end;
      return led_word(text, at, kAnyLetter | kMark, kBreak | kAnyLetter | kPunctuation | kSymbol);
    }
  }
  return at;
}

template <Rules kRules>
size_t digits(const Reader& text, size_t at) {
  if constexpr (kRules.digits == Rules::kNoDigits) return at;
  if constexpr (kRules.digits == Rules::kBlankDigits) {
    const size_t from = text.byte(at) == ' ' ? at + 1 : at;
    const size_t end = text.run(from, kNumber);
    return end > from ? end : at;
  }
  size_t end = at;
  for (int i = 0; i < (kRules.digits == Rules::kOneDigit ? 1 : 3); ++i) {
    const Reader::Character c = text[end];
    if (!c.is(kNumber)) break;
    end += c.bytes;
  }
  return end;
}

template <Rules kRules>
size_t symbols(const Reader& text, size_t at) {
  const size_t from = text.byte(at) == ' ' ? at + 1 : at;
  const size_t end = kRules.no_symbol != 0 ? text.run_without(from, kRules.no_symbol)
                                           : text.run(from, kPunctuation | kSymbol);
  if (end == from) return at;
  return kRules.tail != 0 ? text.run(end, kRules.tail) : end;
}

// \s*[\r\n]+|\s+(?!\S)|\s+
template <Rules kRules>
size_t spaces(const Reader& text, size_t at) {
  size_t end = at, last = at, behind_break = at;  // `last` begins the last character
  for (Reader::Character c = text[end]; c.is(kSpace); c = text[end]) {
    last = end;
    end += c.bytes;
    if (c.is(kBreak)) behind_break = end;
  }
  if (kRules.break_runs && behind_break > at) return behind_break;
  if (end == text.text().size() || last == at) return end;
  return last;
}

template <Rules kRules>
size_t match(std::string_view in, size_t at) {
  const Reader text(in);
  size_t end = at;
  if constexpr (kRules.contractions != Rules::kNoContraction) {
    end = contraction(text, at, kRules.contractions == Rules::kAnyContraction);
    if (end > at) return end;
  }
  if ((end = word<kRules>(text, at)) > at) return end;
  if ((end = digits<kRules>(text, at)) > at) return end;
  if ((end = symbols<kRules>(text, at)) > at) return end;
  return spaces<kRules>(text, at);
}

// \p{N}{1,3}
size_t three_digits(std::string_view in, size_t at) {
  constexpr Rules kRules{Rules::kNoContraction, Rules::kWords, Rules::kThreeDigits, 0, 0, false};
  return digits<kRules>(Reader(in), at);
}

// Unified ideographs of the first block, Hiragana and Katakana.
size_t ideographs(std::string_view in, size_t at) {
  while (at < in.size()) {
    const Decoded d = decode_at(in, at);
    const bool inside = (d.code_point >= 0x4E00 && d.code_point <= 0x9FA5) ||
                        (d.code_point >= 0x3040 && d.code_point <= 0x30FF);
    if (!inside) break;
    at += d.bytes;
  }
  return at;
}

constexpr Bits kText = kSpace | kAnyLetter | kNumber;
constexpr Rules kBlankLed{
    Rules::kSmallContraction, Rules::kBlankWords, Rules::kBlankDigits, kText, 0, false};
constexpr Rules kSingleDigits{
    Rules::kAnyContraction, Rules::kWords, Rules::kOneDigit, kText, kBreak, true};
constexpr Rules kMarkedLetters{
    Rules::kAnyContraction, Rules::kMarkedWords, Rules::kOneDigit, kText | kMark, kBreak, true};
constexpr Rules kDigitGroups{
    Rules::kAnyContraction, Rules::kWords, Rules::kThreeDigits, kText, kBreak, true};
constexpr Rules kCasedDigitGroups{
    Rules::kNoContraction, Rules::kCasedWords, Rules::kThreeDigits, kText, kBreak | kSlash, true};
constexpr Rules kCasedSingleDigits{
    Rules::kNoContraction, Rules::kCasedPlain, Rules::kOneDigit, kText, kBreak | kSlash, true};
constexpr Rules kAsciiLed{
    Rules::kNoContraction, Rules::kAsciiWords, Rules::kNoDigits, 0, kBreak, true};

struct Row {
  std::string_view expression;
  WordMatcher matcher;
};

#define FLARE_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define FLARE_SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define FLARE_LEAD R"([^\r\n\p{L}\p{N}]?)"
#define FLARE_HEAD R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define FLARE_TAIL R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
constexpr Row kRows[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     match<kBlankLed>},
    {FLARE_CONTRACTIONS "|" FLARE_LEAD R"(\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" FLARE_SPACES,
     match<kSingleDigits>},
    {FLARE_CONTRACTIONS "|" FLARE_LEAD
                        R"([\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" FLARE_SPACES,
     match<kMarkedLetters>},
    {FLARE_CONTRACTIONS "|" FLARE_LEAD
                        R"(\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" FLARE_SPACES,
     match<kDigitGroups>},
    {FLARE_LEAD FLARE_HEAD "*" FLARE_TAIL "+" FLARE_CONTRACTIONS "?|" FLARE_LEAD FLARE_HEAD
                           "+" FLARE_TAIL "*" FLARE_CONTRACTIONS
                           R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" FLARE_SPACES,
     match<kCasedDigitGroups>},
    {FLARE_LEAD FLARE_HEAD "*" FLARE_TAIL "+|" FLARE_LEAD FLARE_HEAD "+" FLARE_TAIL
                           R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" FLARE_SPACES,
     match<kCasedSingleDigits>},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
     "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     match<kAsciiLed>},
    {R"(\p{N}{1,3})", three_digits},
    {"[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+", ideographs},
};
#undef FLARE_CONTRACTIONS
#undef FLARE_SPACES
#undef FLARE_LEAD
#undef FLARE_HEAD
#undef FLARE_TAIL

}  // namespace

WordMatcher find_word_matcher(std::string_view expression) {
  for (const Row& row : kRows) {
    if (row.expression != expression) continue;
    basic_plane();  // made now rather than with the first text
    return row.matcher;
  }
  return nullptr;
}

std::vector<std::string_view> well_known_expressions() {
  std::vector<std::string_view> out;
  for (const Row& row : kRows) out.push_back(row.expression);
  return out;
}

}  // namespace flare::frontend::tokenizer
