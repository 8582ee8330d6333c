// Packed forms against loops over single codes.
#include "codec/lanes.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace flare::codec {
namespace {

uint64_t lane(uint64_t lanes, int i) { return lanes >> 8 * i & 0xff; }

TEST(Lanes, HoldWhatSingleCodesAre) {
  for (uint32_t word = 0; word < 1 << 16; ++word) {
    std::array<std::byte, 4> bytes{};
    store_le(bytes.data(), word * 0x00010001u ^ 0x5a000000u);
    const auto bits_of = [&](int at, int n) {
      return std::to_integer<uint32_t>(bytes[static_cast<size_t>(at / 8)]) >> at % 8 &
             ((1u << n) - 1);
    };
    const uint64_t nibbles = unpack_nibbles(bytes.data()), pairs = unpack_pairs(bytes.data());
    const uint64_t bits = spread_bits(bytes[0]);
    for (int i = 0; i < 8; ++i) {
      ASSERT_EQ(lane(nibbles, i), bits_of(4 * i, 4)) << word;
      ASSERT_EQ(lane(pairs, i), bits_of(2 * i, 2)) << word;
      ASSERT_EQ(lane(bits, i), bits_of(i, 1)) << word;
    }
    std::array<std::byte, 4> packed{};
    pack_nibbles(nibbles, packed.data());
    ASSERT_EQ(packed, bytes) << word;
  }
}

TEST(Lanes, AnOddNumberOfNibblesEndsWithinAByte) {
  const std::vector<std::byte> pairs = {std::byte{0x21}, std::byte{0x43}, std::byte{0xf5}};
  for (size_t n = 0; n <= 6; ++n) {
    std::vector<uint8_t> out(7, 99);
    unpack_all_nibbles(pairs.data(), n, out.data());
    const std::vector<uint8_t> all = {1, 2, 3, 4, 5, 15};
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i < n ? all[i] : 99) << n;
  }
}

}  // namespace
}  // namespace flare::codec
