// Normalizers: what happens to text before it is cut into pieces.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

struct Normalizer;
struct NormalizerSequence {
  std::vector<Normalizer> steps;
};

// Immutable; apply may run on any thread with its own scratch.
struct Normalizer {
  std::variant<NormalizerSequence, UnicodeForm, Prepend, Replace, Lowercase, StripSpace> kind;

  static Normalizer from_json(const Component& component);
  void apply(NormalizedText& text, MatchScratch& scratch) const;
};

}  // namespace flare::frontend::tokenizer
