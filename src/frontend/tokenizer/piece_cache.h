// What pieces of text became, so that words which come again are not merged again.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace flare::frontend::tokenizer {

// Hash of a spelling. Collisions cost time only.
uint64_t hash_of(std::string_view text);

// A table of fixed size in which a new entry takes the place of an old one. Confined to one thread.
class PieceCache {
 public:
  static constexpr size_t kMaxBytes = 25, kMaxIds = 8;

  // Appends the ids of a piece to `out` and returns true if they are known.
  bool append(std::string_view piece, uint64_t hash, std::vector<int32_t>& out) const {
    if (entries_.empty() || piece.empty()) return false;
    const Entry& entry = entries_[hash & (kEntries - 1)];
    if (entry.tag != tag_of(hash) || entry.bytes != piece.size() ||
        std::memcmp(entry.text, piece.data(), piece.size()) != 0)
      return false;
    out.insert(out.end(), entry.ids, entry.ids + entry.count);
    return true;
  }
  void put(std::string_view piece, uint64_t hash, std::span<const int32_t> ids) {
    if (piece.empty() || ids.empty() || piece.size() > kMaxBytes || ids.size() > kMaxIds) return;
    if (entries_.empty()) entries_.resize(kEntries);
    Entry& entry = entries_[hash & (kEntries - 1)];
    entry.tag = tag_of(hash);
    entry.bytes = static_cast<uint8_t>(piece.size());
    entry.count = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.text, piece.data(), piece.size());
    std::memcpy(entry.ids, ids.data(), ids.size() * sizeof(int32_t));
  }

 private:
  static constexpr size_t kEntries = 1 << 14;  // 1 MiB: what a core's own cache holds
  struct Entry {
    uint32_t tag = 0;  // 0: free
    uint8_t bytes = 0, count = 0;
    char text[kMaxBytes] = {};
    int32_t ids[kMaxIds] = {};
  };
  static_assert(sizeof(Entry) == 64);
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32) | 1; }

  std::vector<Entry> entries_;  // made with the first entry
};

}  // namespace flare::frontend::tokenizer
