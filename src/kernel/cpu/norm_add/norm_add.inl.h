// The body of norm_add, included once per level: one unit is a row.
#include "kernel/cpu/norm.inl.h"

// out = r + x · rsqrt(mean(x²) + eps) ⊙ (w + offset); out may be x or r.
inline void norm_add_row(const float* x, const float* w, const float* r, int64_t n, float eps,
                         float offset, float* out) {
  const VF scale = splat(inverse_rms(x, n, eps));
  const VF add = splat(offset);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const VF normed = load(x + i) * scale * (load(w + i) + add);
    store(out + i, load(r + i) + normed);
  }
  if (i < n) {
    const VF normed = load_n(x + i, n - i) * scale * (load_n(w + i, n - i) + add);
    store_n(out + i, load_n(r + i, n - i) + normed, n - i);
  }
}

void norm_add(const LaunchArgs& args, Member& member) {
  const OperandView& x = args.operands[0];
  const OperandView& y = args.operands[3];
  const float eps = static_cast<float>(args.immediates[0].r);
  const auto offset = static_cast<float>(args.immediates[1].i);
  const auto part = member.share(x.rows);
  for (int64_t t = part.first; t < part.second; ++t)
    norm_add_row(x.f32(t), args.operands[1].f32(), args.operands[2].f32(t), x.cols, eps, offset,
                 y.f32_out(t));
}
