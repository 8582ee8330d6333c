// The vector words of linear at level v3: 8 lanes of AVX2 and FMA. See simd_v2.inl.h.

using F = __m256;
using I = __m256i;
constexpr int kLanes = 8;
constexpr int kBlockRows = 6;
constexpr int kBlockWeights = 2;
constexpr int kInt8BlockRows = 4;
constexpr int kStreamVectors = 2;  // of a panel that pass together with several rows
constexpr int kPairRows = 1;       // rows up to which two panels pass together

inline F zero() { return _mm256_setzero_ps(); }
inline F load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, F v) { _mm256_storeu_ps(p, v); }
inline F splat(float v) { return _mm256_set1_ps(v); }
inline F add(F a, F b) { return _mm256_add_ps(a, b); }
inline F sub(F a, F b) { return _mm256_sub_ps(a, b); }
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
template <int kBits>
inline I shr_signed(I a) {
  return _mm256_srai_epi32(a, kBits);
}
template <int kBits>
inline I sar(I a) {
  return _mm256_srai_epi32(a, kBits);
}
inline F to_float(I a) { return _mm256_cvtepi32_ps(a); }
inline F as_float(I a) { return _mm256_castsi256_ps(a); }
inline I iadd(I a, I b) { return _mm256_add_epi32(a, b); }
inline I iadd16(I a, I b) { return _mm256_add_epi16(a, b); }
inline I imaddubs(I a, I b) { return _mm256_maddubs_epi16(a, b); }
inline I imadd16(I a, I b) { return _mm256_madd_epi16(a, b); }
// Each byte of `index`, below 16, becomes that byte of the table.
inline I lookup(const uint8_t* table, I index) {
  return _mm256_shuffle_epi8(
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table))), index);
}
inline I isign8(I a, I b) { return _mm256_sign_epi8(a, b); }
inline I iabs8(I a) { return _mm256_abs_epi8(a); }
inline I inegative8(I a) { return _mm256_cmpgt_epi8(izero(), a); }
inline I isplat16(int16_t v) { return _mm256_set1_epi16(v); }

// Four bytes in every lane.
inline I splat_word(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}
inline F load_half(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

inline float largest_magnitude(const float* values, int64_t n) {
  const F magnitude = as_float(isplat(0x7fffffff));
  F most = zero();
  for (int64_t i = 0; i < n; i += 8)
    most = _mm256_max_ps(most, _mm256_and_ps(load(values + i), magnitude));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}
inline int32_t round_to_codes(const float* values, int64_t n, float factor, int8_t* codes) {
  const F by = splat(factor);
  I sums = izero();
  for (int64_t i = 0; i < n; i += 16) {
    const I a = _mm256_cvtps_epi32(mul(load(values + i), by));
    const I b = _mm256_cvtps_epi32(mul(load(values + i + 8), by));
    sums = iadd(sums, iadd(a, b));
    // packs works in halves; the permutation puts the quarters in order.
    const I words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), bytes);
  }
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}
