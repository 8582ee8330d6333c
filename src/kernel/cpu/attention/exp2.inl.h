// 2^x for softmax weights, at every level.

// 2^x for x <= 0 with a polynomial of kDegree: below 2^-126 zero; NaN stays. Relative error
// 2^-18.6 at degree 5, 2 ulp at degree 7: the first dropped Taylor term at |r| = 1/2.
template <int kDegree>
inline VF exp2(VF x) {
  const VF shifter = splat(0x1.8p23f);  // adding it rounds to an integer
  const VF shifted = max(splat(-126.0f), x) + shifter;
  const VF r = max(splat(-126.0f), x) - (shifted - shifter);
  constexpr float kTerms[] = {1.0f,          0.69314718f,   0.24022651f,    0.055504109f,
                              0.0096181291f, 0.0013333558f, 0.00015403530f, 0.000015252734f};
  VF p = splat(kTerms[kDegree]);
#pragma GCC unroll 8
  for (int k = kDegree - 1; k >= 0; --k) p = fma(p, r, splat(kTerms[k]));
  const VI word = (VI)p + ((VI)shifted << 23);
  return (VF)(x < splat(-126.0f) ? VI{} : word);
}
inline float exp2_1(float x) { return exp2<7>(splat(x))[0]; }
