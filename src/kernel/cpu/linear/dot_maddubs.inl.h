// The int8 dot product of a group with pmaddubsw (v2, v3): unsigned bytes times signed bytes,
// pairs added in 16 bits. Exact: a format's kRun bounds what adds up before widening.

// q8 codes have magnitudes up to 127: |w|·(±x), so that a pair stays below 2·127·127 < 2^15.
constexpr bool kSignedQ8 = true;

template <typename Q, int R>
inline void dot_group(const I* w, const int8_t* x, I* sums) {
  const I ones = isplat16(1);
  for (int step = 0; step < Q::kSteps; step += Q::kRun) {
    I pairs[R];
    for (int i = 0; i < Q::kRun; ++i) {
      const I codes = w[step + i];
      const I magnitudes = Q::kSigned ? iabs8(codes) : codes;
      for (int r = 0; r < R; ++r) {
        int32_t word;
        __builtin_memcpy(&word, x + ((step + i) * R + r) * 4, 4);
        const I activations = Q::kSigned ? isign8(isplat(word), codes) : isplat(word);
        const I products = imaddubs(magnitudes, activations);
        pairs[r] = i == 0 ? products : iadd16(pairs[r], products);
      }
    }
    for (int r = 0; r < R; ++r) sums[r] = iadd(sums[r], imadd16(pairs[r], ones));
  }
}
