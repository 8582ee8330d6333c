// The body of rms_norm, included once per level: one unit is a row's group of columns.
#include "kernel/cpu/norm.inl.h"

void rms_norm(const LaunchArgs& args, Member& member) {
  const OperandView& x = args.operands[0];
  const float* w = args.operands[1].f32();
  const OperandView& y = args.operands[2];
  const int64_t width = args.operands[1].cols;
  const float eps = static_cast<float>(args.immediates[0].r);
  const auto offset = static_cast<float>(args.immediates[1].i);
  const int64_t groups = x.cols / width;
  const auto part = member.share(x.rows * groups);
  for (int64_t unit = part.first; unit < part.second; ++unit) {
    const int64_t column = unit % groups * width;
    rms_norm_group(x.f32(unit / groups) + column, w, width, eps, offset,
                   y.f32_out(unit / groups) + column);
  }
}
