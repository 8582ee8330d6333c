// Int8 dot products with vpdpbusd: unsigned weights, signed activations, 32 bits.

constexpr bool kSignedCodes = false;  // 8-bit codes stay unsigned
constexpr int kTileRows8 = 6;         // rows of x in a block: 12 sums and 12 totals in registers

// dots[r] = Σ over a group of (code − offset)·x_r.
template <typename P, int R>
inline void group_dots(const std::byte* codes, const std::byte* high, const int8_t* x,
                       int64_t x_stride, const int32_t* neg_sums, int64_t groups, I* dots) {
  for (int r = 0; r < R; ++r) dots[r] = shl<P::kOffsetBits>(isplat(neg_sums[r * groups]));
  if (P::kOffsetBits == 0)
    for (int r = 0; r < R; ++r) dots[r] = izero();
  unrolled<0, P::kGroup / 4>([&](auto s) {
    const I w = step_codes<P, s.value>(codes, high);
    for (int r = 0; r < R; ++r)
      dots[r] = _mm512_dpbusd_epi32(dots[r], w, splat_word(x + r * x_stride + 4 * s.value));
  });
}

// The same for two vectors of unpacked codes, 64 bytes from step to step.
template <int kSteps, int kRun, bool kSigned, int R>
inline void tile_dots(const std::byte* w0, const std::byte* w1, const int8_t* x, int64_t x_stride,
                      I* dots0, I* dots1) {
  unrolled<0, kSteps>([&](auto s) {
    const I a = iload(w0 + s.value * 64), b = iload(w1 + s.value * 64);
    for (int r = 0; r < R; ++r) {
      const I word = splat_word(x + r * x_stride + 4 * s.value);
      dots0[r] = _mm512_dpbusd_epi32(dots0[r], a, word);
      dots1[r] = _mm512_dpbusd_epi32(dots1[r], b, word);
    }
  });
}
