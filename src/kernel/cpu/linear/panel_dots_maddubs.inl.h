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
FLARE_ALWAYS_INLINE inline void group_dots(const std::byte* codes, const int8_t* x,
                                           const int64_t* row, I* dots) {
  constexpr bool kSigned = kIsWide<P>;
  constexpr int kRun = run_of<P>();
  const I ones = isplat16(1);
  unrolled<0, P::kGroup / 4, kRun>([&](auto first) FLARE_ALWAYS_INLINE {
    I pairs[R];
    unrolled<0, kRun>([&](auto i) FLARE_ALWAYS_INLINE {
      constexpr int kStep = first.value + i.value;
      I w = step_codes<P, kStep>(codes);
      if (kSigned) w = xor_(w, isplat(static_cast<int32_t>(0x80808080u)));
      const I magnitudes = kSigned ? iabs8(w) : w;
      unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
        const I word = splat_word(x + row[r.value] + 4 * kStep);
        const I products = step_products<kSigned>(w, magnitudes, word);
        pairs[r.value] = i.value == 0 ? products : iadd16(pairs[r.value], products);
      });
    });
    unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
      dots[r.value] = iadd(dots[r.value], imadd16(pairs[r.value], ones));
    });
  });
}

template <typename P, int R>
FLARE_ALWAYS_INLINE inline void tile_dots(const std::byte* w0, const std::byte* w1, const int8_t* x,
                                          const int64_t* row, I* dots0, I* dots1) {
  constexpr bool kSigned = P::kIsWide;
  constexpr int kRun = tile_run_of(P::kIsWide);
  const I ones = isplat16(1);
  unrolled<0, P::kGroup / 4, kRun>([&](auto first) FLARE_ALWAYS_INLINE {
    I pairs0[R], pairs1[R];
    unrolled<0, kRun>([&](auto i) FLARE_ALWAYS_INLINE {
      constexpr int kStep = first.value + i.value;
      const I a = iload(w0 + kStep * 64), b = iload(w1 + kStep * 64);
      const I a_size = kSigned ? iabs8(a) : a, b_size = kSigned ? iabs8(b) : b;
      unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
        const I word = splat_word(x + row[r.value] + 4 * kStep);
        const I p0 = step_products<kSigned>(a, a_size, word);
        const I p1 = step_products<kSigned>(b, b_size, word);
        pairs0[r.value] = i.value == 0 ? p0 : iadd16(pairs0[r.value], p0);
        pairs1[r.value] = i.value == 0 ? p1 : iadd16(pairs1[r.value], p1);
      });
    });
    unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
      dots0[r.value] = iadd(dots0[r.value], imadd16(pairs0[r.value], ones));
      dots1[r.value] = iadd(dots1[r.value], imadd16(pairs1[r.value], ones));
    });
  });
}
