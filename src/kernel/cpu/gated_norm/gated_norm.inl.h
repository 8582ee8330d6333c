// The body of gated_norm, included once per level: one unit is a row's head.
#include "kernel/cpu/norm.inl.h"

void gated_norm(const LaunchArgs& args, Member& member) {
  const OperandView& x = args.operands[0];
  const OperandView& z = args.operands[1];
  const float* w = args.operands[2].f32();
  const OperandView& y = args.operands[3];
  const int64_t width = args.operands[2].cols;
  const float eps = static_cast<float>(args.immediates[0].r);
  const int64_t groups = x.cols / width;
  const auto part = member.share(x.rows * groups);
  for (int64_t unit = part.first; unit < part.second; ++unit) {
    const int64_t column = unit % groups * width;
    gated_norm_group(x.f32(unit / groups) + column, z.f32(unit / groups) + column, w, width, eps,
                     y.f32_out(unit / groups) + column);
  }
}
