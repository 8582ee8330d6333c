// The int8 dot product of a group with vpdpbusd: unsigned weights, signed activations, 32 bits.

constexpr bool kSignedQ8 = false;

template <typename Q, int R>
inline void dot_group(const I* w, const int8_t* x, I* sums) {
  // One row alone would wait for each of its additions; integers may be added in any order.
  constexpr int kChains = R == 1 ? 4 : R == 2 ? 2 : 1;
  I chains[kChains][R];
  for (int chain = 0; chain < kChains; ++chain)
    for (int r = 0; r < R; ++r) chains[chain][r] = chain == 0 ? sums[r] : izero();
#pragma GCC unroll 16
  for (int step = 0; step < Q::kSteps; ++step) {
    const I codes = w[step];
    for (int r = 0; r < R; ++r) {
      int32_t word;
      __builtin_memcpy(&word, x + (step * R + r) * 4, 4);
      I& chain = chains[step % kChains][r];
      chain = _mm512_dpbusd_epi32(chain, codes, isplat(word));
    }
  }
  for (int r = 0; r < R; ++r) {
    sums[r] = chains[0][r];
    for (int chain = 1; chain < kChains; ++chain)
      sums[r] = _mm512_add_epi32(sums[r], chains[chain][r]);
  }
}
