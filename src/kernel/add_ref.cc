// Oracle of add.
#include "kernel/add.h"

namespace flare::kernel {

void add_ref(const LaunchArgs& args) {
  const OperandView& z = args.operands[2];
  for (int64_t t = 0; t < z.rows; ++t)
    for (int64_t i = 0; i < z.cols; ++i)
      z.f32_out(t)[i] = static_cast<float>(static_cast<double>(args.operands[0].f32(t)[i]) +
                                           args.operands[1].f32(t)[i]);
}

}  // namespace flare::kernel
