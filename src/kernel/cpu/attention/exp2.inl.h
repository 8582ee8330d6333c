// Powers of two for softmax weights, and the largest of a vector, at every level.

// 2^x for x <= 0 to 2 ulp, below 2^-126 zero; NaN stays. The first dropped Taylor term is below
// 2^-27 at |r| = 1/2.
inline VF exp2(VF x) {
  const VF shifter = splat(0x1.8p23f);  // adding it rounds to an integer
  const VF shifted = max(splat(-126.0f), x) + shifter;
  const VF r = max(splat(-126.0f), x) - (shifted - shifter);
  constexpr float kTerms[] = {1.0f,          0.69314718f,   0.24022651f,    0.055504109f,
                              0.0096181291f, 0.0013333558f, 0.00015403530f, 0.000015252734f};
  VF p = splat(kTerms[7]);
#pragma GCC unroll 8
  for (int k = 6; k >= 0; --k) p = fma(p, r, splat(kTerms[k]));
  const VI word = (VI)p + ((VI)shifted << 23);
  return (VF)(x < splat(-126.0f) ? VI{} : word);
}
inline float exp2_1(float x) { return exp2(splat(x))[0]; }

// NaN anywhere may be lost: the weight of that lane keeps it.
inline float largest_lane(VF v) {
#if FLARE_LANES == 16
  return _mm512_reduce_max_ps((__m512)v);
#else
#if FLARE_LANES == 8
  const __m256 w = (__m256)v;
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
#else
  __m128 x = (__m128)v;
#endif
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
#endif
}
