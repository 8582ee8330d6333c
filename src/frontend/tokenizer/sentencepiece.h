// SentencePiece's way from text to ids: normalisation of the whole text, then its four models.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/tokenizer/charsmap.h"
#include "frontend/tokenizer/merge_table.h"
#include "frontend/tokenizer/piece_trie.h"
#include "frontend/tokenizer/sentencepiece_file.h"
#include "frontend/tokenizer/unigram.h"
#include "frontend/tokenizer/vocabulary.h"

namespace flare::frontend::tokenizer {

// Working memory of encoding; confined to one thread.
struct SentencePieceScratch {
  UnigramScratch unigram;
  MergeScratch merging;
  std::vector<int32_t> symbols, merged;
};

// Immutable after construction.
class SentencePiece {
 public:
  SentencePiece(const SentencePieceFile& file, std::string_view where);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  PieceType type(int32_t id) const { return types_[id]; }
  // Empty if there is none.
  std::string unknown_piece() const {
    if (unk_id_ == Vocabulary::kNone) return {};
    return std::string(vocabulary_.spelling(unk_id_));
  }
  // Whether a user-defined piece matches only where the template wrote all of it.
  void set_structural(int32_t id) { structural_[id] = true; }

  // Appends the ids of a text; invalid bytes of it count as U+FFFD. `caller` is empty, or has '\1'
  // for each byte that the caller wrote.
  void encode(std::string_view text, std::string_view caller, std::vector<int32_t>& out,
              SentencePieceScratch& scratch) const;

 private:
  struct Text {
    std::string text, caller;
  };
  struct Output;

  void read_pieces(const SentencePieceFile& file, std::string_view where);
  void read_merges(std::string_view where);
  void read_characters(std::string_view where);
  struct Join {
    int32_t left, right;  // symbols
    int32_t id;           // of the piece that they spell
    uint32_t rank;        // among all pieces by score, from 1
  };
  std::vector<Join> joins() const;
  int32_t symbol_of(std::string_view text) const;
  int32_t id_of_piece(std::string_view text) const;

  // Length and id of the longest user-defined piece at text[at..) that may stand there, or 0.
  struct UserDefined {
    size_t length;
    int32_t id;
  };
  UserDefined user_defined(std::string_view text, std::string_view caller, size_t at) const;

  Text normalized(std::string_view text, std::string_view caller) const;
  void encode_unigram(const Text& text, Output& out, SentencePieceScratch& scratch) const;
  void encode_bpe(const Text& text, Output& out, SentencePieceScratch& scratch) const;
  void encode_words(const Text& text, Output& out) const;
  void encode_characters(const Text& text, Output& out) const;
  void append_symbol(int32_t symbol, size_t begin, size_t end, Output& out) const;

  SentencePieceFile::Kind kind_;
  SentencePieceFile::Rules rules_;
  bool space_as_suffix_, byte_fallback_;
  Charsmap charsmap_;
  Vocabulary vocabulary_;
  std::vector<PieceType> types_;
  std::vector<float> scores_;
  std::vector<bool> structural_;
  std::vector<bool> reserved_;  // control, unknown and byte pieces: no part of any segmentation
  int32_t unk_id_ = Vocabulary::kNone;  // none: bytes spell what is unknown
  std::array<int32_t, 256> byte_tokens_;
  PieceTrie user_defined_, pieces_;  // pieces_: of Unigram
  float least_ = 0;                  // score of normal pieces
  // BPE: symbols are ids and, behind them, single characters that are no pieces but parts of some.
  MergeTable merges_;
  Vocabulary characters_;
  std::vector<std::pair<int32_t, int32_t>> halves_;  // of unused pieces, which are taken apart
};

}  // namespace flare::frontend::tokenizer
