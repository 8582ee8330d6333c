// ggml's blocks: decoding against the golden sums of artifact.md §18.10, validity.
#include "codec/gguf_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/hash/sha256.h"
#include "codec/golden_tensors.h"
#include "codec/search.h"

namespace flare::codec {
namespace {

struct BlockCase {
  const char* name;
  uint64_t values, bytes;
  std::vector<uint64_t> halves;  // d, then dmin
  const char* sha256;            // first digits
};
const std::vector<BlockCase> kCases = {
    {"gguf_q4_0", 32, 18, {0}, "f99e3784e0737ee0"},
    {"gguf_q8_0", 32, 34, {0}, "80b32ca43926d21e"},
    {"gguf_q4_k", 256, 144, {0, 2}, "63f7001c611b94e6"},
    {"gguf_q6_k", 256, 210, {208}, "a1a75fd4282ec112"},
    {"gguf_q5_0", 32, 22, {0}, "6f1f55ba08ac1ae2"},
    {"gguf_q2_k", 256, 84, {80, 82}, "2660196929f99983"},
    {"gguf_q3_k", 256, 110, {108}, "b290da7899565fb8"},
    {"gguf_q5_k", 256, 176, {0, 2}, "70e5de0ff5a578de"},
    {"gguf_iq4_nl", 32, 18, {0}, "77bc9bb82483ba77"},
    {"gguf_iq4_xs", 256, 136, {0}, "fdf0914863872ded"},
    {"gguf_q2_0", 64, 18, {0}, "48f8714ef6bad560"},
};

std::vector<std::byte> golden_block(const BlockCase& c) {
  std::vector<std::byte> block(c.bytes);
  for (uint64_t i = 0; i < c.bytes; ++i) block[i] = static_cast<std::byte>((37 * i + 11) % 256);
  store_le<uint16_t>(&block[c.halves[0]], 0x3400);
  if (c.halves.size() > 1) store_le<uint16_t>(&block[c.halves[1]], 0x2C00);
  return block;
}

TEST(GgufBlocks, DecodeAsTheGoldenSums) {
  for (const BlockCase& c : kCases) {
    SCOPED_TRACE(c.name);
    const Format& format = *find_format(c.name);
    const auto block = golden_block(c);
    std::vector<float> values(c.values);
    format.decode(block.data(), {1, c.values}, 0, 0, c.values, values.data());
    for (float& value : values)
      if (value == 0) value = 0;  // −0 counts as +0
    EXPECT_EQ(sha256_hex(std::as_bytes(std::span(values))).substr(0, 16), c.sha256);
  }
}

bool is_stored_only(const Format& format) {
  return format.name.starts_with("gguf_iq") && !format.name.starts_with("gguf_iq4");
}

TEST(GgufBlocks, OfWhichOnlyTheBytesAreKnownAreSizedAndNotRead) {
  const std::pair<const char*, uint64_t> sizes[] = {
      {"gguf_iq2_xxs", 66}, {"gguf_iq2_xs", 74}, {"gguf_iq3_xxs", 98}, {"gguf_iq1_s", 50},
      {"gguf_iq3_s", 110},  {"gguf_iq2_s", 82},  {"gguf_iq1_m", 56}};
  for (const auto& [name, bytes] : sizes) {
    SCOPED_TRACE(name);
    const Format& f = *find_format(name);
    EXPECT_TRUE(is_stored_only(f));
    EXPECT_EQ(encoded_bytes(f, "gguf_blocks_v1", {3, 512}, 1), 6 * bytes);
    const std::vector<std::byte> object(bytes);
    std::vector<float> values(256);
    f.validate(object.data(), {1, 256}, 0, 1);
    try {
      f.decode(object.data(), {1, 256}, 0, 0, 256, values.data());
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kEncoding);
      EXPECT_NE(error.message().find("decode unsupported"), std::string::npos);
    }
  }
}

// 64 blocks of every type, special scales included, as the gguf package reads them.
TEST(GgufBlocks, DecodeAsTheReferencePackage) {
  const std::filesystem::path folder =
      std::filesystem::path(FLARE_SOURCE_DIR) / "../shared/data/goldens/quantised";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  const GoldenTensors golden(folder / "gguf_blocks.safetensors");
  int compared = 0;
  for (const Format& format : all_formats()) {
    if (format.layout != LayoutId::kGgufBlocks || is_stored_only(format)) continue;
    SCOPED_TRACE(format.name);
    const std::string type(format.name.substr(5));
    const auto blocks = golden.bytes(type + ".blocks");
    const std::vector<float> expected = golden.floats(type + ".values");
    const Geometry g{expected.size() / format.group, format.group};
    ASSERT_EQ(format.planes(g).total_bytes, blocks.size());
    std::vector<float> row(format.group);
    for (uint64_t r = 0; r < g.rows; ++r) {
      format.decode(blocks.data(), g, r, 0, g.cols, row.data());
      for (uint64_t c = 0; c < g.cols; ++c) {
        const float want = expected[r * g.cols + c];
        ASSERT_TRUE(row[c] == want || (std::isnan(row[c]) && std::isnan(want)))
            << "block " << r << " value " << c << ": " << row[c] << ", " << want << " expected";
      }
    }
    ++compared;
  }
  EXPECT_EQ(compared, 13);
}

TEST(GgufBlocks, AnyRangeThatBeginsAtABlockDecodesToTheSameValues) {
  for (const BlockCase& c : kCases) {
    SCOPED_TRACE(c.name);
    const Format& format = *find_format(c.name);
    const Geometry g{3, 3 * c.values};
    std::vector<std::byte> object;
    for (int i = 0; i < 9; ++i) {
      auto block = golden_block(c);
      for (auto& b : block) b ^= static_cast<std::byte>(i % 8);
      object.insert(object.end(), block.begin(), block.end());
    }
    ASSERT_EQ(format.planes(g).total_bytes, object.size());
    std::vector<float> row(g.cols), part(g.cols);
    format.decode(object.data(), g, 1, 0, g.cols, row.data());
    for (uint64_t begin : {uint64_t{0}, c.values, 2 * c.values})
      for (uint64_t n : {uint64_t{1}, c.values - 1, c.values}) {
        format.decode(object.data(), g, 1, begin, n, part.data());
        for (uint64_t i = 0; i < n; ++i) ASSERT_EQ(part[i], row[begin + i]) << begin << "+" << i;
      }
  }
}

TEST(GgufBlocks, HaveTheSizesOfTheTable) {
  for (const BlockCase& c : kCases) {
    const Format& format = *find_format(c.name);
    EXPECT_EQ(encoded_bytes(format, "gguf_blocks_v1", {5, 4 * c.values}, 1), 20 * c.bytes);
    EXPECT_EQ(format.group, c.values);
    EXPECT_THROW(encoded_bytes(format, "gguf_blocks_v1", {5, c.values + 1}, 1), Error);
    EXPECT_THROW(encoded_bytes(format, "row_split_k128_v1", {5, c.values}, 1), Error);
    EXPECT_THROW(encoded_bytes(format, "gguf_blocks_v1", {5, 1, c.values}, 1), Error);
  }
}

TEST(GgufBlocks, EveryScaleMustBeFinite) {
  for (const BlockCase& c : kCases)
    for (const uint64_t at : c.halves) {
      const Format& format = *find_format(c.name);
      const Geometry g{2, 2 * c.values};
      std::vector<std::byte> object;
      for (int i = 0; i < 4; ++i) {
        const auto block = golden_block(c);
        object.insert(object.end(), block.begin(), block.end());
      }
      EXPECT_NO_THROW(format.validate(object.data(), g, 0, 2));
      store_le<uint16_t>(&object[3 * c.bytes + at], 0x7C00);
      EXPECT_NO_THROW(format.validate(object.data(), g, 0, 1));
      try {
        format.validate(object.data(), g, 1, 1);
        ADD_FAILURE() << c.name;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kValue);
        EXPECT_NE(error.message().find(fmt::format("row 1 column {}", c.values)), std::string::npos)
            << error.message();
      }
    }
}

TEST(GgufBlocks, WithoutAnEncoderAreNeverEncodedFromNumbers) {
  for (const char* name :
       {"gguf_q5_0", "gguf_q2_k", "gguf_q3_k", "gguf_iq4_nl", "gguf_iq4_xs", "gguf_iq1_s"}) {
    const Format& f = *find_format(name);
    EXPECT_EQ(f.encode, nullptr);
    EXPECT_EQ(search_of(f.id), nullptr);
  }
}

}  // namespace
}  // namespace flare::codec
