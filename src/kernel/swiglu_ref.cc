// Oracle of swiglu.
#include <cmath>

#include "kernel/swiglu.h"

namespace flare::kernel {

void swiglu_ref(const LaunchArgs& args) {
  const OperandView& a = args.operands[2];
  for (int64_t t = 0; t < a.rows; ++t)
    for (int64_t i = 0; i < a.cols; ++i) {
      const double g = args.operands[0].f32(t)[i];
      const double u = args.operands[1].f32(t)[i];
      a.f32_out(t)[i] = static_cast<float>(g / (1 + std::exp(-g)) * u);
    }
}

}  // namespace flare::kernel
