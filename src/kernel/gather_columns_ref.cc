// Oracle of gather_columns.
#include "kernel/gather_columns.h"

namespace flare::kernel {

void gather_columns_ref(const LaunchArgs& args) {
  const OperandView& y = args.operands[2];
  for (int64_t t = 0; t < y.rows; ++t)
    for (int64_t c = 0; c < y.cols; ++c)
      y.f32_out(t)[c] = args.operands[0].f32(t)[args.operands[1].i32()[c]];
}

}  // namespace flare::kernel
