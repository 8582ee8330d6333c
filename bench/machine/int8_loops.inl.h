// Integer products of a level without VNNI, out of registers: what its int8 kernels cannot beat.
// No include guard: included once per level behind chains.inl.h. The level defines Vector, splat8,
// splat16, maddubs, madd, add16, add32 and low_word.

// 8-bit weights: a pair of products of up to 127·127 fills 16 bits, so each is widened at once.
int int8(int seed, int64_t n_steps) {
  const Vector ones = splat16(1);
  Vector a = splat8(seed);
  return low_word(chains(splat8(0), n_steps, [&](Vector& sum) {
    renew(a);
    sum = add32(sum, madd(maddubs(a, a), ones));
  }));
}

// 4-bit weights, codes 0 … 15: eight pairs of products, 8·2·15·127 = 30,480 at most, are added in
// 16 bits before they are widened.
int int8_by_4(int seed, int64_t n_steps) {
  const Vector ones = splat16(1);
  Vector a = splat8(seed);
  return low_word(chains(splat8(0), n_steps, [&](Vector& sum) {
    renew(a);
    Vector pairs = maddubs(a, a);
    for (int i = 1; i < kPairsIn16Bits; ++i) {
      renew(a);
      pairs = add16(pairs, maddubs(a, a));
    }
    sum = add32(sum, madd(pairs, ones));
  }));
}
