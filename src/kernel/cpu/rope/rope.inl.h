// The body of rope, included once per level: a row's cos and sin are worked out once for its heads.
#include "kernel/cpu/rope/rotate.inl.h"

void rope(const LaunchArgs& args, Member& member) {
  const OperandView& x = args.operands[0];
  const OperandView& y = args.operands[3];
  const int64_t width = args.immediates[0].i;
  const Rotation rotation{args.operands[1], args.operands[2], args.immediates[1].r,
                          3 * args.immediates[2].i, 3 * args.immediates[3].i};
  const int64_t half = rotation.frequencies.cols;
  const auto part = member.share(x.rows);
  for (int64_t t = part.first; t < part.second; ++t) {
    for (int64_t first = 0; first < half; first += kPairBlock) {
      const int64_t n = min64(kPairBlock, half - first);
      float cosine[kPairBlock];
      float sine[kPairBlock];
      rotation.angles(t, first, n, cosine, sine);
      for (int64_t column = first; column < x.cols; column += width)
        rotate_pairs(x.f32(t) + column, y.f32_out(t) + column, half, n, cosine, sine);
    }
    if (x.data == y.data) continue;
    for (int64_t head = 0; head < x.cols / width; ++head)
      __builtin_memcpy(y.f32_out(t) + head * width + 2 * half, x.f32(t) + head * width + 2 * half,
                       static_cast<size_t>(width - 2 * half) * 4);
  }
}
