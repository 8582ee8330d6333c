// Op norm_add: a branch's norm, and the sum with the residual stream behind it.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// y[t,:] = r[t,:] + x[t,:] · rsqrt(mean(x[t,:]²) + eps) ⊙ (w or 1 + w).
// Operands: 0 x f32 [T,D]; 1 w const [1,D]; 2 r f32 [T,D]; 3 y f32 [T,D], may be x or r.
// Immediates: 0 eps (real); 1 offset (integer: 1 multiplies by 1 + w).
// The bits are those of rms_norm and add one after the other.
void norm_add_ref(const LaunchArgs& args);

}  // namespace flare::kernel
