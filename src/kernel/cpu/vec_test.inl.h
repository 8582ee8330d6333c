// What vec_test.cc asks of the vector header, included once per level.

void exp_of(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t live = min64(kLanes, n - i);
    if (live == kLanes) {
      store(out + i, exp(load(x + i)));
    } else {
      store_n(out + i, exp(load_n(x + i, live)), live);
    }
  }
}
void bf16_of(const float* x, int64_t n, uint16_t* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_bf16(out + i, load(x + i));
  if (i < n) store_bf16_n(out + i, load_n(x + i, n - i), n - i);
}
void f32_of(const uint16_t* x, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, load_bf16(x + i));
  if (i < n) store_n(out + i, load_bf16_n(x + i, n - i), n - i);
}
void f8_of(const float* x, int64_t n, uint8_t* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_f8(out + i, load(x + i));
  if (i < n) store_f8_n(out + i, load_n(x + i, n - i), n - i);
}
// The four places of sum_lanes4 for the same vector.
void sums_of(const float* x, float* out) {
  const VF a = load(x);
  const VF b = load(x + kLanes);
  _mm_storeu_ps(out, sum_lanes4(a, b, b, b));
  _mm_storeu_ps(out + 4, sum_lanes4(b, a, b, b));
  _mm_storeu_ps(out + 8, sum_lanes4(b, b, a, b));
  _mm_storeu_ps(out + 12, sum_lanes4(b, b, b, a));
}
