// The body of rms_norm, included once per level: one unit is a row's group of columns.
#include "kernel/cpu/norm.inl.h"

void rms_norm(const LaunchArgs& args, Member& member) {
  const OperandView& x = args.operands[0];
  const float* w = args.operands[1].f32();
  const OperandView& y = args.operands[2];
  const int64_t width = args.operands[1].cols;
  const float eps = static_cast<float>(args.immediates[0].r);
  const VF offset = splat(static_cast<float>(args.immediates[1].i));
  const int64_t groups = x.cols / width;
  const auto part = member.share(x.rows * groups);
  for (int64_t unit = part.first; unit < part.second; ++unit) {
    const float* in = x.f32(unit / groups) + unit % groups * width;
    float* out = y.f32_out(unit / groups) + unit % groups * width;
    const VF scale = splat(inverse_rms(in, width, eps));
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes)
      store(out + i, load(in + i) * scale * (load(w + i) + offset));
    if (i < width) {
      const int64_t n = width - i;
      store_n(out + i, load_n(in + i, n) * scale * (load_n(w + i, n) + offset), n);
    }
  }
}
