// The vector words of linear at level v2: 4 lanes of SSE4.1. No FMA: two roundings.
// The same words, wider, are in simd_v3.inl.h and simd_v4.inl.h.

using F = __m128;
using I = __m128i;
constexpr int kLanes = 4;
constexpr int kBlockRows = 3;      // rows of x in a binary32 block, by registers
constexpr int kInt8BlockRows = 4;  // rows of x in an int8 block

inline F zero() { return _mm_setzero_ps(); }
inline F load(const float* p) { return _mm_loadu_ps(p); }
inline void store(float* p, F v) { _mm_storeu_ps(p, v); }
inline F splat(float v) { return _mm_set1_ps(v); }
inline F add(F a, F b) { return _mm_add_ps(a, b); }
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
inline F to_float(I a) { return _mm_cvtepi32_ps(a); }
inline F as_float(I a) { return _mm_castsi128_ps(a); }
inline I iadd(I a, I b) { return _mm_add_epi32(a, b); }
inline I iadd16(I a, I b) { return _mm_add_epi16(a, b); }
inline I imaddubs(I a, I b) { return _mm_maddubs_epi16(a, b); }
inline I imadd16(I a, I b) { return _mm_madd_epi16(a, b); }
inline I isign8(I a, I b) { return _mm_sign_epi8(a, b); }
inline I iabs8(I a) { return _mm_abs_epi8(a); }
inline I isplat16(int16_t v) { return _mm_set1_epi16(v); }

// The 16 bytes at p + lane·stride, transposed: out[i] holds word i of every lane's row.
inline void load_transposed(const std::byte* p, int64_t stride, I* out) {
  I a[4];
  for (int i = 0; i < 4; ++i) a[i] = iload(p + i * stride);
  const I ab_low = _mm_unpacklo_epi32(a[0], a[1]), ab_high = _mm_unpackhi_epi32(a[0], a[1]);
  const I cd_low = _mm_unpacklo_epi32(a[2], a[3]), cd_high = _mm_unpackhi_epi32(a[2], a[3]);
  out[0] = _mm_unpacklo_epi64(ab_low, cd_low);
  out[1] = _mm_unpackhi_epi64(ab_low, cd_low);
  out[2] = _mm_unpacklo_epi64(ab_high, cd_high);
  out[3] = _mm_unpackhi_epi64(ab_high, cd_high);
}
