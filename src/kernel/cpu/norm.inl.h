// The norms of one group of n columns: all that norms includes this, once a level.

// 1 / sqrt(mean(x²) + eps) over n values: four running vectors, then one tree.
inline float inverse_rms(const float* x, int64_t n, float eps) {
  VF sums[4] = {splat(0), splat(0), splat(0), splat(0)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int k = 0; k < 4; ++k) {
      const VF v = load(x + i + k * kLanes);
      sums[k] = fma(v, v, sums[k]);
    }
  for (; i + kLanes <= n; i += kLanes) {
    const VF v = load(x + i);
    sums[0] = fma(v, v, sums[0]);
  }
  if (i < n) {
    const VF v = load_n(x + i, n - i);
    sums[1] = fma(v, v, sums[1]);
  }
  const float total = sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
  return 1.0f / __builtin_sqrtf(total / static_cast<float>(n) + eps);
}

// out = x · rsqrt(mean(x²) + eps) ⊙ (w + offset); out may be x.
inline void rms_norm_group(const float* x, const float* w, int64_t n, float eps, float offset,
                           float* out) {
  const VF scale = splat(inverse_rms(x, n, eps));
  const VF add = splat(offset);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, load(x + i) * scale * (load(w + i) + add));
  if (i < n) store_n(out + i, load_n(x + i, n - i) * scale * (load_n(w + i, n - i) + add), n - i);
}

// out = w ⊙ x · rsqrt(mean(x²) + eps) ⊙ silu(gate); out may be x.
inline void gated_norm_group(const float* x, const float* gate, const float* w, int64_t n,
                             float eps, float* out) {
  const VF scale = splat(inverse_rms(x, n, eps));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(out + i, load(w + i) * (load(x + i) * scale) * silu(load(gate + i)));
  if (i < n)
    store_n(out + i,
            load_n(w + i, n - i) * (load_n(x + i, n - i) * scale) * silu(load_n(gate + i, n - i)),
            n - i);
}
