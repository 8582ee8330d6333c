// bf16, fp16, fp32 and int32: every word, every rounding rule, every refusal of cast_direct.
#include <gtest/gtest.h>

#include <cfloat>
#include <limits>

#include "base/error.h"
#include "codec/test_oracle.h"

namespace flare::codec {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Value of a binary16 or bf16 word by its definition; NaN for NaN.
double half_value(uint16_t word, int mantissa_bits, int bias) {
  const double sign = word & 0x8000 ? -1 : 1;
  const int mantissa = word & ((1 << mantissa_bits) - 1);
  const int exponent = (word & 0x7fff) >> mantissa_bits;
  const int top = (1 << (15 - mantissa_bits)) - 1;
  if (exponent == top) return mantissa == 0 ? sign * kInf : kNan;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

struct HalfCase {
  FormatId id;
  int mantissa_bits;
  int bias;
};

class HalfFormat : public testing::TestWithParam<HalfCase> {};

TEST_P(HalfFormat, DecodesEveryWordExactly) {
  const Format& f = format(GetParam().id);
  std::vector<uint16_t> words(65536);
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint16_t>(i);
  const auto* object = reinterpret_cast<const std::byte*>(words.data());
  const Geometry g{256, 256};
  const std::vector<float> values = decode_all(f, g, object);
  for (size_t i = 0; i < words.size(); ++i) {
    const double expected = half_value(words[i], GetParam().mantissa_bits, GetParam().bias);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(values[i])) << i;
    } else {
      ASSERT_EQ(values[i], expected) << i;
      ASSERT_EQ(std::signbit(values[i]), i >= 0x8000) << i;
    }
  }
}

TEST_P(HalfFormat, EncodingADecodedFiniteWordGivesTheWord) {
  const Format& f = format(GetParam().id);
  const int inf_word = (1 << 15) - (1 << GetParam().mantissa_bits);
  std::vector<float> values;
  std::vector<uint16_t> words;
  for (int sign : {0, 0x8000})
    for (int word = 0; word < inf_word; ++word) {
      words.push_back(static_cast<uint16_t>(word | sign));
      values.push_back(
          static_cast<float>(half_value(words.back(), GetParam().mantissa_bits, GetParam().bias)));
    }
  const ByteVector object = encode_all(f, {1, values.size()}, values);
  ASSERT_EQ(std::memcmp(object.data(), words.data(), object.size()), 0);
}

TEST_P(HalfFormat, RoundsToNearestAndTiesToEven) {
  const Format& f = format(GetParam().id);
  const int m = GetParam().mantissa_bits, bias = GetParam().bias;
  const int last = (1 << 15) - (1 << m) - 2;  // below the largest finite word
  for (int word = 0; word < last; word += 1 + word % 37) {
    const double low = half_value(static_cast<uint16_t>(word), m, bias);
    const double high = half_value(static_cast<uint16_t>(word + 1), m, bias);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(middle, (low + high) / 2);
    const std::vector<float> values = {std::nextafter(middle, 0.0f), middle,
                                       std::nextafter(middle, kInf), -middle};
    const ByteVector object = encode_all(f, {4, 1}, values);
    const int even = word % 2 == 0 ? word : word + 1;
    ASSERT_EQ(load_le<uint16_t>(object.data()), word);
    ASSERT_EQ(load_le<uint16_t>(object.data() + 2), even);
    ASSERT_EQ(load_le<uint16_t>(object.data() + 4), word + 1);
    ASSERT_EQ(load_le<uint16_t>(object.data() + 6), even | 0x8000);
  }
}

INSTANTIATE_TEST_SUITE_P(All, HalfFormat,
                         testing::Values(HalfCase{FormatId::kBf16, 7, 127},
                                         HalfCase{FormatId::kFp16, 10, 15}),
                         [](const auto& info) { return std::string(format(info.param.id).name); });

void expect_refused(FormatId id, float value) {
  std::vector<float> values(15, 1.0f);
  values[13] = value;
  try {
    encode_all(format(id), {3, 5}, values);
    ADD_FAILURE() << format(id).name << " accepts " << value;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kValue);
    EXPECT_TRUE(error.message().starts_with("row 2 column 3: ")) << error.message();
  }
}

TEST(CastDirect, RefusesWhatHasNoFiniteWord) {
  for (const FormatId id : {FormatId::kBf16, FormatId::kFp16, FormatId::kFp32, FormatId::kInt32})
    for (const float bad : {kNan, -kNan, kInf, -kInf}) expect_refused(id, bad);
  expect_refused(FormatId::kBf16, FLT_MAX);
  for (const float bad : {65520.0f, -65520.0f, 1e6f}) expect_refused(FormatId::kFp16, bad);
  encode_all(format(FormatId::kFp16), {1, 1}, {65519.996f});
  encode_all(format(FormatId::kBf16), {1, 1}, {std::bit_cast<float>(0x7f7f7fffu)});
}

TEST(CastDirect, Int32TakesIntegersInRangeOnly) {
  for (const float bad : {0.5f, -1.25f, 2147483648.0f, -2147483904.0f, 1e30f, 0x1p-149f})
    expect_refused(FormatId::kInt32, bad);
  const std::vector<float> values = {0, -0.0f, -1, 16777216, 2147483520.0f, -2147483648.0f};
  const ByteVector object = encode_all(format(FormatId::kInt32), {1, values.size()}, values);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(load_le<int32_t>(object.data() + 4 * i), static_cast<double>(values[i]));
}

TEST(CastDirect, Fp32KeepsEveryFiniteWord) {
  std::mt19937 random(3);
  std::vector<float> values;
  for (const uint32_t word : {0u, 0x80000000u, 1u, 0x7f7fffffu, 0xff7fffffu})
    values.push_back(std::bit_cast<float>(word));
  while (values.size() < 1000) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isfinite(value)) values.push_back(value);
  }
  const ByteVector object = encode_all(format(FormatId::kFp32), {10, 100}, values);
  EXPECT_EQ(std::memcmp(object.data(), values.data(), object.size()), 0);
  const std::vector<float> back = decode_all(format(FormatId::kFp32), {10, 100}, object.data());
  EXPECT_EQ(std::memcmp(back.data(), values.data(), object.size()), 0);
}

TEST(CastDirect, DecodesTilesAtAnyAlignment) {
  for (const FormatId id : {FormatId::kBf16, FormatId::kFp16, FormatId::kFp32, FormatId::kInt32}) {
    const Geometry g{3, 11};
    std::vector<float> values(33);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 16;
    const ByteVector object = encode_all(format(id), g, values);
    ByteVector shifted(object.size() + 3);
    std::copy(object.begin(), object.end(), shifted.begin() + 3);
    std::vector<float> tile(6, 99.0f);
    format(id).decode(shifted.data() + 3, g, 2, 4, 5, tile.data());
    EXPECT_TRUE(std::equal(tile.begin(), tile.begin() + 5, values.begin() + 26));
    EXPECT_EQ(tile[5], 99.0f);
  }
}

}  // namespace
}  // namespace flare::codec
