// XXH3 against values of the reference implementation.
#include "base/hash/xxh3.h"

#include <gtest/gtest.h>

#include <string_view>

#include "base/hash/sha256.h"

namespace flare {
namespace {

Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// `xxhsum -H2` of Debian's xxhash 0.8.1.
TEST(Xxh3, GivesTheReferenceValues) {
  EXPECT_EQ(to_hex(xxh3_128({})), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(to_hex(xxh3_128(bytes_of("a"))), "a96faf705af16834e6c632b61e964e1f");
  EXPECT_EQ(to_hex(xxh3_128(bytes_of("abc"))), "06b05ab6733a618578af5f94892f3950");
}

TEST(Xxh3, PiecesGiveWhatTheWholeGives) {
  std::vector<std::byte> data(100'000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * i >> 3);
  Xxh3 hash;
  for (size_t at = 0, n = 1; at < data.size(); at += n, n = n * 3 + 1)
    hash.update(Bytes(data).subspan(at, std::min(n, data.size() - at)));
  EXPECT_EQ(hash.finish(), xxh3_128(data));
  data[77'777] ^= std::byte{1};
  EXPECT_NE(hash.finish(), xxh3_128(data));
}

}  // namespace
}  // namespace flare
