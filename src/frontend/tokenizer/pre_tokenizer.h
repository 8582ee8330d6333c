// Pre-tokenizers: they cut normalised text into the pieces that the model sees.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "frontend/tokenizer/component.h"
#include "frontend/tokenizer/pattern.h"

namespace flare::frontend::tokenizer {

struct Piece {
  uint32_t begin, end;  // bytes of PieceBuffer::text; never empty
};

// Text and the pieces it was cut into, in order; what lies between pieces is dropped.
struct PieceBuffer {
  std::string text;
  std::vector<Piece> pieces;
  bool starts_input = false;  // text[0] came from the first character of the whole input

  std::string_view view(Piece piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
enum class PrependScheme { kAlways, kFirst, kNever };

// Bytes as the printable characters of GPT-2's table.
struct ByteLevel {
  bool add_prefix_space;
  std::optional<Pattern> words;  // GPT-2's own expression, if use_regex
  bool rewrites = true;          // else the bytes are left to who takes the pieces
};
struct Split {
  Pattern pattern;
  SplitBehavior behavior;
  bool invert;
};
struct Digits {
  bool individual;
};
struct WhitespaceSplit {};
// Runs of word characters and runs of what is neither word nor white space.
struct Whitespace {};
struct BertWords {};
struct Punctuation {
  SplitBehavior behavior;
};
struct DelimiterSplit {
  char32_t delimiter;
};
struct FixedLength {
  uint32_t length;  // characters
};
struct UnicodeScripts {};
// Also the Metaspace decoder's settings.
struct Metaspace {
  std::string replacement;  // one character
  PrependScheme scheme;
  bool split;

  static Metaspace from_json(const Component& component);
};

struct PreTokenizer;
struct PreTokenizerSequence {
  std::vector<PreTokenizer> steps;
};

// Immutable; apply may run on any thread with its own scratch.
struct PreTokenizer {
  std::variant<PreTokenizerSequence, ByteLevel, Split, Digits, WhitespaceSplit, Whitespace,
               BertWords, Punctuation, DelimiterSplit, FixedLength, UnicodeScripts, Metaspace>
      kind;

  static PreTokenizer from_json(const Component& component);
  void apply(PieceBuffer& buffer, MatchScratch& scratch) const;
  // If the last step rewrites bytes as characters it no longer does so, and true is returned.
  bool leave_bytes();
};

// Appends the characters of GPT-2's table that stand for the bytes of a text.
void append_characters_of_bytes(std::string_view bytes, std::string& out);
// The character of GPT-2's table that stands for a byte.
char32_t character_of_byte(uint8_t byte);
// The byte that a character of GPT-2's table stands for, or -1.
int byte_of_character(char32_t code_point);

}  // namespace flare::frontend::tokenizer
