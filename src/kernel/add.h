// Op add: sum of two values.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// z = x + y. Operands: 0 x f32 [T,D]; 1 y f32 [T,D]; 2 z f32 [T,D], may be x or y.
void add_ref(const LaunchArgs& args);

}  // namespace flare::kernel
