// The body of conv_causal, included once per level: one unit is a sequence's run of columns.
#include "kernel/cpu/conv_causal/conv.inl.h"

// Columns of one unit: wide enough to read rows in runs, narrow enough that a single row of a wide
// value occupies several members. Members own columns, not rows, so that nobody overwrites a tail
// that another still reads.
inline constexpr int64_t kConvColumns = 256;

void conv_causal(const LaunchArgs& args, Member& member) {
  const OperandView& u = args.operands[0];
  const OperandView& w = args.operands[1];
  const OperandView& c = args.operands[3];
  const StepInputs& step = *args.step;
  const bool silu_on = args.immediates[0].i == 1;
  const int64_t blocks = (u.cols + kConvColumns - 1) / kConvColumns;
  const auto part = member.share(step.n_sequences * blocks);
  for (int64_t unit = part.first; unit < part.second; ++unit) {
    const int64_t b = unit / blocks;
    const int64_t begin = step.sequence_begin[b];
    const int64_t rows = step.sequence_begin[b + 1] - begin;
    if (rows == 0) continue;
    float* tail = reinterpret_cast<float*>(step.rows[b] + args.operands[2].offset);
    const ConvLine line = {u, tail, begin, w.rows};
    const int64_t column = unit % blocks * kConvColumns;
    const int64_t n = min64(kConvColumns, u.cols - column);
    float* out = c.f32_out(begin) + column;
    if (silu_on) {
      conv_rows<Silu>(line, w, 0, rows, column, n, out, c.stride);
    } else {
      conv_rows<Identity>(line, w, 0, rows, column, n, out, c.stride);
    }
    move_tail(line, tail, rows, column, n);
  }
}
