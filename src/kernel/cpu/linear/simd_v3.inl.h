// The vector words of linear at level v3: 8 lanes of AVX2 and FMA. See simd_v2.inl.h.

using F = __m256;
using I = __m256i;
constexpr int kLanes = 8;
constexpr int kBlockRows = 3;
constexpr int kInt8BlockRows = 4;

inline F zero() { return _mm256_setzero_ps(); }
inline F load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, F v) { _mm256_storeu_ps(p, v); }
inline F splat(float v) { return _mm256_set1_ps(v); }
inline F add(F a, F b) { return _mm256_add_ps(a, b); }
inline F mul(F a, F b) { return _mm256_mul_ps(a, b); }
inline F mul_add(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
inline F load_bf16(const uint16_t* p) {
  const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}
inline __m128 sum4(F a, F b, F c, F d) {
  const F ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  const F cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
  const F abcd = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  return _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1));
}

inline I izero() { return _mm256_setzero_si256(); }
inline I iload(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void istore(void* p, I v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
inline I isplat(int32_t v) { return _mm256_set1_epi32(v); }
inline I and_(I a, I b) { return _mm256_and_si256(a, b); }
inline I or_(I a, I b) { return _mm256_or_si256(a, b); }
inline I xor_(I a, I b) { return _mm256_xor_si256(a, b); }
template <int kBits>
inline I shl(I a) {
  return _mm256_slli_epi32(a, kBits);
}
template <int kBits>
inline I shr(I a) {
  return _mm256_srli_epi32(a, kBits);
}
inline F to_float(I a) { return _mm256_cvtepi32_ps(a); }
inline F as_float(I a) { return _mm256_castsi256_ps(a); }
inline I iadd(I a, I b) { return _mm256_add_epi32(a, b); }
inline I iadd16(I a, I b) { return _mm256_add_epi16(a, b); }
inline I imaddubs(I a, I b) { return _mm256_maddubs_epi16(a, b); }
inline I imadd16(I a, I b) { return _mm256_madd_epi16(a, b); }
inline I isign8(I a, I b) { return _mm256_sign_epi8(a, b); }
inline I iabs8(I a) { return _mm256_abs_epi8(a); }
inline I isplat16(int16_t v) { return _mm256_set1_epi16(v); }

// Rows i and i + 4 share a register, so that the transposition stays inside 128-bit halves.
inline void load_transposed(const std::byte* p, int64_t stride, I* out) {
  const std::byte* upper = p + 4 * stride;
  I a[4];
  for (int i = 0; i < 4; ++i) {
    const auto* low = reinterpret_cast<const __m128i*>(p + i * stride);
    const auto* high = reinterpret_cast<const __m128i*>(upper + i * stride);
    a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)),
                                   _mm_loadu_si128(high), 1);
  }
  const I ab_low = _mm256_unpacklo_epi32(a[0], a[1]), ab_high = _mm256_unpackhi_epi32(a[0], a[1]);
  const I cd_low = _mm256_unpacklo_epi32(a[2], a[3]), cd_high = _mm256_unpackhi_epi32(a[2], a[3]);
  out[0] = _mm256_unpacklo_epi64(ab_low, cd_low);
  out[1] = _mm256_unpackhi_epi64(ab_low, cd_low);
  out[2] = _mm256_unpacklo_epi64(ab_high, cd_high);
  out[3] = _mm256_unpackhi_epi64(ab_high, cd_high);
}
