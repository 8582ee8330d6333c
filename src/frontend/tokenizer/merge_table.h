// Merges of byte-pair encoding: which two symbols join to which, and carrying that out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/huge_vector.h"

namespace flare::frontend::tokenizer {

// Working memory of merging; confined to one thread.
struct MergeScratch {
  std::vector<uint32_t> ranks;
  // Of long lists with few merges of one kind.
  std::vector<int32_t> previous, next;
  struct Pair {
    uint32_t rank;
    int32_t id;
  };
  struct Batch {
    uint32_t rank, first, last;  // a list within `links`
  };
  struct Link {
    int32_t place;
    uint32_t next;
  };
  struct Entry {
    uint64_t key;
    uint32_t batch;
  };
  std::vector<Pair> pairs;
  std::vector<Entry> heap;
  std::vector<Batch> batches;
  std::vector<Link> links;
};

// Immutable once filled.
class MergeTable {
 public:
  static constexpr uint32_t kRanks = 1 << 25;  // ranks are below
  static constexpr uint32_t kNoRank = ~uint32_t{0};
  struct Merge {
    uint64_t pair = kNoPair;
    uint32_t rank = kNoRank;  // the lowest goes first; among equals the leftmost
    int32_t id = 0;

    int32_t left() const { return static_cast<int32_t>(pair >> 32); }
    int32_t right() const { return static_cast<int32_t>(pair & 0xFFFFFFFFu); }
  };

  MergeTable() : MergeTable(0) {}
  // Room for `count` different merges.
  explicit MergeTable(size_t count);

  // The last of equal pairs stays. Symbols are not negative.
  void add(int32_t left, int32_t right, uint32_t rank, int32_t id);
  // The merge of a pair; its rank is kNoRank if there is none.
  const Merge& find(int32_t left, int32_t right) const {
    static constexpr Merge kNothing;
    const uint64_t pair = pair_of(left, right), hash = hash_of(pair);
    if (!(filter_[filter_word(hash)] >> (hash & 63) & 1)) return kNothing;
    size_t slot = slot_of(hash);
    while (merges_[slot].pair != pair && merges_[slot].pair != kNoPair) slot = next_slot(slot);
    return merges_[slot];
  }

  // Says that texts may only be joined where one symbol of add_joint() meets the other, for every
  // merge: between others a long list of symbols is cut, since no token reaches over that place.
  // This is what keeps vocabularies without pre-tokenizer fast.
  void use_joints() { joints_.assign(merges_.size() * 2, kNoPair); }
  void add_joint(int32_t left, int32_t right);

  // Appends what is left of the symbols, which are changed, after all merges. Negative symbols
  // merge with nothing.
  void append_merged(std::span<int32_t> symbols, std::vector<int32_t>& out,
                     MergeScratch& scratch) const;

 private:
  static constexpr uint64_t kNoPair = ~uint64_t{0};

  static uint64_t pair_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  static uint64_t hash_of(uint64_t pair) {
    const uint64_t h = pair * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
  }
  size_t slot_of(uint64_t hash) const { return hash >> 6 & (merges_.size() - 1); }
  size_t next_slot(size_t slot) const { return (slot + 1) & (merges_.size() - 1); }
  size_t filter_word(uint64_t hash) const { return hash >> 6 & (filter_.size() - 1); }

  bool may_join(int32_t left, int32_t right) const;
  // All merge symbols in place and return how many are left.
  size_t merge(std::span<int32_t> symbols, MergeScratch& scratch) const;
  size_t merge_short(std::span<int32_t> symbols) const;
  size_t merge_long(std::span<int32_t> symbols, MergeScratch& scratch) const;
  size_t merge_in_rounds(std::span<int32_t> symbols, MergeScratch& scratch) const;

  class Queue;
  class Remembered;

  HugeVector<Merge> merges_;  // open addressing, a power of two, at most three quarters full
  // One bit for each hash that a pair of `merges_` has: most pairs that are asked for have no
  // merge, and this is small enough for a core's own cache.
  HugeVector<uint64_t> filter_;
  std::vector<uint64_t> joints_;  // open addressing, half full at most; empty if not used
};

}  // namespace flare::frontend::tokenizer
