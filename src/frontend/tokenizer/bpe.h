// Byte-pair encoding of one piece: characters become symbols, the earliest merges win.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
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
  std::string spelling;
};

// Immutable but for what any thread may find out about it.
class Bpe {
 public:
  explicit Bpe(const Component& component);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of a piece of valid UTF-8. kInvalid if it needs an unk_token that the
  // vocabulary does not have.
  void encode(std::string_view piece, std::vector<int32_t>& out, BpeScratch& scratch) const;

 private:
  void read_merges(const Component& component);
  void find_joints() const;
  // Parts between which no merge reaches are encoded each by itself: what keeps vocabularies
  // without pre-tokenizer fast. nullptr where symbols are not plain characters.
  const Joints* joints() const;
  void encode_part(std::string_view part, std::vector<int32_t>& out, BpeScratch& scratch) const;
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
  struct LazyJoints {
    std::once_flag once;
    std::optional<Joints> joints;
  };
  std::unique_ptr<LazyJoints> lazy_joints_;
  // For each id whether merging its spelling gives the id alone: 0 unknown, 1 yes, 2 no. A
  // pure function of the model, so that racing writers agree.
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;
};

}  // namespace flare::frontend::tokenizer
