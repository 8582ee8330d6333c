// Independent sums that a step is applied to in turn, all of them in registers.
// No include guard: included once per level, inside its namespace and region.

// The compiler takes `value` for changed: what is computed from it is computed again.
template <typename Vector>
inline void renew(Vector& value) {
  __asm__ volatile("" : "+v"(value));
}

// Runs step(sum) on every sum n_steps times; the result depends on all. Twelve sums are more than
// latency times throughput anywhere; named variables, since g++ would keep an array in memory.
template <typename Vector, typename Step>
inline Vector chains(Vector zero, int64_t n_steps, const Step& step) {
  Vector a0 = zero, a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0;
  Vector b0 = zero, b1 = b0, b2 = b0, b3 = b0, b4 = b0, b5 = b0;
  const auto next = [&](Vector& sum) {
    step(sum);
    renew(sum);
  };
  for (int64_t i = 0; i < n_steps; ++i) {
    next(a0), next(a1), next(a2), next(a3), next(a4), next(a5);
    next(b0), next(b1), next(b2), next(b3), next(b4), next(b5);
  }
  return ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (b0 + b1)) + ((b2 + b3) + (b4 + b5));
}
