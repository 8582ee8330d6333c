// The vector words of linear at level v2: 4 lanes of SSE4.1. No FMA: two roundings.
// The same words, wider, are in simd_v3.inl.h and simd_v4.inl.h.

using F = __m128;
using I = __m128i;
constexpr int kLanes = 4;
constexpr int kBlockRows = 6;  // rows of x in a binary32 block, by registers
constexpr int kBlockWeights = 2;
constexpr int kInt8BlockRows = 4;  // rows of x that stream a panel together
constexpr int kStreamVectors = 1;  // of a panel that pass together with several rows
constexpr int kPairRows = 0;       // rows up to which two panels pass together

inline F zero() { return _mm_setzero_ps(); }
inline F load(const float* p) { return _mm_loadu_ps(p); }
inline void store(float* p, F v) { _mm_storeu_ps(p, v); }
inline F splat(float v) { return _mm_set1_ps(v); }
inline F add(F a, F b) { return _mm_add_ps(a, b); }
inline F sub(F a, F b) { return _mm_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm_mul_ps(a, b); }
inline F mul_add(F a, F b, F c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
inline F load_bf16(const uint16_t* p) {
  const __m128i words = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), words));
}
// [Σa, Σb, Σc, Σd], each by one tree of additions.
inline __m128 sum4(F a, F b, F c, F d) {
  const __m128 ab = _mm_add_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
  const __m128 cd = _mm_add_ps(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
  return _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab));
}

inline I izero() { return _mm_setzero_si128(); }
inline I iload(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline void istore(void* p, I v) { _mm_storeu_si128(static_cast<__m128i*>(p), v); }
inline I isplat(int32_t v) { return _mm_set1_epi32(v); }
inline I and_(I a, I b) { return _mm_and_si128(a, b); }
inline I or_(I a, I b) { return _mm_or_si128(a, b); }
inline I xor_(I a, I b) { return _mm_xor_si128(a, b); }
template <int kBits>
inline I shl(I a) {
  return _mm_slli_epi32(a, kBits);
}
template <int kBits>
inline I shr(I a) {
  return _mm_srli_epi32(a, kBits);
}
template <int kBits>
inline I shr_signed(I a) {
  return _mm_srai_epi32(a, kBits);
}
template <int kBits>
inline I sar(I a) {
  return _mm_srai_epi32(a, kBits);
}
inline F to_float(I a) { return _mm_cvtepi32_ps(a); }
inline F as_float(I a) { return _mm_castsi128_ps(a); }
inline I iadd(I a, I b) { return _mm_add_epi32(a, b); }
inline I iadd16(I a, I b) { return _mm_add_epi16(a, b); }
inline I imaddubs(I a, I b) { return _mm_maddubs_epi16(a, b); }
inline I imadd16(I a, I b) { return _mm_madd_epi16(a, b); }
// Each byte of `index`, below 16, becomes that byte of the table.
inline I lookup(const uint8_t* table, I index) {
  return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)), index);
}
inline I isign8(I a, I b) { return _mm_sign_epi8(a, b); }
inline I iabs8(I a) { return _mm_abs_epi8(a); }
inline I inegative8(I a) { return _mm_cmpgt_epi8(izero(), a); }
inline I isplat16(int16_t v) { return _mm_set1_epi16(v); }

// Four bytes in every lane.
inline I splat_word(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm_set1_epi32(word);
}
// kLanes finite fp16 words.
inline F load_half(const uint16_t* p) {
  const I words = _mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const I magnitude = shl<13>(and_(words, isplat(0x7fff)));
  const I sign = shl<16>(and_(words, isplat(0x8000)));
  return mul(as_float(or_(magnitude, sign)), splat(0x1p112f));
}

// Largest magnitude of n values, n a multiple of 16.
inline float largest_magnitude(const float* values, int64_t n) {
  const __m128 magnitude = _mm_castsi128_ps(_mm_set1_epi32(0x7fffffff));
  __m128 most = _mm_setzero_ps();
  for (int64_t i = 0; i < n; i += 4)
    most = _mm_max_ps(most, _mm_and_ps(_mm_loadu_ps(values + i), magnitude));
  most = _mm_max_ps(most, _mm_movehl_ps(most, most));
  return _mm_cvtss_f32(_mm_max_ss(most, _mm_shuffle_ps(most, most, 1)));
}

// codes[i] = values[i]·factor to the nearest integer, within ±127; returns their sum. n a multiple
// of 16.
inline int32_t round_to_codes(const float* values, int64_t n, float factor, int8_t* codes) {
  const __m128 by = _mm_set1_ps(factor);
  const auto four = [&](int64_t i) {
    return _mm_cvtps_epi32(_mm_mul_ps(_mm_loadu_ps(values + i), by));
  };
  __m128i sums = _mm_setzero_si128();
  for (int64_t i = 0; i < n; i += 16) {
    const __m128i low = _mm_packs_epi32(four(i), four(i + 4));
    const __m128i high = _mm_packs_epi32(four(i + 8), four(i + 12));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), _mm_packs_epi16(low, high));
    sums = _mm_add_epi32(sums, _mm_madd_epi16(_mm_add_epi16(low, high), _mm_set1_epi16(1)));
  }
  sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0xb1)));
}
