// Op gather_columns: columns in another order.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// y[t,c] = x[t,columns_c], bit for bit; 0 <= columns_c < D, any number may come more than once.
// Operands: 0 x f32 [T,D]; 1 columns constant i32 [1,K]; 2 y f32 [T,K], may not be x.
// Source: spec/artifact.md §10.3, auxiliary input_columns.
void gather_columns_ref(const LaunchArgs& args);

}  // namespace flare::kernel
