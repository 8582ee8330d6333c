// Op gather_rows: the rows whose logits are wanted.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// y[l,:] = x[rows_l,:]. Operands: 0 x f32 [T,D]; 1 rows io i32 [L]; 2 y f32 [L,D].
void gather_rows_ref(const LaunchArgs& args);

}  // namespace flare::kernel
