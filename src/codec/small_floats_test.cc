// fp8 rows and nvfp4: golden vectors of artifact.md §18.7 to §18.9, properties, validity.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/hash/sha256.h"
#include "base/test_support.h"
#include "codec/float4.h"
#include "codec/golden_tensors.h"
#include "codec/nvfp4.h"
#include "codec/test_oracle.h"

namespace flare::codec {
namespace {

std::filesystem::path golden_folder() {
  return std::filesystem::path(FLARE_SOURCE_DIR) / "../shared/data/goldens/quantised";
}

int word_at(const ByteVector& object, uint64_t at) { return std::to_integer<int>(object[at]); }

TEST(SmallFloats, WordsAreThoseOfTheReferenceLibraries) {
  if (!std::filesystem::exists(golden_folder())) GTEST_SKIP() << golden_folder() << " is absent";
  std::ifstream file(golden_folder() / "elements.json");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const Json elements = parse_json(text, "elements.json");
  const auto bits_of = [](const Json& word) {
    return static_cast<uint32_t>(std::stoul(word.as_string(), nullptr, 16));
  };
  const Json::Array& fours = elements.at("decode").at("e2m1").as_array();
  ASSERT_EQ(fours.size(), 16u);
  for (size_t i = 0; i < 16; ++i)
    EXPECT_EQ(std::bit_cast<uint32_t>(kE2m1Values[i]), bits_of(fours[i])) << i;
  const Json& rounded = elements.at("round").at("e2m1");
  const std::string& in = rounded.at("in").as_string();
  const std::string& out = rounded.at("out").as_string();
  ASSERT_EQ(in.size(), 8 * out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const auto value =
        std::bit_cast<float>(static_cast<uint32_t>(std::stoul(in.substr(8 * i, 8), nullptr, 16)));
    const int expected = std::stoi(out.substr(i, 1), nullptr, 16);
    const int got = f32_to_e2m1(value);
    // The reference writes +0 for −0; we keep the sign (§8.5).
    ASSERT_TRUE(got == expected || (expected == 0 && got == 8)) << value << ": " << got;
  }
}

TEST(Fp8Row, MatchesTheGoldenRow) {
  const std::vector<float> values = {448, 1.0625, 1.1875, -1.0625, -1.1875, -0.0f, 0, 0x1p-10f};
  const int expected[] = {0x7E, 0x38, 0x3A, 0xB8, 0xBA, 0x80, 0x00, 0x00};
  const Geometry g{1, 8};
  const ByteVector far = encode_all(format(FormatId::kFp8RowBf16), g, values);
  ASSERT_EQ(far.size(), 258u);
  EXPECT_EQ(load_le<uint16_t>(&far[256]), 0x3F80);
  const ByteVector near = encode_all(format(FormatId::kFp8RowFp16), g, values);
  ASSERT_EQ(near.size(), 10u);
  EXPECT_EQ(load_le<uint16_t>(&near[8]), 0x3C00);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(word_at(far, i), expected[i]) << i;
    EXPECT_EQ(word_at(near, i), expected[i]) << i;
  }
}

TEST(Fp8Row, TheSmallestRowsAreRefusedOrKeptAsTheGoldenOnes) {
  const Format& f = format(FormatId::kFp8RowBf16);
  EXPECT_EQ(error_of([&] { encode_all(f, {1, 2}, {0x1p-120f, 0}); }).code(), Code::kValue);
  const ByteVector object = encode_all(f, {1, 2}, {0x1p-119f, 0});
  EXPECT_EQ(load_le<uint16_t>(&object[256]), 0x0025);
  const ByteVector zeros = encode_all(f, {1, 2}, {-0.0f, 0});
  EXPECT_EQ(word_at(zeros, 0) | word_at(zeros, 1) | word_at(zeros, 256) | word_at(zeros, 257), 0);
  const float inf = std::numeric_limits<float>::infinity();
  const Error error = error_of([&] { encode_all(f, {1, 3}, {1, inf, 2}); });
  EXPECT_NE(error.message().find("row 0 column 1"), std::string::npos) << error.message();
}

TEST(Fp8Row, ValuesComeBackWithinHalfAStep) {
  for (const FormatId id : {FormatId::kFp8RowBf16, FormatId::kFp8RowFp16}) {
    const Format& f = format(id);
    const Geometry g{5, 37};
    const std::vector<float> values = random_values(g.rows * g.cols, -3, 3, 7);
    const ByteVector object = encode_all(f, g, values);
    ASSERT_EQ(object.size(), f.planes(g).total_bytes);
    f.validate(object.data(), g, 0, g.rows);
    const std::vector<float> back = decode_all(f, g, object.data());
    for (uint64_t r = 0; r < g.rows; ++r) {
      float largest = 0;
      for (uint64_t c = 0; c < g.cols; ++c)
        largest = std::max(largest, std::fabs(values[r * g.cols + c]));
      for (uint64_t c = 0; c < g.cols; ++c) {
        const float x = values[r * g.cols + c];
        // Three bits of mantissa, bf16 of the source, a scale that is rounded, and subnormals.
        const float bound = std::fabs(x) * 0.075f + largest * 0x1p-18f;
        ASSERT_NEAR(back[r * g.cols + c], x, bound) << f.name << " " << r << " " << c;
      }
    }
    EXPECT_EQ(encode_all(f, g, back), object) << "decoded values are their own encoding";
  }
}

TEST(Fp8Row, IllegalWordsAreNamed) {
  const Geometry g{2, 3};
  const ByteVector good = encode_all(format(FormatId::kFp8RowFp16), g, {1, 2, 3, 4, 5, 6});
  const auto refused = [&](uint64_t at, int value, std::string_view place) {
    ByteVector object = good;
    object[at] = static_cast<std::byte>(value);
    const Error error =
        error_of([&] { format(FormatId::kFp8RowFp16).validate(object.data(), g, 0, 2); });
    EXPECT_EQ(error.code(), Code::kValue);
    EXPECT_NE(error.message().find(place), std::string::npos) << error.message();
  };
  refused(6, 0x7f, "row 1 column 1");
  refused(6, 0xff, "row 1 column 1");
  refused(4, 0x7c, "row 0");
  refused(4, 0x80 | word_at(good, 4), "row 0");
  ByteVector zero = good;
  store_le<uint16_t>(&zero[3], 0);
  EXPECT_EQ(error_of([&] { format(FormatId::kFp8RowFp16).validate(zero.data(), g, 0, 1); }).code(),
            Code::kValue);
}

// ---- nvfp4

ByteVector golden_nvfp4(Geometry g, const std::vector<float>& divisors, bool patched) {
  ByteVector object(format(FormatId::kNvfp4).planes(g).total_bytes);
  for (uint64_t i = 0; i < g.rows * g.cols / 2; ++i) object[i] = static_cast<std::byte>(i % 256);
  if (patched) object[0] = std::byte{0x10};
  const uint64_t scales = format(FormatId::kNvfp4).planes(g).plane[1].offset;
  for (uint64_t n = 0; n < g.rows; ++n)
    for (uint64_t group = 0; group < g.cols / 16; ++group)
      object[scales + nvfp4_scale_offset(g, n, group)] =
          static_cast<std::byte>((4 * n + group) % 127);
  nvfp4_set_divisors(g, divisors.data(), object.data());
  return object;
}

TEST(Nvfp4, MatchesTheGoldenObjects) {
  const ByteVector one = golden_nvfp4({128, 64}, {2.5}, true);
  EXPECT_EQ(one.size(), 4612u);
  EXPECT_EQ(sha256_hex(one), "ed8a127bc075654e3acbda5d7c66fff8647c48022d75a78a1dc72bef67780207");
  const Geometry g{256, 64, 2};
  const ByteVector two = golden_nvfp4(g, {2.5, 0.5}, false);
  EXPECT_EQ(two.size(), 9224u);
  EXPECT_EQ(sha256_hex(two).substr(0, 16), "7b8e94bc9c67c0d2");
  std::vector<float> row(64);
  const Format& f = format(FormatId::kNvfp4);
  const auto value = [&](uint64_t n, uint64_t k) {
    f.decode(two.data(), g, n, 0, 64, row.data());
    return row[k];
  };
  EXPECT_EQ(value(127, 63), -0.01406249962747097f);
  EXPECT_EQ(value(200, 33), 0.25f);
  EXPECT_EQ(value(255, 62), -0.1640625f);
  f.validate(two.data(), g, 0, 256);
}

TEST(Nvfp4, TheScaleMapIsTheGoldenOne) {
  const Geometry g{14336, 5120};
  const struct {
    uint64_t row, group, at;
  } cases[] = {{0, 0, 0},  {0, 3, 3},     {0, 4, 512},     {1, 0, 16},           {31, 3, 499},
               {32, 0, 4}, {127, 3, 511}, {128, 0, 40960}, {14335, 319, 4587519}};
  for (const auto& c : cases) EXPECT_EQ(nvfp4_scale_offset(g, c.row, c.group), c.at);
}

ByteVector encode_parent(Geometry g, const std::vector<float>& values, float* divisor) {
  float largest = 0;
  for (const float v : values) largest = std::max(largest, std::fabs(v));
  *divisor = nvfp4_divisor(largest);
  ByteVector object(format(FormatId::kNvfp4).planes(g).total_bytes);
  nvfp4_encode_rows(values.data(), 0, g.rows, g, *divisor, object.data());
  nvfp4_set_divisors(g, divisor, object.data());
  return object;
}

TEST(Nvfp4, EncodesTheGoldenBlocks) {
  const Geometry g{128, 64};
  const uint64_t scales = format(FormatId::kNvfp4).planes(g).plane[1].offset;
  std::vector<float> values(128 * 64);
  const float block[] = {3, -1.5, .5,  .25,  -.125, 0,   -0.0f, 1,
                         2, -2.5, .75, 1.25, -1.75, .1f, -.2f,  2.9f};
  std::copy(std::begin(block), std::end(block), values.begin());
  float divisor = 0;
  const ByteVector one = encode_parent(g, values, &divisor);
  EXPECT_EQ(divisor, 896);
  EXPECT_EQ(word_at(one, scales), 0x7E);
  const int expected[] = {0xD7, 0x12, 0x08, 0x48, 0xE6, 0x43, 0x0E, 0x79};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(word_at(one, i), expected[i]) << i;

  std::fill(values.begin(), values.end(), 0.0f);
  values[0] = 1;
  values[16] = 1e-6f, values[17] = -1e-6f, values[18] = 5e-7f;
  const ByteVector two = encode_parent(g, values, &divisor);
  EXPECT_EQ(divisor, 2688);
  EXPECT_EQ(word_at(two, scales), 0x7E);
  EXPECT_EQ(word_at(two, scales + nvfp4_scale_offset(g, 0, 1)), 0x00);
  for (int i = 8; i < 16; ++i) EXPECT_EQ(word_at(two, i), 0);
}

TEST(Nvfp4, ValuesComeBackWithinHalfAStep) {
  const Geometry g{256, 128};
  std::vector<float> values = random_values(g.rows * g.cols, -3, 3, 11);
  float divisor = 0;
  const ByteVector object = encode_parent(g, values, &divisor);
  format(FormatId::kNvfp4).validate(object.data(), g, 0, g.rows);
  const std::vector<float> back = decode_all(format(FormatId::kNvfp4), g, object.data());
  for (uint64_t i = 0; i < values.size(); i += 16) {
    float largest = 0;
    for (uint64_t k = 0; k < 16; ++k) largest = std::max(largest, std::fabs(values[i + k]));
    // Half the largest step of E2M1, 1 of 6, and a scale rounded to three bits of mantissa.
    for (uint64_t k = 0; k < 16; ++k)
      ASSERT_NEAR(back[i + k], values[i + k], largest / 6 * 1.07f + largest * 0.0626f) << i + k;
  }
}

TEST(Nvfp4, ShapesAndWordsThatDoNotFitAreRefused) {
  const Format& f = format(FormatId::kNvfp4);
  EXPECT_EQ(encoded_bytes(f, f.layout_name, {256, 64}, 1), 9220u);
  EXPECT_EQ(encoded_bytes(f, f.layout_name, {256, 64}, 2), 9224u);
  EXPECT_EQ(encoded_bytes(f, f.layout_name, {14336, 5120}, 1), 41287684u);
  for (const auto& [shape, divisors] : std::vector<std::pair<Shape, uint64_t>>{
           {{64, 64}, 1}, {{128, 32}, 1}, {{256, 64}, 4}, {{256, 64}, 3}, {{128, 64}, 2}})
    EXPECT_EQ(error_of([&] { encoded_bytes(f, f.layout_name, shape, divisors); }).code(),
              Code::kEncoding);
  const Geometry g{128, 64};
  ByteVector object = golden_nvfp4(g, {2.5}, true);
  object[f.planes(g).plane[1].offset + 16] = std::byte{0x7f};
  const Error error = error_of([&] { f.validate(object.data(), g, 0, 128); });
  EXPECT_NE(error.message().find("row 1 column 0"), std::string::npos) << error.message();
  for (const float bad : {0.0f, -1.0f, std::numeric_limits<float>::infinity()}) {
    const ByteVector other = golden_nvfp4(g, {bad}, true);
    EXPECT_EQ(error_of([&] { f.validate(other.data(), g, 0, 1); }).code(), Code::kValue);
  }
  EXPECT_EQ(error_of([&] { nvfp4_divisor(0x1p-140f); }).code(), Code::kValue);
}

}  // namespace
}  // namespace flare::codec
