// f32 vectors of one ISA level. Included once per level inside its namespace and target region,
// with FLARE_LANES 4 (v2), 8 (v3) or 16 (v4); <immintrin.h> stands before the region.

inline constexpr int kLanes = FLARE_LANES;
typedef float VF __attribute__((vector_size(4 * FLARE_LANES)));
typedef int32_t VI __attribute__((vector_size(4 * FLARE_LANES)));
typedef double VD __attribute__((vector_size(4 * FLARE_LANES)));  // half as many lanes
typedef int64_t VL __attribute__((vector_size(4 * FLARE_LANES)));
inline constexpr int kDoubles = FLARE_LANES / 2;

#if FLARE_LANES == 16
inline VF splat(float x) { return (VF)_mm512_set1_ps(x); }
inline VF load(const float* p) { return (VF)_mm512_loadu_ps(p); }
inline void store(float* p, VF v) { _mm512_storeu_ps(p, (__m512)v); }
inline VF load_n(const float* p, int64_t n) {
  return (VF)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
}
inline void store_n(float* p, VF v, int64_t n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), (__m512)v);
}
inline VF fma(VF a, VF b, VF c) { return (VF)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
inline VD fma(VD a, VD b, VD c) { return (VD)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c); }
// The second operand where either is NaN.
inline VF max(VF a, VF b) { return (VF)_mm512_max_ps((__m512)a, (__m512)b); }
inline VF min(VF a, VF b) { return (VF)_mm512_min_ps((__m512)a, (__m512)b); }
inline VF load_bf16(const uint16_t* p) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return (VF)_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16);
}
inline void store_u16(uint16_t* p, VI v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16((__m512i)v));
}
inline void store_u8(uint8_t* p, VI v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8((__m512i)v));
}
// Sum of the four 128-bit quarters.
inline __m128 fold128(VF v) {
  const __m512 w = (__m512)v;
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(w), _mm512_extractf32x8_ps(w, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}
inline VF unpack_low(VF a, VF b) { return (VF)_mm512_unpacklo_ps((__m512)a, (__m512)b); }
inline VF unpack_high(VF a, VF b) { return (VF)_mm512_unpackhi_ps((__m512)a, (__m512)b); }
inline VF pair_low(VF a, VF b) {
  return (VF)_mm512_shuffle_ps((__m512)a, (__m512)b, _MM_SHUFFLE(1, 0, 1, 0));
}
inline VF pair_high(VF a, VF b) {
  return (VF)_mm512_shuffle_ps((__m512)a, (__m512)b, _MM_SHUFFLE(3, 2, 3, 2));
}
// Bit i: a[i] >= b[i].
inline uint32_t mask_ge(VF a, VF b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GE_OQ); }
#elif FLARE_LANES == 8
inline VF splat(float x) { return (VF)_mm256_set1_ps(x); }
inline VF load(const float* p) { return (VF)_mm256_loadu_ps(p); }
inline void store(float* p, VF v) { _mm256_storeu_ps(p, (__m256)v); }
inline VF fma(VF a, VF b, VF c) { return (VF)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
inline VD fma(VD a, VD b, VD c) { return (VD)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c); }
inline VF max(VF a, VF b) { return (VF)_mm256_max_ps((__m256)a, (__m256)b); }
inline VF min(VF a, VF b) { return (VF)_mm256_min_ps((__m256)a, (__m256)b); }
inline VF load_bf16(const uint16_t* p) {
  const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return (VF)_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16);
}
inline void store_u16(uint16_t* p, VI v) {
  const __m256i w = (__m256i)v;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}
inline void store_u8(uint8_t* p, VI v) {
  const __m256i w = (__m256i)v;
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}
inline __m128 fold128(VF v) {
  const __m256 w = (__m256)v;
  return _mm_add_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
}
inline VF unpack_low(VF a, VF b) { return (VF)_mm256_unpacklo_ps((__m256)a, (__m256)b); }
inline VF unpack_high(VF a, VF b) { return (VF)_mm256_unpackhi_ps((__m256)a, (__m256)b); }
inline VF pair_low(VF a, VF b) {
  return (VF)_mm256_shuffle_ps((__m256)a, (__m256)b, _MM_SHUFFLE(1, 0, 1, 0));
}
inline VF pair_high(VF a, VF b) {
  return (VF)_mm256_shuffle_ps((__m256)a, (__m256)b, _MM_SHUFFLE(3, 2, 3, 2));
}
inline uint32_t mask_ge(VF a, VF b) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GE_OQ)));
}
#else
inline VF splat(float x) { return (VF)_mm_set1_ps(x); }
inline VF load(const float* p) { return (VF)_mm_loadu_ps(p); }
inline void store(float* p, VF v) { _mm_storeu_ps(p, (__m128)v); }
inline VF fma(VF a, VF b, VF c) { return a * b + c; }
inline VD fma(VD a, VD b, VD c) { return a * b + c; }
inline VF max(VF a, VF b) { return (VF)_mm_max_ps((__m128)a, (__m128)b); }
inline VF min(VF a, VF b) { return (VF)_mm_min_ps((__m128)a, (__m128)b); }
inline VF load_bf16(const uint16_t* p) {
  const __m128i words = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return (VF)_mm_unpacklo_epi16(_mm_setzero_si128(), words);
}
inline void store_u16(uint16_t* p, VI v) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi32((__m128i)v, (__m128i)v));
}
inline void store_u8(uint8_t* p, VI v) {
  const __m128i words = _mm_packus_epi32((__m128i)v, (__m128i)v);
  const int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
  __builtin_memcpy(p, &bytes, 4);
}
inline __m128 fold128(VF v) { return (__m128)v; }
inline VF unpack_low(VF a, VF b) { return (VF)_mm_unpacklo_ps((__m128)a, (__m128)b); }
inline VF unpack_high(VF a, VF b) { return (VF)_mm_unpackhi_ps((__m128)a, (__m128)b); }
inline VF pair_low(VF a, VF b) { return (VF)_mm_movelh_ps((__m128)a, (__m128)b); }
inline VF pair_high(VF a, VF b) { return (VF)_mm_movehl_ps((__m128)b, (__m128)a); }
inline uint32_t mask_ge(VF a, VF b) {
  return static_cast<uint32_t>(_mm_movemask_ps(_mm_cmpge_ps((__m128)a, (__m128)b)));
}
#endif

#if FLARE_LANES != 16
// The first n lanes, 0 <= n < kLanes; the others are zero.
inline VF load_n(const float* p, int64_t n) {
  float lanes[kLanes] = {};
  __builtin_memcpy(lanes, p, static_cast<size_t>(n) * 4);
  return load(lanes);
}
inline void store_n(float* p, VF v, int64_t n) {
  float lanes[kLanes];
  store(lanes, v);
  __builtin_memcpy(p, lanes, static_cast<size_t>(n) * 4);
}
#endif

inline VF load_bf16_n(const uint16_t* p, int64_t n) {
  uint16_t lanes[kLanes] = {};
  __builtin_memcpy(lanes, p, static_cast<size_t>(n) * 2);
  return load_bf16(lanes);
}

// Nearest bf16 words, ties to even; NaN stays NaN.
inline VI to_bf16(VF v) {
  const VI bits = (VI)v;
  const VI upper = (bits >> 16) & 0xffff;
  const VI nan = (bits & 0x7fffffff) > 0x7f800000;
  const VI addend = nan ? VI{} : bits;  // the largest NaN words would overflow the addition
  const VI rounded = ((addend + 0x7fff + (upper & 1)) >> 16) & 0xffff;
  return nan ? (upper | 0x40) : rounded;
}
inline void store_bf16(uint16_t* p, VF v) { store_u16(p, to_bf16(v)); }
inline void store_bf16_n(uint16_t* p, VF v, int64_t n) {
  uint16_t lanes[kLanes];
  store_bf16(lanes, v);
  __builtin_memcpy(p, lanes, static_cast<size_t>(n) * 2);
}

// Nearest E4M3FN codes, ties to even, saturating at 448; NaN stays NaN (base/float_types.h).
inline VI to_f8(VF v) {
  const VI bits = (VI)v;
  const VI sign = (bits >> 24) & 0x80;
  const VI nan = (bits & 0x7fffffff) > 0x7f800000;
  const VF magnitude = min((VF)(bits & 0x7fffffff), splat(448.0f));
  // Below 2^-6 the adder rounds at 2^-9, the unit of subnormals.
  const VI small = (VI)(magnitude + splat(0x1p14f)) - 0x46800000;
  const VI word = (VI)magnitude;
  const VI large = ((word + 0x7ffff + ((word >> 20) & 1)) >> 20) - (120 << 3);
  const VI code = magnitude < splat(0x1p-6f) ? small : large;
  return sign | (nan ? VI{} + 0x7f : code);
}
inline void store_f8(uint8_t* p, VF v) { store_u8(p, to_f8(v)); }
inline void store_f8_n(uint8_t* p, VF v, int64_t n) {
  uint8_t lanes[kLanes];
  store_f8(lanes, v);
  __builtin_memcpy(p, lanes, static_cast<size_t>(n));
}

// The sums of four vectors' lanes. Every sum is taken over the same tree, so it does not matter
// which of the four places a vector stands in.
inline __m128 sum_lanes4(VF a, VF b, VF c, VF d) {
  const VF ab = unpack_low(a, b) + unpack_high(a, b);
  const VF cd = unpack_low(c, d) + unpack_high(c, d);
  return fold128(pair_low(ab, cd) + pair_high(ab, cd));
}
inline float sum_lanes(VF v) { return _mm_cvtss_f32(sum_lanes4(v, v, v, v)); }
inline float max_lanes(VF v) {
  float lanes[kLanes];
  store(lanes, v);
  float best = lanes[0];
  for (int i = 1; i < kLanes; ++i) best = lanes[i] > best ? lanes[i] : best;
  return best;
}

// e^x to 2 ulp where it is a normal number; overflow gives infinity, underflow a subnormal or 0.
// Inlined always: a call would have every vector of its caller go through memory.
[[gnu::always_inline]] inline VF exp(VF x) {
  // Beyond ±110 the result is 0 or infinity anyway. The order of operands keeps NaN.
  x = min(splat(110.0f), max(splat(-110.0f), x));
  const VF shifter = splat(0x1.8p23f);  // adding it rounds to an integer
  const VF shifted = x * splat(0x1.715476p0f) + shifter;
  const VF n = shifted - shifter;
  // ln 2 in two parts; the upper has 9 bits, so n times it is exact.
  VF r = fma(n, splat(-0x1.63p-1f), x);
  r = fma(n, splat(0x1.bd0106p-13f), r);
  // Taylor to r^7: |r| <= 0.347 leaves 5e-9 of relative error.
  VF p = splat(1.0f / 5040);
  p = fma(p, r, splat(1.0f / 720));
  p = fma(p, r, splat(1.0f / 120));
  p = fma(p, r, splat(1.0f / 24));
  p = fma(p, r, splat(1.0f / 6));
  p = fma(p, r, splat(0.5f));
  p = fma(p, r, splat(1.0f));
  p = fma(p, r, splat(1.0f));
  // 2^n in two factors: n reaches ±159, beyond the exponents of binary32.
  const VI k = (VI)shifted - 0x4b400000;
  const VI half = k >> 1;
  return p * (VF)((half + 127) << 23) * (VF)((k - half + 127) << 23);
}
inline float exp1(float x) { return exp(splat(x))[0]; }
inline VF sigmoid(VF x) { return splat(1.0f) / (splat(1.0f) + exp(-x)); }
inline VF silu(VF x) { return x / (splat(1.0f) + exp(-x)); }
// x/2·(1 + tanh z) = x·σ(2z) with z = √(2/π)·(x + 0.044715·x³).
inline VF gelu_tanh(VF x) {
  const VF twice = x * fma(splat(0.0713548163f), x * x, splat(1.59576912f));
  return x / (splat(1.0f) + exp(-twice));
}

inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }
