// The body of conv_causal, included once per level: one unit is a sequence's run of columns.

// Columns of one unit: wide enough to read rows in runs, narrow enough that a single row of a wide
// value occupies several members. Members own columns, not rows, so that nobody overwrites a tail
// that another still reads.
inline constexpr int64_t kConvColumns = 256;

// One output vector: columns [column, column + n) of row t, n <= kLanes.
inline VF conv_vector(const OperandView& u, const OperandView& w, const float* tail,
                      int64_t tail_stride, int64_t begin, int64_t t, int64_t column, int64_t n) {
  const int64_t taps = w.rows;
  VF sum = splat(0);
  for (int64_t j = 0; j < taps; ++j) {
    const int64_t source = t - taps + 1 + j;  // row of this step, or < 0: of the tail
    const float* in = source >= 0 ? u.f32(begin + source) + column
                                  : tail + (source + taps - 1) * tail_stride + column;
    const float* weight = w.f32(j) + column;
    sum =
        n == kLanes ? fma(load(weight), load(in), sum) : fma(load_n(weight, n), load_n(in, n), sum);
  }
  return sum;
}

// Columns [column, column + n) of one sequence.
inline void conv_columns(const OperandView& u, const OperandView& w, const OperandView& c,
                         float* tail, int64_t tail_stride, int64_t begin, int64_t end,
                         int64_t column, int64_t n, bool silu_on) {
  const int64_t taps = w.rows;
  const int64_t rows = end - begin;
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t i = 0; i < n; i += kLanes) {
      const int64_t live = min64(kLanes, n - i);
      VF sum = conv_vector(u, w, tail, tail_stride, begin, t, column + i, live);
      if (silu_on) sum = silu(sum);
      float* out = c.f32_out(begin + t) + column + i;
      if (live == kLanes) {
        store(out, sum);
      } else {
        store_n(out, sum, live);
      }
    }
  // Ascending order: an entry moves down before its place is taken.
  for (int64_t i = 0; i < taps - 1; ++i) {
    const int64_t source = rows - (taps - 1) + i;
    const float* in =
        source >= 0 ? u.f32(begin + source) + column : tail + (i + rows) * tail_stride + column;
    __builtin_memmove(tail + i * tail_stride + column, in, static_cast<size_t>(n) * 4);
  }
}

void conv_causal(const LaunchArgs& args, Member& member) {
  const OperandView& u = args.operands[0];
  const OperandView& w = args.operands[1];
  const OperandView& field = args.operands[2];
  const OperandView& c = args.operands[3];
  const StepInputs& step = *args.step;
  const bool silu_on = args.immediates[0].i == 1;
  const int64_t blocks = (u.cols + kConvColumns - 1) / kConvColumns;
  const auto part = member.share(step.n_sequences * blocks);
  for (int64_t unit = part.first; unit < part.second; ++unit) {
    const int64_t b = unit / blocks;
    const int64_t begin = step.sequence_begin[b];
    const int64_t end = step.sequence_begin[b + 1];
    if (begin == end) continue;
    float* tail = reinterpret_cast<float*>(step.rows[b] + field.offset);
    const int64_t column = unit % blocks * kConvColumns;
    conv_columns(u, w, c, tail, u.cols, begin, end, column, min64(kConvColumns, u.cols - column),
                 silu_on);
  }
}
