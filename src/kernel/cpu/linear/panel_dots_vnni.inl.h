// Int8 dot products with vpdpbusd: unsigned weights, signed activations, 32 bits.

constexpr bool kSignedCodes = false;  // 8-bit codes stay unsigned
constexpr int kTileRows8 = 6;         // rows of x in a block: 12 sums and 12 totals in registers

// dots[0][r] += Σ over a group of code·x_r; row r of x is row[r] bytes behind x. One vector holds a
// panel's lanes.
template <typename P, int R, int V>
FLARE_ALWAYS_INLINE inline void group_dots(const std::byte* codes, const int8_t* x,
                                           const int64_t* row, I (*dots)[R]) {
  static_assert(V == 1);
  constexpr int kSteps = P::kGroup / 4, kTurn = kSteps < 8 ? kSteps : 8;
  for (int turn = 0; turn < kSteps / kTurn; ++turn) {
    unrolled<0, kTurn>([&](auto s) FLARE_ALWAYS_INLINE {
      const I w = step_codes<P, s.value>(codes + turn * kTurn * kStepCodeBytes<P>);
      unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
        const I word = splat_word(x + row[r.value] + 4 * (turn * kTurn + s.value));
        dots[0][r.value] = _mm512_dpbusd_epi32(dots[0][r.value], w, word);
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
