// Loops that do nothing but read, or nothing but multiply and add.
#include "machine/peaks.h"

#include <immintrin.h>
#include <time.h>

#include <algorithm>
#include <atomic>

#include "kernel/cpu/isa_region.h"

namespace flare::bench {
namespace {

constexpr int64_t kSteps = 400000;
constexpr int kChains = 12;  // independent sums: more than latency times throughput anywhere

// Runs `step`, an expression in `sum`, on every chain kSteps times; the result depends on all.
// Named variables: g++ would keep an array in memory.
#define FLARE_CHAINS(Vector, zero, step, to_word)                                                \
  Vector a0 = zero, a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0;                                 \
  Vector b0 = zero, b1 = b0, b2 = b0, b3 = b0, b4 = b0, b5 = b0;                                 \
  const auto next = [&](Vector& sum) {                                                           \
    sum = step;                                                                                  \
    __asm__ volatile("" : "+v"(sum));                                                            \
  };                                                                                             \
  for (int64_t i = 0; i < kSteps; ++i) {                                                         \
    next(a0), next(a1), next(a2), next(a3), next(a4), next(a5);                                  \
    next(b0), next(b1), next(b2), next(b3), next(b4), next(b5);                                  \
  }                                                                                              \
  const auto word = [](const Vector& sum) { return to_word; };                                   \
  return word(a0) + word(a1) + word(a2) + word(a3) + word(a4) + word(a5) + word(b0) + word(b1) + \
         word(b2) + word(b3) + word(b4) + word(b5)

}  // namespace

namespace v2 {
int int8(int seed) {
  const __m128i a = _mm_set1_epi8(static_cast<char>(seed));
  FLARE_CHAINS(__m128i, _mm_set1_epi32(seed), _mm_add_epi16(sum, _mm_maddubs_epi16(a, sum)),
               _mm_cvtsi128_si32(sum));
}
int f32(int seed) {
  const __m128 a = _mm_set1_ps(static_cast<float>(seed) * 1e-3f);
  FLARE_CHAINS(__m128, _mm_set1_ps(1), _mm_add_ps(_mm_mul_ps(a, sum), a), _mm_cvttss_si32(sum));
}
}  // namespace v2

FLARE_TARGET_BEGIN(FLARE_TARGET_V3)
namespace v3 {
int int8(int seed) {
  const __m256i a = _mm256_set1_epi8(static_cast<char>(seed));
  FLARE_CHAINS(__m256i, _mm256_set1_epi32(seed),
               _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, sum)),
               _mm_cvtsi128_si32(_mm256_castsi256_si128(sum)));
}
int f32(int seed) {
  const __m256 a = _mm256_set1_ps(static_cast<float>(seed) * 1e-3f);
  FLARE_CHAINS(__m256, _mm256_set1_ps(1), _mm256_fmadd_ps(a, a, sum),
               _mm_cvttss_si32(_mm256_castps256_ps128(sum)));
}
}  // namespace v3
FLARE_TARGET_END

FLARE_TARGET_BEGIN(FLARE_TARGET_V4)
namespace v4 {
int f32(int seed) {
  const __m512 a = _mm512_set1_ps(static_cast<float>(seed) * 1e-3f);
  FLARE_CHAINS(__m512, _mm512_set1_ps(1), _mm512_fmadd_ps(a, a, sum),
               _mm_cvttss_si32(_mm512_castps512_ps128(sum)));
}
int64_t read(const std::byte* p, int64_t bytes) {
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  for (int64_t i = 0; i + 256 <= bytes; i += 256) {
    a = _mm512_xor_si512(a, _mm512_loadu_si512(p + i));
    b = _mm512_xor_si512(b, _mm512_loadu_si512(p + i + 64));
    c = _mm512_xor_si512(c, _mm512_loadu_si512(p + i + 128));
    d = _mm512_xor_si512(d, _mm512_loadu_si512(p + i + 192));
  }
  const __m512i all = _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d));
  return _mm_cvtsi128_si64(_mm512_castsi512_si128(all));
}
}  // namespace v4
FLARE_TARGET_END

FLARE_TARGET_BEGIN(FLARE_TARGET_BF16)
namespace vnni {
int int8(int seed) {
  const __m512i a = _mm512_set1_epi8(static_cast<char>(seed));
  FLARE_CHAINS(__m512i, _mm512_setzero_si512(), _mm512_dpbusd_epi32(sum, a, a),
               _mm_cvtsi128_si32(_mm512_castsi512_si128(sum)));
}
}  // namespace vnni
namespace bf16 {
int bf16(int seed) {
  const auto a = reinterpret_cast<__m512bh>(_mm512_set1_epi16(static_cast<short>(seed)));
  FLARE_CHAINS(__m512, _mm512_set1_ps(1), _mm512_dpbf16_ps(sum, a, a),
               _mm_cvttss_si32(_mm512_castps512_ps128(sum)));
}
}  // namespace bf16
FLARE_TARGET_END

namespace {

std::atomic<int64_t> sink;

int64_t read_v2(const std::byte* p, int64_t bytes) {
  __m128i a = _mm_setzero_si128(), b = a, c = a, d = a;
  const auto at = [p](int64_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i));
  };
  for (int64_t i = 0; i + 64 <= bytes; i += 64) {
    a = _mm_xor_si128(a, at(i));
    b = _mm_xor_si128(b, at(i + 16));
    c = _mm_xor_si128(c, at(i + 32));
    d = _mm_xor_si128(d, at(i + 48));
  }
  return _mm_cvtsi128_si64(_mm_xor_si128(_mm_xor_si128(a, b), _mm_xor_si128(c, d)));
}

struct Loop {
  int (*run)(int seed);
  int lanes;  // multiply-adds of one step
};

Loop loop_for(Isa isa, Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kInt8:
      if (isa >= Isa::kVnni) return {vnni::int8, 64};
      return isa >= Isa::kV3 ? Loop{v3::int8, 32} : Loop{v2::int8, 16};
    case Arithmetic::kBf16:
      if (isa >= Isa::kBf16) return {bf16::bf16, 32};
      [[fallthrough]];
    case Arithmetic::kF32:
      if (isa >= Isa::kV4) return {v4::f32, 16};
      return isa >= Isa::kV3 ? Loop{v3::f32, 8} : Loop{v2::f32, 4};
  }
  return {v2::f32, 4};
}

}  // namespace

double fastest_seconds(const Team& team, int n, const std::function<void()>& run) {
  const clockid_t clock = team.size() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const auto now = [clock] {
    timespec t;
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  double best = 1e30;
  for (int i = 0; i < n; ++i) {
    const double begin = now();
    run();
    best = std::min(best, now() - begin);
  }
  return best;
}

double read_bandwidth(Team& team, Bytes memory) {
  const bool wide = machine_isa().value_or(Isa::kV2) >= Isa::kV4;
  const auto bytes = static_cast<int64_t>(memory.size());
  return static_cast<double>(bytes) / fastest_seconds(team, 3, [&] {
           team.for_range(bytes, 4096, [&](int64_t begin, int64_t end) {
             sink += (wide ? v4::read : read_v2)(memory.data() + begin, end - begin);
           });
         });
}

double peak_operations(Team& team, Isa isa, Arithmetic arithmetic) {
  const Loop loop = loop_for(isa, arithmetic);
  const double seconds = fastest_seconds(
      team, 5, [&] { team.run([&](Member& member) { sink += loop.run(member.index() + 1); }); });
  return 2.0 * loop.lanes * kChains * kSteps * team.size() / seconds;
}

}  // namespace flare::bench
