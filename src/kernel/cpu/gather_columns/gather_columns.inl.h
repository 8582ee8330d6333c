// The body of gather_columns, included once per level.
#include "kernel/cpu/blocks.inl.h"

// Copied as words, so that no bit of a NaN changes. Gather instructions load one lane at a time as
// well and gain nothing over a plain loop.
void gather_columns(const LaunchArgs& args, Member& member) {
  const OperandView& x = args.operands[0];
  const OperandView& y = args.operands[2];
  const int64_t blocks = column_blocks(y);
  const auto part = member.share(y.rows * blocks);
  for (int64_t unit = part.first; unit < part.second; ++unit) {
    const int64_t row = unit / blocks;
    const int64_t begin = unit % blocks * kColumnBlock;
    const int64_t n = min64(kColumnBlock, y.cols - begin);
    const int32_t* columns = args.operands[1].i32() + begin;
    const float* from = x.f32(row);
    float* to = y.f32_out(row) + begin;
    for (int64_t i = 0; i < n; ++i) __builtin_memcpy(to + i, from + columns[i], sizeof(float));
  }
}
