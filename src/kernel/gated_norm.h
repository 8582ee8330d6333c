// Op gated_norm: norm of each head, then a SiLU gate.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// Per group of D = cols(w) columns: y = w ⊙ x·rsqrt(mean(x²) + eps) ⊙ silu(z). building_blocks.md
// §1 rms_gated_silu. Operands: 0 x f32 [T, G·D]; 1 z f32 [T, G·D]; 2 w const [1,D]; 3 y f32 [T,
// G·D], may be x. Immediates: 0 eps (real).
void gated_norm_ref(const LaunchArgs& args);

}  // namespace flare::kernel
