// Int8 dot products with pmaddubsw (v2, v3, v4): unsigned bytes times signed bytes, pairs added in
// 16 bits. Exact: kRun steps are added before widening, so that 2·kRun·127·(largest code) < 2^15.
// 8-bit codes have magnitudes up to 128: |w|·(±x), a step at a time.

constexpr bool kSignedCodes = true;
constexpr int kTileRows8 = 3;

// One step's products added to pairs; `magnitudes` are the codes, or their absolute values where
// `codes` are signed.
template <bool kSigned>
inline I step_products(I codes, I magnitudes, I x) {
  return imaddubs(magnitudes, kSigned ? isign8(x, codes) : x);
}

template <typename P, int R>
inline void group_dots(const std::byte* codes, const std::byte* high, const int8_t* x,
                       int64_t x_stride, const int32_t* neg_sums, int64_t groups, I* dots) {
  constexpr bool kSigned = P::kLowBits == 8;
  constexpr int kRun = run_of<P>();
  for (int r = 0; r < R; ++r)
    dots[r] = kSigned || P::kOffsetBits == 0 ? izero()
                                             : shl<P::kOffsetBits>(isplat(neg_sums[r * groups]));
  const I ones = isplat16(1);
  unrolled<0, P::kGroup / 4, kRun>([&](auto first) {
    I pairs[R];
    unrolled<0, kRun>([&](auto i) {
      constexpr int kStep = first.value + i.value;
      I w = step_codes<P, kStep>(codes, high);
      if (kSigned) w = xor_(w, isplat(static_cast<int32_t>(0x80808080u)));
      const I magnitudes = kSigned ? iabs8(w) : w;
      for (int r = 0; r < R; ++r) {
        const I products =
            step_products<kSigned>(w, magnitudes, splat_word(x + r * x_stride + 4 * kStep));
        pairs[r] = i.value == 0 ? products : iadd16(pairs[r], products);
      }
    });
    for (int r = 0; r < R; ++r) dots[r] = iadd(dots[r], imadd16(pairs[r], ones));
  });
}

template <int kSteps, int kRun, bool kSigned, int R>
inline void tile_dots(const std::byte* w0, const std::byte* w1, const int8_t* x, int64_t x_stride,
                      I* dots0, I* dots1) {
  const I ones = isplat16(1);
  unrolled<0, kSteps, kRun>([&](auto first) {
    I pairs0[R], pairs1[R];
    unrolled<0, kRun>([&](auto i) {
      constexpr int kStep = first.value + i.value;
      const I a = iload(w0 + kStep * 64), b = iload(w1 + kStep * 64);
      const I a_size = kSigned ? iabs8(a) : a, b_size = kSigned ? iabs8(b) : b;
      for (int r = 0; r < R; ++r) {
        const I word = splat_word(x + r * x_stride + 4 * kStep);
        const I p0 = step_products<kSigned>(a, a_size, word);
        const I p1 = step_products<kSigned>(b, b_size, word);
        pairs0[r] = i.value == 0 ? p0 : iadd16(pairs0[r], p0);
        pairs1[r] = i.value == 0 ? p1 : iadd16(pairs1[r], p1);
      }
    });
    for (int r = 0; r < R; ++r) dots0[r] = iadd(dots0[r], imadd16(pairs0[r], ones));
    for (int r = 0; r < R; ++r) dots1[r] = iadd(dots1[r], imadd16(pairs1[r], ones));
  });
}
