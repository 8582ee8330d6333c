// The vector header at every level of this machine.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "base/float_types.h"

#define FLARE_BODY "kernel/cpu/vec_test.inl.h"
#include "kernel/cpu/each_level.h"

namespace flare::kernel {
namespace {

struct Level {
  Isa isa;
  int lanes;
  void (*exp_of)(const float*, int64_t, float*);
  void (*bf16_of)(const float*, int64_t, uint16_t*);
  void (*f32_of)(const uint16_t*, int64_t, float*);
  void (*f8_of)(const float*, int64_t, uint8_t*);
  void (*sums_of)(const float*, float*);
};
std::vector<Level> vector_levels() {
  const Level all[] = {{Isa::kV2, 4, v2::exp_of, v2::bf16_of, v2::f32_of, v2::f8_of, v2::sums_of},
                       {Isa::kV3, 8, v3::exp_of, v3::bf16_of, v3::f32_of, v3::f8_of, v3::sums_of},
                       {Isa::kV4, 16, v4::exp_of, v4::bf16_of, v4::f32_of, v4::f8_of, v4::sums_of}};
  std::vector<Level> out;
  for (const Level& level : all)
    if (level.isa <= machine_isa().value_or(Isa::kV2)) out.push_back(level);
  return out;
}

TEST(Vec, ExpIsWithinTwoUlpOfANormalResult) {
  std::vector<float> x;
  for (double v = -87.3; v < 88.7; v += 0.00037) x.push_back(static_cast<float>(v));
  for (const Level& level : vector_levels()) {
    std::vector<float> y(x.size());
    level.exp_of(x.data(), static_cast<int64_t>(x.size()), y.data());
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(static_cast<double>(x[i]));
      const double ulp = std::ldexp(1.0, std::ilogb(want) - 23);
      worst = std::max(worst, std::abs(y[i] - want) / ulp);
    }
    EXPECT_LE(worst, 2) << isa_name(level.isa);
  }
}

TEST(Vec, ExpOfTheEndsIsZeroOneInfinityOrNaN) {
  const float inf = std::numeric_limits<float>::infinity();
  const float x[] = {0, -0.0f, -inf, inf, -1e30f, 1e30f, 89, NAN, -104};
  const float want[] = {1, 1, 0, inf, 0, inf, inf, NAN, 0};
  for (const Level& level : vector_levels()) {
    float y[std::size(x)];
    level.exp_of(x, std::size(x), y);
    for (size_t i = 0; i < std::size(x); ++i) {
      if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(y[i]));
      } else {
        EXPECT_EQ(y[i], want[i]) << x[i] << " at " << isa_name(level.isa);
      }
    }
  }
}

TEST(Vec, Bf16RoundsLikeTheScalarConversion) {
  std::vector<float> x;
  for (uint32_t upper = 0; upper < 0x10000; upper += 7)
    for (uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      x.push_back(std::bit_cast<float>(upper << 16 | lower));
  x.push_back(1.5f);  // a count that is no multiple of any width
  for (const Level& level : vector_levels()) {
    std::vector<uint16_t> words(x.size());
    level.bf16_of(x.data(), static_cast<int64_t>(x.size()), words.data());
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(words[i], f32_to_bf16(x[i])) << std::bit_cast<uint32_t>(x[i]);
    std::vector<float> back(x.size());
    level.f32_of(words.data(), static_cast<int64_t>(x.size()), back.data());
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(bf16_to_f32(words[i])));
  }
}

TEST(Vec, E4m3RoundsLikeTheScalarConversion) {
  std::vector<float> x;
  for (uint32_t code = 0; code < 256; ++code) {
    // Every code's own value, the middle to the next one, and a step around both.
    const float value = e4m3_to_f32(static_cast<uint8_t>(code));
    const float next = e4m3_to_f32(static_cast<uint8_t>(code + 1));
    for (float v : {value, (value + next) / 2})
      for (float w : {v, std::nextafter(v, 1e9f), std::nextafter(v, -1e9f)}) x.push_back(w);
  }
  for (uint32_t upper = 0; upper < 0x10000; upper += 5)
    x.push_back(std::bit_cast<float>(upper << 16 | 0x8001));
  while (x.size() % 16 != 3) x.push_back(0.3f);  // a count that is no multiple of any width
  for (const Level& level : vector_levels()) {
    std::vector<uint8_t> codes(x.size());
    level.f8_of(x.data(), static_cast<int64_t>(x.size()), codes.data());
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(codes[i], f32_to_e4m3(x[i])) << x[i] << " at " << isa_name(level.isa);
  }
}

// Sixteen values below 1, added pairwise: 8, 4, 2 and 1 sums below 2, 4, 8 and 16, each rounded by
// half an ulp.
constexpr double kSumTolerance = 0x1p-19;

TEST(Vec, ASumHasTheSameBitsInEveryPlace) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> value(-1, 1);
  for (const Level& level : vector_levels())
    for (int round = 0; round < 100; ++round) {
      float x[32];
      for (float& v : x) v = value(random);
      float sums[16];
      level.sums_of(x, sums);
      double want[2] = {0, 0};
      for (int i = 0; i < level.lanes; ++i) {
        want[0] += x[i];
        want[1] += x[level.lanes + i];
      }
      for (int place = 0; place < 4; ++place)
        for (int i = 0; i < 4; ++i) {
          ASSERT_EQ(sums[4 * place + i], sums[place == i ? 0 : 1]);
          ASSERT_NEAR(sums[4 * place + i], want[place == i ? 0 : 1], kSumTolerance);
        }
    }
}

}  // namespace
}  // namespace flare::kernel
