// The int8 dot product of a group with vpdpbusd: unsigned weights, signed activations, 32 bits.

constexpr bool kSignedQ8 = false;

template <typename Q, int R>
inline void dot_group(const I* w, const int8_t* x, I* sums) {
  // One row alone would wait for each of its additions; integers may be added in any order.
  constexpr int kChains = R == 1 ? 4 : R == 2 ? 2 : 1;
  I chains[kChains * R];
  for (int j = 0; j < kChains * R; ++j) chains[j] = j < R ? sums[j] : izero();
  for (int step = 0; step < Q::kSteps; step += kChains) {
    for (int j = 0; j < kChains * R; ++j) {
      int32_t word;
      __builtin_memcpy(&word, x + (step * R + j) * 4, 4);
      chains[j] = _mm512_dpbusd_epi32(chains[j], w[step + j / R], isplat(word));
    }
  }
  for (int j = R; j < kChains * R; ++j) chains[j % R] = _mm512_add_epi32(chains[j % R], chains[j]);
  for (int r = 0; r < R; ++r) sums[r] = chains[r];
}
