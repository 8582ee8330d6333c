// Int8 dot products with pmaddubsw (v2, v3, v4): unsigned bytes times signed bytes, pairs added in
// 16 bits. Exact: kRun steps are added before widening, so that 2·kRun·127·(largest code) < 2^15.
// 8-bit codes have magnitudes up to 128, a step at a time. The product of a negative w is
// |w|·(−x) where few rows stream. In tiles it is |w|·(−x − 1), an exclusive or instead of psignb,
// and the sum of all such |w| is added once a group.

constexpr bool kSignedCodes = true;
constexpr int kTileRows8 = 6;  // rows of x in a block: 12 pairs, a word and two codes in registers

// dots[v][r] += Σ over a group of code·x_r for N panels' vectors, V of each; row r of x is row[r]
// bytes behind x.
template <typename P, int R, int V, int N>
FLARE_ALWAYS_INLINE inline void group_dots(const std::byte* const* codes, const int8_t* x,
                                           const int64_t* row, I (*dots)[R]) {
  constexpr int kVectors = N * V;
  constexpr bool kSigned = kIsWide<P>;
  constexpr int kRun = run_of<P>();
  const I ones = isplat16(1);
  unrolled<0, P::kGroup / 4, kRun>([&](auto first) FLARE_ALWAYS_INLINE {
    I pairs[kVectors][R];
    unrolled<0, kRun>([&](auto i) FLARE_ALWAYS_INLINE {
      constexpr int kStep = first.value + i.value;
      I w[kVectors], magnitudes[kVectors];
      unrolled<0, kVectors>([&](auto v) FLARE_ALWAYS_INLINE {
        I& code = w[v.value];
        code = step_codes<P, kStep>(codes[v.value / V] + 4 * kLanes * (v.value % V));
        if (kSigned) code = xor_(code, isplat(static_cast<int32_t>(0x80808080u)));
        if (R > 1) pin(code);
        magnitudes[v.value] = kSigned ? iabs8(code) : code;
      });
      unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
        I word = splat_word(x + row[r.value] + 4 * kStep);
        if (R > 1) pin(word);
        unrolled<0, kVectors>([&](auto v) FLARE_ALWAYS_INLINE {
          I& sum = pairs[v.value][r.value];
          const I products =
              imaddubs(magnitudes[v.value], kSigned ? isign8(word, w[v.value]) : word);
          sum = i.value == 0 ? products : iadd16(sum, products);
          if (R > 1) pin(sum);
        });
      });
    });
    unrolled<0, kVectors>([&](auto v) FLARE_ALWAYS_INLINE {
      unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
        I& dot = dots[v.value][r.value];
        dot = iadd(dot, imadd16(pairs[v.value][r.value], ones));
        if (R > 1) pin(dot);
      });
    });
  });
}

// One vector's codes of a step in a tile.
template <bool kSigned>
struct TileCodes {
  FLARE_ALWAYS_INLINE explicit TileCodes(const std::byte* at) {
    I codes = iload(at);
    pin(codes);
    magnitudes = kSigned ? iabs8(codes) : codes;
    if (kSigned) negative = inegative8(codes);
  }
  FLARE_ALWAYS_INLINE I times(I word) const {
    return imaddubs(magnitudes, kSigned ? xor_(word, negative) : word);
  }
  I magnitudes, negative;
};

template <typename P, int R>
FLARE_ALWAYS_INLINE inline void tile_dots(const std::byte* w0, const std::byte* w1, const int8_t* x,
                                          const int64_t* row, I* dots0, I* dots1) {
  constexpr int kRun = P::kRun;
  const I ones = isplat16(1);
  unrolled<0, P::kGroup / 4, kRun>([&](auto first) FLARE_ALWAYS_INLINE {
    I pairs0[R], pairs1[R];
    unrolled<0, kRun>([&](auto i) FLARE_ALWAYS_INLINE {
      constexpr int kStep = first.value + i.value;
      const TileCodes<P::kIsWide> a(w0 + kStep * 64), b(w1 + kStep * 64);
      unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
        I &first_pairs = pairs0[r.value], &second_pairs = pairs1[r.value];
        I word = splat_word(x + row[r.value] + 4 * kStep);
        pin(word);
        const I p0 = a.times(word), p1 = b.times(word);
        first_pairs = i.value == 0 ? p0 : iadd16(first_pairs, p0);
        second_pairs = i.value == 0 ? p1 : iadd16(second_pairs, p1);
        pin(first_pairs);
        pin(second_pairs);
      });
    });
    unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
      dots0[r.value] = iadd(dots0[r.value], imadd16(pairs0[r.value], ones));
      dots1[r.value] = iadd(dots1[r.value], imadd16(pairs1[r.value], ones));
      pin(dots0[r.value]);
      pin(dots1[r.value]);
    });
  });
}
