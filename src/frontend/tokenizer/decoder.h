// Decoders: from the spellings of tokens to text, piece by piece, so that streams and one-shot
// decoding are the same code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "frontend/tokenizer/component.h"
#include "frontend/tokenizer/pattern.h"
#include "frontend/tokenizer/pre_tokenizer.h"

namespace flare::frontend::tokenizer {

struct ByteLevelDecoder {};
struct ByteFallbackDecoder {};
struct FuseDecoder {};
struct StripDecoder {
  std::string content;  // one character
  uint32_t start, stop;
};
struct ReplaceDecoder {
  Pattern pattern;
  std::string content;
};
struct MetaspaceDecoder {
  std::string replacement;
  bool drops_first;  // the first piece loses its replacement characters
};
// The suffix that ends words becomes a space, but none at the very end.
struct SuffixDecoder {
  std::string suffix;
};
// A space in front of every piece but the first, unless it begins with the prefix, which goes.
struct WordPieceDecoder {
  std::string prefix;
  bool cleanup;  // no space in front of punctuation and English contractions
};
// Equal pieces in a row are one; padding vanishes.
struct CtcDecoder {
  std::string pad, word_delimiter;
  bool cleanup;  // as above, and delimiters become spaces
};
// What the SentencePiece library does.
struct SentencePieceDecoder {
  std::string unknown_piece, unknown_surface;  // no piece: empty
  bool byte_fallback;
  bool drops_first;  // the space in front of the text
  bool drops_all;    // all spaces there
};
// What a file without decoder does: a space between pieces.
struct JoinDecoder {};

// A chain of stages. Immutable; any number of DecodeStreams may run on it.
class Decoder {
 public:
  using Stage = std::variant<ByteLevelDecoder, ByteFallbackDecoder, FuseDecoder, StripDecoder,
                             ReplaceDecoder, MetaspaceDecoder, SuffixDecoder, WordPieceDecoder,
                             CtcDecoder, SentencePieceDecoder, JoinDecoder>;

  Decoder();  // joins with spaces
  explicit Decoder(SentencePieceDecoder stage) { stages_.push_back(std::move(stage)); }
  static Decoder from_json(const Component& component);

  const std::vector<Stage>& stages() const { return stages_; }
  // What a token with this spelling adds to a text that has others on both sides, before broken
  // characters are replaced.
  std::string bytes_inside(std::string_view spelling) const;

 private:
  void read(const Component& component);
  std::vector<Stage> stages_;
};

// One decoding in progress. Pieces run through the stages; each stage passes on what no later
// token can change. Confined to one thread; the decoder must outlive it.
class DecodeStream {
 public:
  explicit DecodeStream(const Decoder& decoder);

  // The spelling of the next token. New text is appended to `out`.
  void push(std::string_view piece, std::string& out) { feed(0, piece, true, out); }
  void finish(std::string& out);

 private:
  // A stage's memory; which fields it uses is its own affair.
  struct State {
    std::string parts;        // of a piece that is not whole yet
    std::string held;         // bytes that later tokens decide about
    uint64_t pieces = 0;      // complete pieces seen
    uint32_t cut = 0;         // characters cut from the front of this piece
    bool begun = false;       // something of this piece, or a piece to hold, was seen
    bool front_done = false;  // nothing more is cut from the front of this piece
  };

  // Gives stage `at` a part of a piece, cut at a character boundary; `ends` closes the piece.
  void feed(size_t at, std::string_view text, bool ends, std::string& out);
  void flush(size_t at, std::string& out);

  void run(const ByteLevelDecoder&, size_t at, std::string_view text, bool ends, std::string& out);
  void run(const ByteFallbackDecoder&, size_t at, std::string_view text, bool ends,
           std::string& out);
  void run(const FuseDecoder&, size_t at, std::string_view text, bool ends, std::string& out);
  void run(const StripDecoder&, size_t at, std::string_view text, bool ends, std::string& out);
  void run(const ReplaceDecoder&, size_t at, std::string_view text, bool ends, std::string& out);
  void run(const MetaspaceDecoder&, size_t at, std::string_view text, bool ends, std::string& out);
  void run(const SuffixDecoder&, size_t at, std::string_view text, bool ends, std::string& out);
  void run(const WordPieceDecoder&, size_t at, std::string_view text, bool ends, std::string& out);
  void run(const CtcDecoder&, size_t at, std::string_view text, bool ends, std::string& out);
  void run(const SentencePieceDecoder&, size_t at, std::string_view text, bool ends,
           std::string& out);
  void run(const JoinDecoder&, size_t at, std::string_view text, bool ends, std::string& out);
  void flush_bytes(size_t at, std::string& out);
  // Passes on the characters of held bytes, U+FFFD for each byte of none; at the end of their run
  // for a cut one, too.
  void flush_characters(size_t at, bool run_ends, std::string& out);
  void flush_suffixed(size_t at, std::string_view separator, std::string& out);

  const Decoder* decoder_;
  std::vector<State> states_;
  MatchScratch scratch_;
};

}  // namespace flare::frontend::tokenizer
