// Between which characters a token can reach over: the places where a text may be cut for sure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

// Immutable once filled.
class Joints {
 public:
  Joints();

  // Says that some merge joins a text that ends in `left` with one that begins with `right`.
  void add(char32_t left, char32_t right);
  // End of the shortest stretch from text[at) on whose end no merge reaches over.
  size_t end_of_part(std::string_view text, size_t at) const {
    Decoded before = decode_at(text, at);
    for (at += before.bytes; at < text.size();) {
      const Decoded next = decode_at(text, at);
      if (!joined(before.code_point, next.code_point)) break;
      before = next;
      at += next.bytes;
    }
    return at;
  }

  bool joined(char32_t left, char32_t right) const {
    const uint32_t l = near_index(left), r = near_index(right);
    if (l < kNear && r < kNear) return near_[l * kRowWords + r / 64] >> r % 64 & 1;
    const uint64_t pair = pair_of(left, right);
    size_t slot = slot_of(pair);
    while (pairs_[slot] != pair && pairs_[slot] != kNone) slot = (slot + 1) & (pairs_.size() - 1);
    return pairs_[slot] == pair;
  }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};
  // The characters of byte-level vocabularies and the mark that stands for a space have a table of
  // their own: one bit for each two of them.
  static constexpr uint32_t kMark = 0x144, kNear = kMark + 1, kRowWords = (kNear + 63) / 64;
  static uint32_t near_index(char32_t c) { return c < kMark ? c : c == 0x2581 ? kMark : kNear; }
  static uint64_t pair_of(char32_t left, char32_t right) {
    return static_cast<uint64_t>(left) << 32 | right;
  }
  size_t slot_of(uint64_t pair) const {
    const uint64_t h = pair * 0x9E3779B97F4A7C15u;
    return (h ^ h >> 32) & (pairs_.size() - 1);
  }
  void put(uint64_t pair);
  void grow();

  std::vector<uint64_t> near_;
  std::vector<uint64_t> pairs_;  // open addressing, a power of two, at most half full
  size_t n_pairs_ = 0;
};

}  // namespace flare::frontend::tokenizer
