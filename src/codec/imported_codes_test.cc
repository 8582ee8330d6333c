// q2 and t2: golden objects of artifact.md §18.7 and §18.8, validity, no encoder.
#include <gtest/gtest.h>

#include "base/hash/sha256.h"
#include "base/test_support.h"
#include "codec/test_oracle.h"

namespace flare::codec {
namespace {

TEST(ImportedCodes, Q2MatchesTheGoldenObject) {
  const uint16_t scales[2][2] = {{0x3800, 0xBC00}, {0x0001, 0x8000}};
  const auto word = [](uint64_t, uint64_t c) {
    return c == 64 ? 0u : static_cast<unsigned>(c % 4);
  };
  const ByteVector object = oracle_pack_pairs(kOracleQ2, 2, 65, word,
                                              [&](uint64_t r, uint64_t g) { return scales[r][g]; });
  EXPECT_EQ(sha256_hex(object).substr(0, 16), "55e0dec9b569a3b9");
  const Format& f = format(FormatId::kQ2G64);
  const Geometry g{2, 65};
  ASSERT_EQ(f.planes(g).total_bytes, 264u);
  const std::vector<float> values = decode_all(f, g, object.data());
  for (uint64_t r = 0; r < 2; ++r)
    for (uint64_t c = 0; c < 65; ++c)
      ASSERT_EQ(values[r * 65 + c],
                fp16_to_f32(scales[r][c / 64]) * (static_cast<float>(word(r, c)) - 1));
  f.validate(object.data(), g, 0, 2);  // any finite scale, −0 too, any code under it
  validate_gaps(f, g, object);
}

TEST(ImportedCodes, MatchTheGoldenFullPattern) {
  const auto scale = [](uint64_t r, uint64_t g) {
    return static_cast<uint16_t>(0x3c00 + 16 * r + g);
  };
  const Geometry g{3, 130};
  const struct {
    OraclePairs format;
    int qmin, span;
    uint64_t size;
    std::string_view sha;
  } cases[] = {{kOracleQ2, -1, 4, 280, "47ff14da40d0f0c5"},
               {kOracleT2, -1, 3, 268, "ff939318c945e1bd"}};
  for (const auto& c : cases) {
    const Format& f = format(c.format.id);
    SCOPED_TRACE(f.name);
    const auto code = [&](uint64_t r, uint64_t k) {
      return c.qmin + static_cast<int>((7 * r + 3 * k) % static_cast<uint64_t>(c.span));
    };
    const auto word = [&](uint64_t r, uint64_t k) {
      return static_cast<unsigned>(code(r, k) + (c.format.id == FormatId::kQ2G64 ? 1 : 0)) & 3u;
    };
    const ByteVector object = oracle_pack_pairs(c.format, 3, 130, word, scale);
    EXPECT_EQ(sha256_hex(object).substr(0, 16), c.sha);
    ASSERT_EQ(f.planes(g).total_bytes, c.size);
    const std::vector<float> values = decode_all(f, g, object.data());
    for (uint64_t r = 0; r < 3; ++r)
      for (uint64_t k = 0; k < 130; ++k)
        ASSERT_EQ(values[r * 130 + k],
                  fp16_to_f32(scale(r, k / c.format.group)) * static_cast<float>(code(r, k)));
    f.validate(object.data(), g, 0, 3);
  }
}

TEST(ImportedCodes, HaveTheSizesOfTheTable) {
  EXPECT_EQ(encoded_bytes(format(FormatId::kQ2G64), "row_split_k128_v1", {7168, 5120}, 1),
            10321920u);
  EXPECT_EQ(encoded_bytes(format(FormatId::kT2G128), "row_split_k128_v1", {7168, 5120}, 1),
            9748480u);
}

TEST(ImportedCodes, IllegalWordsAreNamed) {
  const Geometry g{2, 130};
  const auto one = [](uint64_t, uint64_t) { return uint16_t{0x3c00}; };
  const auto zeros = [](uint64_t, uint64_t) { return 0u; };
  const auto expect_refused = [&](FormatId id, ByteVector object, uint64_t at, std::byte value,
                                  std::string_view place) {
    object[at] = value;
    const Error error = error_of([&] { format(id).validate(object.data(), g, 0, 2); });
    EXPECT_EQ(error.code(), Code::kValue);
    EXPECT_NE(error.message().find(place), std::string::npos) << error.message();
  };
  const ByteVector t2 = oracle_pack_pairs(kOracleT2, 2, 130, zeros, one);
  expect_refused(FormatId::kT2G128, t2, 1, std::byte{0x02}, "row 0 column 4");         // binary 10
  expect_refused(FormatId::kT2G128, t2, 32 + 1, std::byte{0x01}, "row 0 column 132");  // padding
  const uint64_t t2_scales = format(FormatId::kT2G128).planes(g).plane[1].offset;
  expect_refused(FormatId::kT2G128, t2, t2_scales + 1, std::byte{0x7c}, "row 0 column 0");
  expect_refused(FormatId::kT2G128, t2, t2_scales + 1, std::byte{0x80}, "row 0 column 0");  // −0
  const ByteVector q2 = oracle_pack_pairs(kOracleQ2, 2, 130, zeros, one);
  expect_refused(FormatId::kQ2G64, q2, 2 * 16 + 1, std::byte{0x54}, "row 0 column 132");
  const uint64_t q2_scales = format(FormatId::kQ2G64).planes(g).plane[1].offset;
  expect_refused(FormatId::kQ2G64, q2, q2_scales + 3, std::byte{0x7c}, "row 0 column 64");
  expect_refused(FormatId::kQ2G64, q2, q2_scales + 2 * 3, std::byte{1}, "row 0 column 192");
}

TEST(ImportedCodes, AreNeverEncodedFromNumbers) {
  for (const FormatId id : {FormatId::kQ2G64, FormatId::kT2G128})
    EXPECT_EQ(format(id).encode, nullptr);
}

}  // namespace
}  // namespace flare::codec
