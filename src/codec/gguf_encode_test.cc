// Encoders of ggml's blocks: q4_0 and q8_0 against the bytes of the reference package, K-quants by
// the error they make and by what must hold of any encoder.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "codec/golden_tensors.h"
#include "codec/search.h"
#include "codec/test_oracle.h"

namespace flare::codec {
namespace {

const FormatId kKQuants[] = {FormatId::kGgufQ4K, FormatId::kGgufQ5K, FormatId::kGgufQ6K};
const FormatId kAll[] = {FormatId::kGgufQ4_0, FormatId::kGgufQ8_0, FormatId::kGgufQ4K,
                         FormatId::kGgufQ5K, FormatId::kGgufQ6K};

TEST(GgufEncode, GivesTheBytesOfTheReferencePackage) {
  const std::filesystem::path folder =
      std::filesystem::path(FLARE_SOURCE_DIR) / "../shared/data/goldens/quantised";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  const GoldenTensors golden(folder / "gguf_blocks.safetensors");
  for (const char* type : {"q4_0", "q8_0"}) {
    const Format& f = *find_format(std::string("gguf_") + type);
    const std::vector<float> source = golden.floats(std::string(type) + ".source");
    const Geometry g{source.size() / f.group, f.group};
    ASSERT_GE(g.rows, 64u);
    EXPECT_EQ(encode_all(f, g, source), golden.bytes(std::string(type) + ".encoded")) << type;
  }
}

// By hand. The value of the largest magnitude becomes code 0 = −8 whatever its sign, the first of
// equals counts, halves go up; q8_0 rounds halves away from zero.
TEST(GgufEncode, RoundsAsTheRuleSays) {
  std::vector<float> x(32);
  x[0] = 8, x[1] = -8, x[2] = 0.5f, x[3] = -0.5f, x[4] = 1.5f;
  const Format& q4 = format(FormatId::kGgufQ4_0);
  const ByteVector four = encode_all(q4, {1, 32}, x);
  EXPECT_EQ(load_le<uint16_t>(four.data()), 0xbc00);  // −1
  const std::vector<float> decoded = decode_all(q4, {1, 32}, four.data());
  EXPECT_EQ(decoded[0], 8);
  EXPECT_EQ(decoded[1], -7);  // code 16 does not exist
  EXPECT_EQ(decoded[2], 0);   // code 7.5 + 0.5 = 8
  EXPECT_EQ(decoded[3], -1);  // code 8.5 + 0.5 = 9
  EXPECT_EQ(decoded[4], 1);   // code 6.5 + 0.5 = 7

  const Format& q8 = format(FormatId::kGgufQ8_0);
  std::fill(x.begin(), x.end(), 0.0f);
  x[0] = 127, x[1] = 0.5f, x[2] = -0.5f, x[3] = -2.5f;
  const ByteVector eight = encode_all(q8, {1, 32}, x);
  const std::vector<float> back = decode_all(q8, {1, 32}, eight.data());
  EXPECT_EQ((std::vector<float>{back[0], back[1], back[2], back[3]}),
            (std::vector<float>{127, 1, -1, -3}));
}

TEST(GgufEncode, ZerosOfEitherSignHaveScaleMinusZeroInQ4_0AndZeroElsewhere) {
  for (const FormatId id : kAll)
    for (const float zero : {0.0f, -0.0f}) {
      const Format& f = format(id);
      const Geometry g{2, 512};
      const ByteVector object = encode_all(f, g, std::vector<float>(1024, zero));
      f.validate(object.data(), g, 0, 2);
      for (const float v : decode_all(f, g, object.data())) ASSERT_EQ(v, 0) << f.name;
      if (id == FormatId::kGgufQ4_0) {
        EXPECT_EQ(load_le<uint16_t>(object.data()), 0x8000);
      }
    }
}

TEST(GgufEncode, RefusesWhatNoBlockHolds) {
  for (const FormatId id : kAll) {
    const Format& f = format(id);
    const Geometry g{3, 512};
    for (const float bad : {INFINITY, -INFINITY, NAN, 3e38f, -3e38f}) {
      std::vector<float> x = random_values(g.rows * g.cols, -3, 3, 5);
      x[2 * g.cols + 300] = bad;
      try {
        encode_all(f, g, x);
        ADD_FAILURE() << f.name << " " << bad;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kValue);
        EXPECT_TRUE(error.message().starts_with("row 2 column 300: ")) << error.message();
      }
    }
  }
}

// Of any finite numbers: legal blocks that decode to finite numbers, near the source where the
// source is not far below what fp16 scales reach.
TEST(GgufEncode, NeverMakesNanOfAnyMagnitudes) {
  for (const FormatId id : kAll) {
    const Format& f = format(id);
    const Geometry g{4, 512};
    for (const auto& [low, high] : {std::pair{-6, 6}, {-60, -10}, {-149, -100}, {8, 14}, {-20, 14}})
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const std::vector<float> x = random_values(g.rows * g.cols, low, high, seed + 90);
        const ByteVector object = encode_all(f, g, x);
        f.validate(object.data(), g, 0, g.rows);
        const std::vector<float> decoded = decode_all(f, g, object.data());
        for (const float v : decoded) ASSERT_TRUE(std::isfinite(v)) << f.name;
      }
  }
}

std::vector<float> values_of(const char* kind, uint64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  std::student_t_distribution<float> heavy(3);
  std::vector<float> out(n);
  for (float& v : out)
    v = std::string_view(kind) == "gaussian" ? normal(random) : 0.01f * heavy(random);
  return out;
}

double relative_error(const Format& f, Geometry g, const std::vector<float>& x,
                      const ByteVector& object) {
  const std::vector<float> decoded = decode_all(f, g, object.data());
  double miss = 0, signal = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    miss += std::pow(static_cast<double>(x[i]) - static_cast<double>(decoded[i]), 2);
    signal += std::pow(static_cast<double>(x[i]), 2);
  }
  return std::sqrt(miss / signal);
}

// What ggml's own quantiser (ggml-quants.c of llama-cpp-python 0.3.36, no importance matrix) makes
// of values of these kinds; see bench_codec with FLARE_GGML_LIBRARY.
TEST(GgufEncode, KQuantsMissNoMoreThanTheReferenceQuantiser) {
  struct Case {
    FormatId id;
    const char* kind;
    double most;
  };
  const Case cases[] = {
      {FormatId::kGgufQ4K, "gaussian", 0.071057}, {FormatId::kGgufQ4K, "heavy", 0.093261},
      {FormatId::kGgufQ5K, "gaussian", 0.035837}, {FormatId::kGgufQ5K, "heavy", 0.046850},
      {FormatId::kGgufQ6K, "gaussian", 0.017751}, {FormatId::kGgufQ6K, "heavy", 0.025745},
  };
  for (const Case& c : cases) {
    const Format& f = format(c.id);
    const Geometry g{64, 1024};
    const std::vector<float> x = values_of(c.kind, g.rows * g.cols, 11);
    const double error = relative_error(f, g, x, encode_all(f, g, x));
    EXPECT_LE(error, c.most) << f.name << " " << c.kind;
    EXPECT_GT(error, 0.5 * c.most) << f.name << " " << c.kind;
  }
}

// A second encoding of what was decoded adds next to nothing to the error of the first; q4_0 and
// q8_0 give the same values.
TEST(GgufEncode, EncodingDecodedValuesChangesNextToNothing) {
  for (const FormatId id : kAll) {
    const Format& f = format(id);
    const Geometry g{16, 1024};
    const std::vector<float> x = values_of("gaussian", g.rows * g.cols, 12);
    const ByteVector once = encode_all(f, g, x);
    const std::vector<float> decoded = decode_all(f, g, once.data());
    const ByteVector twice = encode_all(f, g, decoded);
    if (search_of(f.id) == nullptr) {
      EXPECT_EQ(decode_all(f, g, twice.data()), decoded) << f.name;
      continue;
    }
    EXPECT_LE(relative_error(f, g, decoded, twice), 0.25 * relative_error(f, g, x, once)) << f.name;
  }
}

// Constant and one-sided groups, one outlier, one nonzero value: the shapes that break fits.
TEST(GgufEncode, KQuantsHoldOddGroups) {
  for (const FormatId id : kKQuants) {
    const Format& f = format(id);
    const Geometry g{1, 256};
    std::vector<std::vector<float>> blocks;
    blocks.emplace_back(256, 0.75f);
    blocks.emplace_back(256, -0.75f);
    blocks.emplace_back(256, 0.0f)[200] = -3.5f;
    blocks.emplace_back(values_of("gaussian", 256, 1))[77] = 5;
    blocks.emplace_back(values_of("gaussian", 256, 2));
    for (float& v : blocks.back()) v = std::fabs(v) + 1;
    // One group of usual values, all others next to nothing beside them.
    for (const float tiny : {1e-20f, 1e-38f, 1e-44f}) {
      blocks.emplace_back(values_of("gaussian", 256, 3));
      for (size_t i = 64; i < 256; ++i) blocks.back()[i] = i % 3 == 0 ? -tiny : tiny;
    }
    // Beside the outlier a group's small values are lost: 0.02·√31 / 5.
    const double most[] = {0.02, 0.02, 0.02, 0.025, 0.03, 0.08, 0.08, 0.08};
    for (size_t i = 0; i < blocks.size(); ++i) {
      const ByteVector object = encode_all(f, g, blocks[i]);
      f.validate(object.data(), g, 0, 1);
      EXPECT_LE(relative_error(f, g, blocks[i], object), most[i]) << f.name << " block " << i;
    }
  }
}

TEST(GgufEncode, KQuantsHeedTheImportanceOfColumns) {
  for (const FormatId id : kKQuants) {
    const Format& f = format(id);
    const Geometry g{8, 512};
    const std::vector<float> x = values_of("gaussian", g.rows * g.cols, 13);
    std::vector<float> w(g.cols);
    for (uint64_t c = 0; c < g.cols; ++c) w[c] = c % 5 == 0 ? 100.0f : 0.01f;
    const auto weighted_error = [&](const ByteVector& object) {
      const std::vector<float> decoded = decode_all(f, g, object.data());
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i)
        sum += w[i % g.cols] *
               std::pow(static_cast<double>(x[i]) - static_cast<double>(decoded[i]), 2);
      return sum;
    };
    ByteVector object(f.planes(g).total_bytes);
    std::byte* dst[kMaxPlanes] = {object.data()};
    search_of(f.id)(x.data(), g.rows, g, w.data(), dst);
    f.validate(object.data(), g, 0, g.rows);
    EXPECT_LT(weighted_error(object), 0.8 * weighted_error(encode_all(f, g, x))) << f.name;
  }
}

TEST(GgufEncode, WritesEveryByteOfItsRowsAndNoOther) {
  for (const FormatId id : kAll) {
    const Format& f = format(id);
    const Geometry g{4, 512};
    const std::vector<float> x = values_of("heavy", g.rows * g.cols, 14);
    const ByteVector whole = encode_all(f, g, x);
    ByteVector poisoned(whole.size(), std::byte{0xa5});
    encode_rows(f, g, x.data() + g.cols, 1, 2, poisoned.data());
    const uint64_t row = f.planes(g).plane[0].row_bytes;
    for (size_t i = 0; i < whole.size(); ++i)
      ASSERT_EQ(poisoned[i], i >= row && i < 3 * row ? whole[i] : std::byte{0xa5}) << f.name;
  }
}

}  // namespace
}  // namespace flare::codec
