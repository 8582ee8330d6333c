// Int8 dot products with vpdpbusd: unsigned weights, signed activations, 32 bits.

constexpr bool kSignedCodes = false;  // 8-bit codes stay unsigned
constexpr int kTileRows8 = 6;         // rows of x in a block: 12 sums and 12 totals in registers

// dots[i][r] += Σ over a group of code·x_r for N panels; row r of x is row[r] bytes behind x. One
// vector holds a panel's lanes.
template <typename P, int R, int V, int N>
FLARE_ALWAYS_INLINE inline void group_dots(const std::byte* const* codes, const int8_t* x,
                                           const int64_t* row, I (*dots)[R]) {
  static_assert(V == 1);
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
