// Promises of float_types.h: every word widens exactly, and rounding agrees with numpy.
#include "base/float_types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/test_support.h"

namespace flare {
namespace {

TEST(FloatTypes, EveryBf16WordSurvivesTheRoundTrip) {
  for (uint32_t word = 0; word < 65536; ++word) {
    const auto w = static_cast<uint16_t>(word);
    const float value = bf16_to_f32(w);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value)))) << word;
    } else {
      ASSERT_EQ(f32_to_bf16(value), w);
    }
  }
}

TEST(FloatTypes, EveryFp16WordHasItsIeeeValueAndSurvivesTheRoundTrip) {
  for (uint32_t word = 0; word < 65536; ++word) {
    const auto w = static_cast<uint16_t>(word);
    const float value = fp16_to_f32(w);
    const int exponent = (word >> 10) & 31;
    const int mantissa = word & 1023;
    ASSERT_EQ(std::signbit(value), (word & 0x8000) != 0);
    if (exponent == 31) {
      ASSERT_EQ(std::isnan(value), mantissa != 0);
      ASSERT_EQ(std::isinf(value), mantissa == 0);
    } else {
      const double expected =
          exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
      ASSERT_EQ(std::fabs(static_cast<double>(value)), expected) << word;
    }
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(fp16_to_f32(f32_to_fp16(value)))) << word;
    } else {
      ASSERT_EQ(f32_to_fp16(value), w);
    }
  }
}

// The value of an E4M3FN code by the definition of the format.
double e4m3_by_definition(int code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1 + mantissa / 8.0, exponent - 7);
  return code & 0x80 ? -magnitude : magnitude;
}

TEST(FloatTypes, EveryE4m3CodeHasItsValueAndSurvivesTheRoundTrip) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_f32(static_cast<uint8_t>(code));
    ASSERT_EQ(std::signbit(value), (code & 0x80) != 0);
    if ((code & 0x7f) == 0x7f) {
      ASSERT_TRUE(std::isnan(value));
    } else {
      ASSERT_EQ(value, e4m3_by_definition(code)) << code;
    }
    ASSERT_EQ(f32_to_e4m3(value), code);
  }
}

TEST(FloatTypes, E4m3RoundsToNearestTiesToEvenAndSaturates) {
  for (int code = 0; code < 0x7e; ++code) {
    const double low = e4m3_by_definition(code);
    const double high = e4m3_by_definition(code + 1);
    const auto middle = static_cast<float>((low + high) / 2);  // exact
    const int even = code % 2 == 0 ? code : code + 1;
    for (int sign : {0, 0x80}) {
      const float s = sign ? -1.0f : 1.0f;
      ASSERT_EQ(f32_to_e4m3(s * middle), even | sign) << code;
      ASSERT_EQ(f32_to_e4m3(s * std::nextafter(middle, 0.0f)), code | sign) << code;
      ASSERT_EQ(f32_to_e4m3(s * std::nextafter(middle, 1e9f)), (code + 1) | sign) << code;
    }
  }
  for (float big : {448.0f, 449.0f, 464.0f, 480.0f, 1e30f, HUGE_VALF}) {
    EXPECT_EQ(f32_to_e4m3(big), 0x7e) << big;
    EXPECT_EQ(f32_to_e4m3(-big), 0xfe) << big;
  }
  EXPECT_EQ(f32_to_e4m3(std::numeric_limits<float>::denorm_min()), 0);
}

// Words at which a rounding can go wrong: each representable value of 16 bits, the middle between
// it and the next, one binary32 step around both; and random words.
std::vector<uint32_t> interesting_words() {
  std::vector<uint32_t> words;
  for (uint32_t half = 0; half < 0x7c00; ++half) {
    const float low = fp16_to_f32(static_cast<uint16_t>(half));
    // The middle above 65504 is 65520, where infinity begins.
    const float high = half == 0x7bff ? 65536.0f : fp16_to_f32(static_cast<uint16_t>(half + 1));
    for (float value : {low, low + (high - low) / 2}) {
      const uint32_t bits = std::bit_cast<uint32_t>(value);
      for (uint32_t near : {bits - 1, bits, bits + 1}) {
        words.push_back(near & 0x7fffffff);
        words.push_back(near | 0x80000000);
      }
    }
  }
  for (uint32_t top = 0; top < 65536; ++top)
    for (uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      words.push_back(top << 16 | low);
  std::mt19937 random(20240611);
  for (int i = 0; i < 200000; ++i) words.push_back(static_cast<uint32_t>(random()));
  return words;
}

// numpy rounds to float16 itself; bfloat16 it does not know, so the nearer of the two neighbours
// is chosen in float64, where all differences are exact.
constexpr const char* kOracle = R"py(
import sys
import numpy as np
folder = sys.argv[1]
words = np.fromfile(folder + "/words", np.uint32)
with np.errstate(all="ignore"):
    words.view(np.float32).astype(np.float16).view(np.uint16).tofile(folder + "/fp16")
    low = words & np.uint32(0xffff0000)
    magnitude = low & np.uint32(0x7fffffff)
    high = magnitude + np.uint32(0x10000)
    def value(w):
        v = w.view(np.float32).astype(np.float64)
        return np.where(w == 0x7f800000, 2.0 ** 128, v)
    x = np.abs(words.view(np.float32).astype(np.float64))
    down, up = x - value(magnitude), value(high) - x
    odd = (low >> np.uint32(16)) & np.uint32(1) == 1
    go_up = (up < down) | ((up == down) & odd)
    rounded = np.where(go_up, high, magnitude) | (low & np.uint32(0x80000000))
    rounded = np.where(np.isinf(x), low, rounded)
    (rounded >> np.uint32(16)).astype(np.uint16).tofile(folder + "/bf16")
)py";

template <typename T>
std::vector<T> read_words(const std::filesystem::path& path) {
  std::vector<T> words(std::filesystem::file_size(path) / sizeof(T));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(words.data()),
            static_cast<std::streamsize>(words.size() * sizeof(T)));
  return words;
}

TEST(FloatTypes, RoundingToNearestEvenAgreesWithNumpy) {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0)
    GTEST_SKIP() << "/usr/bin/python3 with numpy is not installed";
  const TemporaryFolder folder;
  const std::vector<uint32_t> words = interesting_words();
  std::ofstream(folder / "words", std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()),
             static_cast<std::streamsize>(words.size() * sizeof(uint32_t)));
  std::ofstream(folder / "oracle.py") << kOracle;
  const std::string name = folder.path().string();
  ASSERT_EQ(std::system(("/usr/bin/python3 '" + name + "/oracle.py' '" + name + "'").c_str()), 0);
  const auto fp16 = read_words<uint16_t>(folder / "fp16");
  const auto bf16 = read_words<uint16_t>(folder / "bf16");
  ASSERT_EQ(fp16.size(), words.size());
  ASSERT_EQ(bf16.size(), words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    const float value = std::bit_cast<float>(words[i]);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(fp16_to_f32(f32_to_fp16(value)))) << std::hex << words[i];
      ASSERT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value)))) << std::hex << words[i];
      continue;
    }
    ASSERT_EQ(f32_to_fp16(value), fp16[i]) << std::hex << words[i];
    ASSERT_EQ(f32_to_bf16(value), bf16[i]) << std::hex << words[i];
  }
}

}  // namespace
}  // namespace flare
