// Op gate_mul: product with the logistic function of a gate.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// y = x ⊙ σ(g). Operands: 0 x f32 [T,D]; 1 g f32 [T,D]; 2 y f32 [T,D], may be x.
void gate_mul_ref(const LaunchArgs& args);

}  // namespace flare::kernel
