// The rotation of a row's heads: all that rotates includes this, once a level.

inline constexpr int64_t kPairBlock = 64;

// cos and sin of kDoubles angles below 2^20·π/2 in magnitude, to 1e-13 absolute.
inline void cos_sin(VD angle, VD& cosine, VD& sine) {
  const VD shifter = VD{} + 0x1.8p52;
  const VD shifted = angle * 0x1.45f306dc9c883p-1 + shifter;  // nearest multiple of π/2
  const VD n = shifted - shifter;
  // π/2 in two parts; the upper has 33 bits, so n times it is exact.
  VD r = angle - n * 0x1.921fb544p0;
  r = r - n * 0x1.0b4611a626331p-34;
  const VD s = r * r;
  // Taylor on |r| <= π/4: the first dropped terms are below 3e-14.
  VD odd = VD{} + 1.0 / 6227020800.0;
  odd = fma(odd, s, VD{} - 1.0 / 39916800.0);
  odd = fma(odd, s, VD{} + 1.0 / 362880.0);
  odd = fma(odd, s, VD{} - 1.0 / 5040.0);
  odd = fma(odd, s, VD{} + 1.0 / 120.0);
  odd = fma(odd, s, VD{} - 1.0 / 6.0);
  odd = fma(odd * s, r, r);
  VD even = VD{} - 1.0 / 87178291200.0;
  even = fma(even, s, VD{} + 1.0 / 479001600.0);
  even = fma(even, s, VD{} - 1.0 / 3628800.0);
  even = fma(even, s, VD{} + 1.0 / 40320.0);
  even = fma(even, s, VD{} - 1.0 / 720.0);
  even = fma(even, s, VD{} + 1.0 / 24.0);
  even = fma(even, s, VD{} - 0.5);
  even = fma(even, s, VD{} + 1.0);
  const VL quadrant = (VL)shifted & 3;
  const VL swap = (quadrant & 1) != 0;
  const VD c = swap ? odd : even;
  const VD d = swap ? even : odd;
  cosine = (quadrant == 1) | (quadrant == 2) ? -c : c;
  sine = quadrant >= 2 ? -d : d;
}

// The rotation of one launch: pair i of a row turns by position[axis(i)]·f_i.
struct Rotation {
  const OperandView& frequencies;
  const OperandView& positions;
  double factor;               // on cos and sin
  int64_t section1, section2;  // 3·s1, 3·s2

  // cos and sin of pairs [first, first + n) of row t, n <= kPairBlock; the arrays have room for
  // kPairBlock.
  void angles(int64_t t, int64_t first, int64_t n, float* cosine, float* sine) const {
    double angle[kPairBlock] = {};
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = first + k;
      const int axis = i % 3 == 1 && i < section1 ? 1 : i % 3 == 2 && i < section2 ? 2 : 0;
      angle[k] =
          static_cast<double>(positions.i32()[axis * positions.stride + t]) * frequencies.f32()[i];
    }
    for (int64_t k = 0; k < kPairBlock; k += kDoubles) {
      VD a;
      VD c;
      VD s;
      __builtin_memcpy(&a, angle + k, sizeof a);
      cos_sin(a, c, s);
      for (int lane = 0; lane < kDoubles; ++lane) {
        cosine[k + lane] = static_cast<float>(c[lane] * factor);
        sine[k + lane] = static_cast<float>(s[lane] * factor);
      }
    }
  }
};

// Rotates n pairs (in_i, in_{half + i}) of one head; out may be in.
inline void rotate_pairs(const float* in, float* out, int64_t half, int64_t n, const float* cosine,
                         const float* sine) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t live = min64(kLanes, n - i);
    const VF c = load(cosine + i);
    const VF s = load(sine + i);
    if (live == kLanes) {
      const VF a = load(in + i);
      const VF b = load(in + half + i);
      store(out + i, a * c - b * s);
      store(out + half + i, b * c + a * s);
    } else {
      const VF a = load_n(in + i, live);
      const VF b = load_n(in + half + i, live);
      store_n(out + i, a * c - b * s, live);
      store_n(out + half + i, b * c + a * s, live);
    }
  }
}
