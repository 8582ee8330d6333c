// Codes of eight columns in the bytes of a word, lane i in byte i, and the forms files pack them
// in.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace flare::codec {

// Nibbles of eight lanes: lane 2j in the low half of byte j.
inline void pack_nibbles(uint64_t lanes, std::byte* base) {
  lanes &= 0x0f0f0f0f0f0f0f0fu;
  lanes = (lanes | lanes >> 4) & 0x00ff00ff00ff00ffu;
  lanes = (lanes | lanes >> 8) & 0x0000ffff0000ffffu;
  store_le(base, static_cast<uint32_t>(lanes | lanes >> 16));
}
inline uint64_t unpack_nibbles(const std::byte* base) {
  uint64_t lanes = load_le<uint32_t>(base);
  lanes = (lanes | lanes << 16) & 0x0000ffff0000ffffu;
  lanes = (lanes | lanes << 8) & 0x00ff00ff00ff00ffu;
  return (lanes | lanes << 4) & 0x0f0f0f0f0f0f0f0fu;
}
// Bit pairs of eight lanes: lane 4j in bits 0 and 1 of byte j.
inline uint64_t unpack_pairs(const std::byte* base) {
  uint64_t lanes = load_le<uint16_t>(base);
  lanes = (lanes | lanes << 24) & 0x000000ff000000ffu;
  lanes = (lanes | lanes << 12) & 0x000f000f000f000fu;
  return (lanes | lanes << 6) & 0x0303030303030303u;
}
// Bit i of `bits` as lane i.
inline uint64_t spread_bits(std::byte bits) {
  // Byte i keeps bit i alone; the sum then carries it to bit 7 whatever i is.
  const uint64_t own = std::to_integer<uint64_t>(bits) * 0x0101010101010101u;
  const uint64_t kept = own & 0x8040201008040201u;
  return (kept + 0x00406070787c7e7fu) >> 7 & 0x0101010101010101u;
}
// out[0..n) = nibbles, two a byte, the low half first; a half behind the last is not read.
inline void unpack_all_nibbles(const std::byte* pairs, uint64_t n, uint8_t* out) {
  for (uint64_t i = 0; i < n / 2; ++i) {
    const auto pair = std::to_integer<uint8_t>(pairs[i]);
    out[2 * i] = pair & 15;
    out[2 * i + 1] = pair >> 4;
  }
  if (n % 2 == 1) out[n - 1] = std::to_integer<uint8_t>(pairs[n / 2]) & 15;
}

}  // namespace flare::codec
