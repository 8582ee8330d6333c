// What pieces of text became, so that words which come again are not merged again.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <vector>

namespace flare::frontend::tokenizer {

// Hash of a spelling: multiply and fold by 8 bytes. Collisions cost time only.
inline uint64_t hash_of(std::string_view text) {
  uint64_t h = 0x9E3779B97F4A7C15u ^ text.size();
  const auto mix = [&h](uint64_t word) {
    const auto product = static_cast<unsigned __int128>(h ^ word) * 0xD1342543DE82EF95u;
    h = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  size_t at = 0;
  uint64_t word;
  for (; at + 8 <= text.size(); at += 8) {
    std::memcpy(&word, text.data() + at, 8);
    mix(word);
  }
  word = 0;
  for (size_t i = text.size(); i > at; --i) word = word << 8 | static_cast<uint8_t>(text[i - 1]);
  mix(word);
  return h;
}

// A table of fixed size in which a new entry takes the place of an old one. Confined to one thread.
class PieceCache {
 public:
  static constexpr size_t kMaxBytes = 25, kMaxIds = 8;

  // Appends the ids of a piece to `out` and returns true if they are known.
  bool append(std::string_view piece, uint64_t hash, std::vector<int32_t>& out) const {
    if (!entries_ || piece.empty()) return false;
    const Entry* entry = &entries_[slot_of(hash)];
    if (!entry->holds(piece, hash) && !(++entry)->holds(piece, hash)) return false;
    out.insert(out.end(), entry->ids, entry->ids + entry->count);
    return true;
  }
  // Says that this hash will be asked for soon.
  void prefetch(uint64_t hash) const {
    if (entries_) __builtin_prefetch(&entries_[slot_of(hash)]);
  }
  // Takes the place of the older one of two.
  void put(std::string_view piece, uint64_t hash, std::span<const int32_t> ids) {
    if (piece.empty() || ids.empty() || piece.size() > kMaxBytes || ids.size() > kMaxIds) return;
    if (!entries_) make();
    Entry* const entry = &entries_[slot_of(hash)];
    if (entry->tag != 0) entry[1] = *entry;
    entry->tag = tag_of(hash);
    entry->bytes = static_cast<uint8_t>(piece.size());
    entry->count = static_cast<uint8_t>(ids.size());
    std::memcpy(entry->text, piece.data(), piece.size());
    std::memcpy(entry->ids, ids.data(), ids.size() * sizeof(int32_t));
  }

 private:
  static constexpr size_t kEntries = 1 << 15;  // 2 MiB
  struct Entry {
    uint32_t tag;  // 0: free
    uint8_t bytes, count;
    char text[kMaxBytes];
    int32_t ids[kMaxIds];

    bool holds(std::string_view piece, uint64_t hash) const {
      return tag == tag_of(hash) && bytes == piece.size() &&
             std::memcmp(text, piece.data(), piece.size()) == 0;
    }
  };
  static_assert(sizeof(Entry) == 64);
  static size_t slot_of(uint64_t hash) { return hash & (kEntries - 2); }  // the first of two
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32) | 1; }

  void make() {
    entries_.reset(static_cast<Entry*>(std::calloc(kEntries, sizeof(Entry))));
    if (!entries_) throw std::bad_alloc();
  }
  struct Free {
    void operator()(Entry* entries) const { std::free(entries); }
  };
  // Made with the first entry, and page by page where entries are: zeros are free ones.
  std::unique_ptr<Entry[], Free> entries_;
};

}  // namespace flare::frontend::tokenizer
