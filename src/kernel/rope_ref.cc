// Oracle of rope.
#include <cmath>

#include "kernel/rope.h"

namespace flare::kernel {

void rope_ref(const LaunchArgs& args) {
  const OperandView& x = args.operands[0];
  const OperandView& f = args.operands[1];
  const OperandView& positions = args.operands[2];
  const OperandView& y = args.operands[3];
  const int64_t width = args.immediates[0].i;
  const double factor = args.immediates[1].r;
  const int64_t half = f.cols;
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t begin = 0; begin < x.cols; begin += width) {
      const float* in = x.f32(t) + begin;
      float* out = y.f32_out(t) + begin;
      for (int64_t i = 0; i < half; ++i) {
        int64_t axis = 0;
        if (i % 3 == 1 && i < 3 * args.immediates[2].i) axis = 1;
        if (i % 3 == 2 && i < 3 * args.immediates[3].i) axis = 2;
        const double angle =
            static_cast<double>(positions.i32()[axis * positions.stride + t]) * f.f32()[i];
        const double a = in[i];
        const double b = in[i + half];
        out[i] = static_cast<float>((a * std::cos(angle) - b * std::sin(angle)) * factor);
        out[i + half] = static_cast<float>((b * std::cos(angle) + a * std::sin(angle)) * factor);
      }
      for (int64_t i = 2 * half; i < width; ++i) out[i] = in[i];
    }
}

}  // namespace flare::kernel
