// The vector words of linear from level v4 on: 16 lanes of AVX-512. See simd_v2.inl.h.

using F = __m512;
using I = __m512i;
constexpr int kLanes = 16;
constexpr int kBlockRows = 6;
constexpr int kInt8BlockRows = 8;

inline F zero() { return _mm512_setzero_ps(); }
inline F load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, F v) { _mm512_storeu_ps(p, v); }
inline F splat(float v) { return _mm512_set1_ps(v); }
inline F add(F a, F b) { return _mm512_add_ps(a, b); }
inline F mul(F a, F b) { return _mm512_mul_ps(a, b); }
inline F mul_add(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
inline F load_bf16(const uint16_t* p) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}
inline __m128 sum4(F a, F b, F c, F d) {
  const F ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const F cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const F abcd = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps(abcd, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

inline I izero() { return _mm512_setzero_si512(); }
inline I iload(const void* p) { return _mm512_loadu_si512(p); }
inline void istore(void* p, I v) { _mm512_storeu_si512(p, v); }
inline I isplat(int32_t v) { return _mm512_set1_epi32(v); }
inline I and_(I a, I b) { return _mm512_and_si512(a, b); }
inline I or_(I a, I b) { return _mm512_or_si512(a, b); }
inline I xor_(I a, I b) { return _mm512_xor_si512(a, b); }
template <int kBits>
inline I shl(I a) {
  return _mm512_slli_epi32(a, kBits);
}
template <int kBits>
inline I shr(I a) {
  return _mm512_srli_epi32(a, kBits);
}
inline F to_float(I a) { return _mm512_cvtepi32_ps(a); }
inline F as_float(I a) { return _mm512_castsi512_ps(a); }

inline I join(const std::byte* a, const std::byte* b, const std::byte* c, const std::byte* d) {
  const auto at = [](const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  };
  const I low = _mm512_inserti32x4(_mm512_castsi128_si512(at(a)), at(b), 1);
  return _mm512_inserti32x4(_mm512_inserti32x4(low, at(c), 2), at(d), 3);
}
// Rows i, i + 4, i + 8, i + 12 share a register, so that the transposition stays inside 128 bits.
// Four pointers and multiples of the stride: sixteen pointers would not fit the registers.
inline void load_transposed(const std::byte* p, int64_t stride, I* out) {
  const std::byte *p4 = p + 4 * stride, *p8 = p + 8 * stride, *p12 = p8 + 4 * stride;
  I a[4];
  for (int i = 0; i < 4; ++i) {
    const int64_t at = i * stride;
    a[i] = join(p + at, p4 + at, p8 + at, p12 + at);
  }
  const I ab_low = _mm512_unpacklo_epi32(a[0], a[1]), ab_high = _mm512_unpackhi_epi32(a[0], a[1]);
  const I cd_low = _mm512_unpacklo_epi32(a[2], a[3]), cd_high = _mm512_unpackhi_epi32(a[2], a[3]);
  out[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
  out[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
  out[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
  out[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}
