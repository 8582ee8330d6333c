// Oracle of gather_rows.
#include <algorithm>

#include "kernel/gather_rows.h"

namespace flare::kernel {

void gather_rows_ref(const LaunchArgs& args) {
  const OperandView& y = args.operands[2];
  for (int64_t l = 0; l < y.rows; ++l)
    std::copy_n(args.operands[0].f32(args.operands[1].i32()[l]), y.cols, y.f32_out(l));
}

}  // namespace flare::kernel
