// Oracle of norm_add.
#include <cmath>

#include "kernel/norm_add.h"

namespace flare::kernel {

void norm_add_ref(const LaunchArgs& args) {
  const OperandView& x = args.operands[0];
  const float* w = args.operands[1].f32();
  const auto offset = static_cast<double>(args.immediates[1].i);
  for (int64_t t = 0; t < x.rows; ++t) {
    double squares = 0;
    for (int64_t i = 0; i < x.cols; ++i) squares += static_cast<double>(x.f32(t)[i]) * x.f32(t)[i];
    const double root = std::sqrt(squares / static_cast<double>(x.cols) + args.immediates[0].r);
    for (int64_t i = 0; i < x.cols; ++i)
      args.operands[3].f32_out(t)[i] =
          static_cast<float>(args.operands[2].f32(t)[i] + x.f32(t)[i] / root * (w[i] + offset));
  }
}

}  // namespace flare::kernel
