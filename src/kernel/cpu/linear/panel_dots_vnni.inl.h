// Int8 dot products with vpdpbusd: unsigned weights, signed activations, 32 bits.

constexpr bool kSignedCodes = false;  // 8-bit codes stay unsigned
constexpr int kTileRows8 = 6;         // rows of x in a block: 12 sums and 12 totals in registers

// One row of x by codes of two bits. A line's steps are taken where they stand, as 1, 4, 16 and 64
// times their codes: four sums, of which a group needs three shifts, not three a line.
template <typename P, int N>
FLARE_ALWAYS_INLINE inline void pair_dots(const std::byte* const* codes, const int8_t* x,
                                          I (*dots)[1]) {
  unrolled<0, N>([&](auto i) FLARE_ALWAYS_INLINE {
    I sums[4] = {izero(), izero(), izero(), izero()};
    unrolled<0, P::kGroup / 4>([&](auto s) FLARE_ALWAYS_INLINE {
      constexpr int kPlace = s.value % 4;
      const I line = iload(codes[i.value] + s.value / 4 * 64);
      const I w = and_(line, isplat(static_cast<int32_t>(0x03030303u << 2 * kPlace)));
      sums[kPlace] = _mm512_dpbusd_epi32(sums[kPlace], w, splat_word(x + 4 * s.value));
    });
    const I low = iadd(sums[0], sar<2>(sums[1])), high = iadd(sar<4>(sums[2]), sar<6>(sums[3]));
    dots[i.value][0] = iadd(dots[i.value][0], iadd(low, high));
  });
}

// One row of x: the steps by turns into two sums, since one alone would wait for itself.
template <typename P, int N>
FLARE_ALWAYS_INLINE inline void row_dots(const std::byte* const* codes, const int8_t* x,
                                         I (*dots)[1]) {
  I odd[N];
  unrolled<0, N>([&](auto i) FLARE_ALWAYS_INLINE { odd[i.value] = izero(); });
  unrolled<0, P::kGroup / 4, 2>([&](auto s) FLARE_ALWAYS_INLINE {
    const I even_word = splat_word(x + 4 * s.value), odd_word = splat_word(x + 4 * s.value + 4);
    unrolled<0, N>([&](auto i) FLARE_ALWAYS_INLINE {
      const I even = step_codes<P, s.value>(codes[i.value]);
      dots[i.value][0] = _mm512_dpbusd_epi32(dots[i.value][0], even, even_word);
      odd[i.value] =
          _mm512_dpbusd_epi32(odd[i.value], step_codes<P, s.value + 1>(codes[i.value]), odd_word);
    });
  });
  unrolled<0, N>(
      [&](auto i) FLARE_ALWAYS_INLINE { dots[i.value][0] = iadd(dots[i.value][0], odd[i.value]); });
}

// dots[i][r] += Σ over a group of code·x_r for N panels; row r of x is row[r] bytes behind x. One
// vector holds a panel's lanes.
template <typename P, int R, int V, int N>
FLARE_ALWAYS_INLINE inline void group_dots(const std::byte* const* codes, const int8_t* x,
                                           const int64_t* row, I (*dots)[R]) {
  static_assert(V == 1);
  if constexpr (P::kLowBits == 2 && P::kGroup > 16 && R == 1)
    return pair_dots<P, N>(codes, x, dots);
  if constexpr (P::kGroup > 16 && R == 1) return row_dots<P, N>(codes, x, dots);
  constexpr int kSteps = P::kGroup / 4, kTurn = kSteps < 8 ? kSteps : 8;
  for (int turn = 0; turn < kSteps / kTurn; ++turn) {
    unrolled<0, kTurn>([&](auto s) FLARE_ALWAYS_INLINE {
      I w[N];
      unrolled<0, N>([&](auto i) FLARE_ALWAYS_INLINE {
        w[i.value] = step_codes<P, s.value>(codes[i.value] + turn * kTurn * kStepCodeBytes<P>);
      });
      unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
        const I word = splat_word(x + row[r.value] + 4 * (turn * kTurn + s.value));
        unrolled<0, N>([&](auto i) FLARE_ALWAYS_INLINE {
          I& dot = dots[i.value][r.value];
          dot = _mm512_dpbusd_epi32(dot, w[i.value], word);
        });
      });
    });
  }
}

// The same for two vectors of unpacked codes, 64 bytes from step to step.
template <typename P, int R>
FLARE_ALWAYS_INLINE inline void tile_dots(const std::byte* w0, const std::byte* w1, const int8_t* x,
                                          const int64_t* row, I* dots0, I* dots1) {
  unrolled<0, P::kGroup / 4>([&](auto s) FLARE_ALWAYS_INLINE {
    const I a = iload(w0 + s.value * 64), b = iload(w1 + s.value * 64);
    unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
      const I word = splat_word(x + row[r.value] + 4 * s.value);
      dots0[r.value] = _mm512_dpbusd_epi32(dots0[r.value], a, word);
      dots1[r.value] = _mm512_dpbusd_epi32(dots1[r.value], b, word);
    });
  });
}
