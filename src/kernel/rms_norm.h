// Op rms_norm: root-mean-square norm of each group of columns.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// Per row and per group of D = cols(w) columns: y = x · rsqrt(mean(x²) + eps) ⊙ (w or 1 + w).
// Operands: 0 x f32 [T, G·D]; 1 w const [1,D]; 2 y f32 [T, G·D], may be x.
// Immediates: 0 eps (real); 1 offset (integer: 1 multiplies by 1 + w, building_blocks.md §1).
// Mean and root in binary32 or better.
void rms_norm_ref(const LaunchArgs& args);

}  // namespace flare::kernel
