// Oracle of rms_norm.
#include <cmath>

#include "kernel/rms_norm.h"

namespace flare::kernel {

void rms_norm_ref(const LaunchArgs& args) {
  const OperandView& x = args.operands[0];
  const OperandView& w = args.operands[1];
  const OperandView& y = args.operands[2];
  const double offset = static_cast<double>(args.immediates[1].i);
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t begin = 0; begin < x.cols; begin += w.cols) {
      double sum = 0;
      for (int64_t i = 0; i < w.cols; ++i) {
        const double v = x.f32(t)[begin + i];
        sum += v * v;
      }
      const double root = std::sqrt(sum / static_cast<double>(w.cols) + args.immediates[0].r);
      for (int64_t i = 0; i < w.cols; ++i)
        y.f32_out(t)[begin + i] =
            static_cast<float>(x.f32(t)[begin + i] / root * (w.f32()[i] + offset));
    }
}

}  // namespace flare::kernel
