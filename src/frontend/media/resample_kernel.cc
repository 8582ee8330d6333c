// Weighted sums of rows, for SSE4.1 and AVX2.
#include "frontend/media/resample_kernel.h"

#include <immintrin.h>

#include <cstring>

#include "base/cpu.h"

namespace flare::media {
namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

// Bytes [from, n) one by one.
void weigh_end(const int32_t* weights, int n_taps, const uint8_t* in, size_t stride, size_t from,
               size_t n, uint8_t* out) {
  for (size_t i = from; i < n; ++i) {
    int32_t sum = kHalf;
    for (int k = 0; k < n_taps; ++k) sum += weights[k] * in[k * stride + i];
    const int32_t value = sum >> kWeightBits;
    out[i] = static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
  }
}

}  // namespace

void weigh_rows_v2(const int32_t* weights, int n_taps, const uint8_t* in, size_t stride, size_t n,
                   uint8_t* out) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    __m128i sums[4];
    for (__m128i& sum : sums) sum = _mm_set1_epi32(kHalf);
    for (int k = 0; k < n_taps; ++k) {
      const __m128i weight = _mm_set1_epi32(weights[k]);
      const uint8_t* const row = in + k * stride + i;
      for (int part = 0; part < 4; ++part) {
        int32_t four;
        std::memcpy(&four, row + part * 4, sizeof four);
        const __m128i values = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(four));
        sums[part] = _mm_add_epi32(sums[part], _mm_mullo_epi32(values, weight));
      }
    }
    for (__m128i& sum : sums) sum = _mm_srai_epi32(sum, kWeightBits);
    const __m128i bytes =
        _mm_packus_epi16(_mm_packs_epi32(sums[0], sums[1]), _mm_packs_epi32(sums[2], sums[3]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), bytes);
  }
  weigh_end(weights, n_taps, in, stride, i, n, out);
}

__attribute__((target("avx2"))) void weigh_rows_v3(const int32_t* weights, int n_taps,
                                                   const uint8_t* in, size_t stride, size_t n,
                                                   uint8_t* out) {
  size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    __m256i sums[4];
    for (__m256i& sum : sums) sum = _mm256_set1_epi32(kHalf);
    for (int k = 0; k < n_taps; ++k) {
      const __m256i weight = _mm256_set1_epi32(weights[k]);
      const uint8_t* const row = in + k * stride + i;
      for (int part = 0; part < 4; ++part) {
        const __m256i values =
            _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + part * 8)));
        sums[part] = _mm256_add_epi32(sums[part], _mm256_mullo_epi32(values, weight));
      }
    }
    for (__m256i& sum : sums) sum = _mm256_srai_epi32(sum, kWeightBits);
    // Packing works within halves: 0 2 | 0 2 …; the permutation puts groups of four in order.
    const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(sums[0], sums[1]),
                                              _mm256_packs_epi32(sums[2], sums[3]));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm256_permutevar8x32_epi32(bytes, order));
  }
  weigh_rows_v2(weights, n_taps, in + i, stride, n - i, out + i);
}

WeighRows weigh_rows() {
  static const WeighRows chosen =
      machine_isa().value_or(Isa::kV2) >= Isa::kV3 ? weigh_rows_v3 : weigh_rows_v2;
  return chosen;
}

}  // namespace flare::media
