// Byte-pair encoding of one piece: characters become symbols, the earliest merges win.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/tokenizer/component.h"
#include "frontend/tokenizer/joints.h"
#include "frontend/tokenizer/merge_table.h"
#include "frontend/tokenizer/piece_cache.h"
#include "frontend/tokenizer/vocabulary.h"

namespace flare::frontend::tokenizer {

// Working memory of Bpe::encode; confined to one thread.
struct BpeScratch {
  std::vector<int32_t> symbols;
  MergeScratch merging;
  PieceCache parts;
  std::string spelling, characters;
};

// Immutable.
class Bpe {
 public:
  explicit Bpe(const Component& component);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of a piece of valid UTF-8. kInvalid if it needs an unk_token that the
  // vocabulary does not have.
  void encode(std::string_view piece, std::vector<int32_t>& out, BpeScratch& scratch) const;
  // The same for a piece of which each byte stands for a character, as ByteLevel says.
  void encode_bytes(std::string_view piece, std::vector<int32_t>& out, BpeScratch& scratch) const;

 private:
  void read_merges(const Component& component);
  bool symbols_are_characters() const;
  void add_joint(std::string_view left, std::string_view right);
  // Encodes a piece that is no token by itself. end_of_part(begin) is the end of a part between
  // which and the next no merge reaches, split(part) makes its symbols.
  template <typename EndOfPart, typename Split>
  void encode_parts(std::string_view piece, EndOfPart&& end_of_part, Split&& split,
                    std::vector<int32_t>& out, BpeScratch& scratch) const;
  // Returns the id of the joined token; `guess` is what it may be.
  int32_t add_merge(std::string_view left, std::string_view right, uint32_t rank, int32_t guess,
                    std::string_view where);

  void split_into_symbols(std::string_view piece, BpeScratch& scratch) const;
  int32_t character_id(std::string_view character, bool first, bool last,
                       BpeScratch& scratch) const;
  // Appends byte tokens for `text` if the vocabulary has all of them.
  bool append_bytes(std::string_view text, std::vector<int32_t>& symbols) const;
  int32_t unknown_id() const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  std::array<int32_t, 0x800> small_;  // ids of characters of one and two bytes
  std::array<int32_t, 256> byte_tokens_;
  std::optional<std::string> unk_token_;
  std::string prefix_, suffix_;  // continuing_subword_prefix, end_of_word_suffix
  bool fuse_unk_, byte_fallback_, ignore_merges_;
  size_t long_piece_;  // bytes beyond which looking for parts is worth it
  // Parts between which no merge reaches are encoded each by itself: what keeps vocabularies
  // without pre-tokenizer fast. None where symbols are not plain characters.
  std::optional<Joints> joints_;
  // Ids of the characters that stand for bytes; none unless the vocabulary has all of them.
  std::optional<std::array<int32_t, 256>> byte_symbols_;
};

}  // namespace flare::frontend::tokenizer
