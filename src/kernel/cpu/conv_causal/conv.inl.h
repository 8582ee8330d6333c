// What conv_causal and gated_delta share: a sequence's columns behind their tail.

// A sequence's rows before the convolution: `taps` − 1 rows of the tail, then those of the step.
struct ConvLine {
  const OperandView& u;
  const float* tail;  // rows of u.cols floats
  int64_t begin;      // the step's row that is row 0 here
  int64_t taps;
  // Row t >= −(taps − 1).
  const float* row(int64_t t) const {
    return t >= 0 ? u.f32(begin + t) : tail + (t + taps - 1) * u.cols;
  }
};

// One vector of row t after the convolution, n <= kLanes live columns from `column` on.
inline VF conv_vector(const ConvLine& line, const OperandView& w, int64_t t, int64_t column,
                      int64_t n) {
  VF sum = splat(0);
  for (int64_t j = 0; j < line.taps; ++j) {
    const float* in = line.row(t - line.taps + 1 + j) + column;
    const float* weight = w.f32(j) + column;
    sum =
        n == kLanes ? fma(load(weight), load(in), sum) : fma(load_n(weight, n), load_n(in, n), sum);
  }
  return sum;
}

struct Identity {
  static VF apply(VF x) { return x; }
};
struct Silu {
  static VF apply(VF x) { return silu(x); }
};

// R rows from t on of a convolution of four taps over whole vectors: a row of u is loaded once for
// all the outputs that it enters. Rows of a wide u lie in the same sets of the first-level cache.
template <class Act, int R>
inline void conv_rows_of_four(const ConvLine& line, const OperandView& w, int64_t t, int64_t column,
                              int64_t n, float* out, int64_t out_stride) {
  const float* in[R + 3];
  for (int j = 0; j < R + 3; ++j) in[j] = line.row(t - 3 + j) + column;
  const float* weight[4];
  for (int j = 0; j < 4; ++j) weight[j] = w.f32(j) + column;
  for (int64_t i = 0; i < n; i += kLanes) {
    VF u[R + 3];
#pragma GCC unroll 8
    for (int j = 0; j < R + 3; ++j) u[j] = load(in[j] + i);
    VF sum[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sum[r] = splat(0);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const VF factor = load(weight[j] + i);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sum[r] = fma(factor, u[r + j], sum[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) store(out + r * out_stride + i, Act::apply(sum[r]));
  }
}

// out = act of columns [column, column + n) of `rows` rows from t on after the convolution. Four
// taps, the usual number, have a loop of their own; the sums are the same.
template <class Act>
inline void conv_rows(const ConvLine& line, const OperandView& w, int64_t t, int64_t rows,
                      int64_t column, int64_t n, float* out, int64_t out_stride) {
  int64_t done = 0;  // columns
  if (line.taps == 4) {
    done = n / kLanes * kLanes;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
      conv_rows_of_four<Act, 4>(line, w, t + r, column, done, out + r * out_stride, out_stride);
    for (; r < rows; ++r)
      conv_rows_of_four<Act, 1>(line, w, t + r, column, done, out + r * out_stride, out_stride);
  }
  for (int64_t r = 0; done < n && r < rows; ++r)
    for (int64_t i = done; i < n; i += kLanes) {
      const int64_t live = min64(kLanes, n - i);
      const VF c = Act::apply(conv_vector(line, w, t + r, column + i, live));
      float* to = out + r * out_stride + i;
      if (live == kLanes) {
        store(to, c);
      } else {
        store_n(to, c, live);
      }
    }
}

// Columns [column, column + n) of the tail that follows the first `rows` rows. `tail` is the
// line's. Ascending order: an entry moves down before its place is taken.
inline void move_tail(const ConvLine& line, float* tail, int64_t rows, int64_t column, int64_t n) {
  for (int64_t i = 0; i < line.taps - 1; ++i)
    __builtin_memmove(tail + i * line.u.cols + column,
                      line.row(rows - (line.taps - 1) + i) + column, static_cast<size_t>(n) * 4);
}
