// One block of kLanes columns (n live ones) of one sequence. Members own columns, not rows, so
// that nobody overwrites a tail that another still reads.
inline void conv_columns(const OperandView& u, const OperandView& w, const OperandView& c,
                         float* tail, int64_t tail_stride, int64_t begin, int64_t end,
                         int64_t column, int64_t n, bool silu_on) {
  const int64_t taps = w.rows;
  const int64_t rows = end - begin;
  for (int64_t t = 0; t < rows; ++t) {
    VF sum = splat(0);
    for (int64_t j = 0; j < taps; ++j) {
      const int64_t source = t - taps + 1 + j;  // row of this step, or < 0: of the tail
      const float* in = source >= 0 ? u.f32(begin + source) + column
                                    : tail + (source + taps - 1) * tail_stride + column;
      const float* weight = w.f32(j) + column;
      sum = n == kLanes ? fma(load(weight), load(in), sum)
                        : fma(load_n(weight, n), load_n(in, n), sum);
    }
    if (silu_on) sum = silu(sum);
    float* out = c.f32_out(begin + t) + column;
    if (n == kLanes) {
      store(out, sum);
    } else {
      store_n(out, sum, n);
    }
  }
  // Ascending order: an entry moves down before its place is taken.
  for (int64_t i = 0; i < taps - 1; ++i) {
    const int64_t source = rows - (taps - 1) + i;
    const float* in = source >= 0 ? u.f32(begin + source) + column
                                  : tail + (i + rows) * tail_stride + column;
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
  const int64_t blocks = (u.cols + kLanes - 1) / kLanes;
  const auto part = member.share(step.n_sequences * blocks);
  for (int64_t unit = part.first; unit < part.second; ++unit) {
    const int64_t b = unit / blocks;
    const int64_t begin = step.sequence_begin[b];
    const int64_t end = step.sequence_begin[b + 1];
    if (begin == end) continue;
    float* tail = reinterpret_cast<float*>(step.rows[b] + field.offset);
    const int64_t column = unit % blocks * kLanes;
    conv_columns(u, w, c, tail, u.cols, begin, end, column, min64(kLanes, u.cols - column),
                 silu_on);
  }
}
