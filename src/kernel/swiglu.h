// Op swiglu: gated linear unit with SiLU.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// a = g·σ(g) ⊙ u. Operands: 0 g f32 [T,F]; 1 u f32 [T,F]; 2 a f32 [T,F], may be g or u.
void swiglu_ref(const LaunchArgs& args);

}  // namespace flare::kernel
