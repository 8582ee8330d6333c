// The vector words of linear from level v4 on: 16 lanes of AVX-512. See simd_v2.inl.h.

using F = __m512;
using I = __m512i;
constexpr int kLanes = 16;
constexpr int kBlockRows = 6;
constexpr int kBlockWeights = 4;
constexpr int kInt8BlockRows = 8;
constexpr int kStreamVectors = 1;  // of a panel that pass together with several rows
constexpr int kPairRows = 8;       // rows up to which two panels pass together

inline F zero() { return _mm512_setzero_ps(); }
inline F load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, F v) { _mm512_storeu_ps(p, v); }
inline F splat(float v) { return _mm512_set1_ps(v); }
inline F add(F a, F b) { return _mm512_add_ps(a, b); }
inline F sub(F a, F b) { return _mm512_sub_ps(a, b); }
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
template <int kBits>
inline I shr_signed(I a) {
  return _mm512_srai_epi32(a, kBits);
}
template <int kBits>
inline I sar(I a) {
  return _mm512_srai_epi32(a, kBits);
}
inline F to_float(I a) { return _mm512_cvtepi32_ps(a); }
inline F as_float(I a) { return _mm512_castsi512_ps(a); }
inline I iadd(I a, I b) { return _mm512_add_epi32(a, b); }
inline I iadd16(I a, I b) { return _mm512_add_epi16(a, b); }
inline I imaddubs(I a, I b) { return _mm512_maddubs_epi16(a, b); }
inline I imadd16(I a, I b) { return _mm512_madd_epi16(a, b); }
// a, negated where b is negative. Where b is 0 its product is 0 anyway.
// Each byte of `index`, below 16, becomes that byte of the table.
inline I lookup(const uint8_t* table, I index) {
  return _mm512_shuffle_epi8(
      _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table))), index);
}
inline I isign8(I a, I b) {
  return _mm512_mask_sub_epi8(a, _mm512_movepi8_mask(b), _mm512_setzero_si512(), a);
}
inline I isub8(I a, I b) { return _mm512_sub_epi8(a, b); }
inline I iabs8(I a) { return _mm512_abs_epi8(a); }
inline I inegative8(I a) { return _mm512_movm_epi8(_mm512_movepi8_mask(a)); }
inline I isplat16(int16_t v) { return _mm512_set1_epi16(v); }

// Four bytes in every lane.
inline I splat_word(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}
inline F load_half(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

inline float largest_magnitude(const float* values, int64_t n) {
  F most = zero();
  for (int64_t i = 0; i < n; i += 16) most = _mm512_max_ps(most, _mm512_abs_ps(load(values + i)));
  return _mm512_reduce_max_ps(most);
}
inline int32_t round_to_codes(const float* values, int64_t n, float factor, int8_t* codes) {
  const F by = splat(factor);
  I sums = izero();
  for (int64_t i = 0; i < n; i += 16) {
    const I words = _mm512_cvtps_epi32(mul(load(values + i), by));
    sums = _mm512_add_epi32(sums, words);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), _mm512_cvtepi32_epi8(words));
  }
  return _mm512_reduce_add_epi32(sums);
}
