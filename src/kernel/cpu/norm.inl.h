// The shared half of the norms.

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
