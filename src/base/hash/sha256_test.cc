// Promises of sha256.h, against the vectors of FIPS 180-4 and NIST's examples.
#include "base/hash/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace flare {
namespace {

TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(as_bytes("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(as_bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(as_bytes(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  const std::string text(1000000, 'a');
  Sha256 hash;
  for (size_t begin = 0, step = 1; begin < text.size(); begin += step, step = step * 3 % 8191 + 1)
    hash.update(as_bytes(std::string_view(text).substr(begin, step)));
  EXPECT_EQ(to_hex(hash.finish()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, HexIsLowerCaseHighNibbleFirst) {
  EXPECT_EQ(to_hex(as_bytes(std::string_view("\x00\x0f\xf0\xab", 4))), "000ff0ab");
  EXPECT_EQ(to_hex({}), "");
}

}  // namespace
}  // namespace flare
