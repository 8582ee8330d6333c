// Normalizers: what happens to text before it is cut into pieces.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "frontend/tokenizer/charsmap.h"
#include "frontend/tokenizer/component.h"
#include "frontend/tokenizer/pattern.h"

namespace flare::frontend::tokenizer {

// Text on its way through the normalizers.
struct NormalizedText {
  std::string text;
  // One byte for each byte of text, 1 if the caller wrote any of what it came from. Empty when
  // nobody asks.
  std::string caller;
  bool front_kept = true;  // nothing was deleted in front of the first character
};

struct UnicodeForm {
  bool compose, compatibility;  // NFC, NFD, NFKC, NFKD
};
struct Prepend {
  std::string text;
};
struct Replace {
  Pattern pattern;
  std::string content;
};
struct Lowercase {};
struct StripSpace {
  bool left, right;
};

struct StripAccents {};
// White space and what is none in machine translation.
struct Nmt {};
struct Bert {
  bool clean_text, handle_chinese_chars, strip_accents, lowercase;
};
// Bytes as the printable characters of GPT-2's table.
struct ByteCharacters {};
// SentencePiece's rules, applied to grapheme clusters and single characters.
struct Precompiled {
  Charsmap rules;
};

struct Normalizer;
struct NormalizerSequence {
  std::vector<Normalizer> steps;
};

// No text may grow beyond this: offsets have 32 bits.
inline constexpr size_t kMaxTextBytes = size_t{1} << 30;

// Immutable; apply may run on any thread with its own scratch.
struct Normalizer {
  std::variant<NormalizerSequence, UnicodeForm, Prepend, Replace, Lowercase, StripSpace,
               StripAccents, Nmt, Bert, ByteCharacters, Precompiled>
      kind;

  static Normalizer from_json(const Component& component);
  void apply(NormalizedText& text, MatchScratch& scratch) const;
};

}  // namespace flare::frontend::tokenizer
