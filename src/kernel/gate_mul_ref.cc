// Oracle of gate_mul.
#include <cmath>

#include "kernel/gate_mul.h"

namespace flare::kernel {

void gate_mul_ref(const LaunchArgs& args) {
  const OperandView& y = args.operands[2];
  for (int64_t t = 0; t < y.rows; ++t)
    for (int64_t i = 0; i < y.cols; ++i) {
      const double x = args.operands[0].f32(t)[i];
      const double g = args.operands[1].f32(t)[i];
      y.f32_out(t)[i] = static_cast<float>(x / (1 + std::exp(-g)));
    }
}

}  // namespace flare::kernel
