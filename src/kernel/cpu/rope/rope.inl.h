// The body of rope, included once per level: a row's cos and sin are worked out once for its heads.

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

// Rotates pairs [first, first+n) of one row's heads.
inline void rotate_block(const OperandView& x, const OperandView& y, int64_t t, int64_t width,
                         int64_t half, int64_t first, int64_t n, const float* cosine,
                         const float* sine) {
  for (int64_t head = 0; head < x.cols / width; ++head) {
    const float* in = x.f32(t) + head * width + first;
    float* out = y.f32_out(t) + head * width + first;
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
}

void rope(const LaunchArgs& args, Member& member) {
  const OperandView& x = args.operands[0];
  const OperandView& frequencies = args.operands[1];
  const OperandView& positions = args.operands[2];
  const OperandView& y = args.operands[3];
  const int64_t width = args.immediates[0].i;
  const double factor = args.immediates[1].r;
  const int64_t section1 = 3 * args.immediates[2].i;
  const int64_t section2 = 3 * args.immediates[3].i;
  const int64_t half = frequencies.cols;
  const auto part = member.share(x.rows);
  for (int64_t t = part.first; t < part.second; ++t) {
    for (int64_t first = 0; first < half; first += kPairBlock) {
      const int64_t n = min64(kPairBlock, half - first);
      double angle[kPairBlock] = {};
      for (int64_t k = 0; k < n; ++k) {
        const int64_t i = first + k;
        const int axis = i % 3 == 1 && i < section1 ? 1 : i % 3 == 2 && i < section2 ? 2 : 0;
        angle[k] = static_cast<double>(positions.i32()[axis * positions.stride + t]) *
                   frequencies.f32()[i];
      }
      float cosine[kPairBlock];
      float sine[kPairBlock];
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
      rotate_block(x, y, t, width, half, first, n, cosine, sine);
    }
    if (x.data == y.data) continue;
    for (int64_t head = 0; head < x.cols / width; ++head)
      __builtin_memcpy(y.f32_out(t) + head * width + 2 * half, x.f32(t) + head * width + 2 * half,
                       static_cast<size_t>(width - 2 * half) * 4);
  }
}
