// Byte-pair encoding of one piece: characters become symbols, the earliest merges win.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/tokenizer/component.h"
#include "frontend/tokenizer/vocabulary.h"

namespace flare::frontend::tokenizer {

// Working memory of Bpe::encode; confined to one thread.
struct BpeScratch {
  std::vector<int32_t> symbols;
  std::vector<uint32_t> ranks;
  std::vector<int32_t> previous, next;
  std::vector<uint64_t> heap;
  std::string spelling;
};

// Immutable but for a cache of single bits that any thread may set.
class Bpe {
 public:
  explicit Bpe(const Component& component);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of a piece of valid UTF-8. kInvalid if it needs an unk_token that the
  // vocabulary does not have.
  void encode(std::string_view piece, std::vector<int32_t>& out, BpeScratch& scratch) const;

 private:
  struct Merge {
    uint64_t pair = kNoPair;
    uint32_t rank = kNoRank;
    int32_t id = 0;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static constexpr uint32_t kNoRank = ~uint32_t{0};

  void read_merges(const Component& component);
  void find_joints();
  // Returns the id of the joined token; `guess` is what it may be.
  int32_t add_merge(std::string_view left, std::string_view right, uint32_t rank, int32_t guess,
                    std::string_view where);
  const Merge& merge_of(int32_t left, int32_t right) const;

  void split_into_symbols(std::string_view piece, BpeScratch& scratch) const;
  int32_t character_id(std::string_view character, bool first, bool last,
                       BpeScratch& scratch) const;
  // Appends byte tokens for `text` if the vocabulary has all of them.
  bool append_bytes(std::string_view text, std::vector<int32_t>& symbols) const;
  int32_t unknown_id() const;
  // True if some merge joins two texts at these initial symbols.
  bool may_join(int32_t left, int32_t right) const;
  // Both merge symbols in place and return how many are left.
  size_t merge(std::span<int32_t> symbols, BpeScratch& scratch) const;
  size_t merge_short(std::span<int32_t> symbols, BpeScratch& scratch) const;
  size_t merge_long(std::span<int32_t> symbols, BpeScratch& scratch) const;

  Vocabulary vocabulary_;
  std::vector<Merge> merges_;  // open addressing, a power of two, at most half full
  // Pairs of characters over which merges join their two sides, by the same kind of addressing.
  // Between other characters a long piece may be cut, for no token reaches over that place: what
  // keeps vocabularies without pre-tokenizer fast. Empty if symbols are not plain characters.
  std::vector<uint64_t> joints_;
  std::array<int32_t, 128> ascii_;
  std::array<int32_t, 256> byte_tokens_;
  std::optional<std::string> unk_token_;
  std::string prefix_, suffix_;  // continuing_subword_prefix, end_of_word_suffix
  bool fuse_unk_, byte_fallback_, ignore_merges_;
  // For each id whether merging its spelling gives the id alone: 0 unknown, 1 yes, 2 no. A
  // pure function of the model, so that racing writers agree.
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;
};

}  // namespace flare::frontend::tokenizer
