// Op conv_causal: short depthwise convolution with a tail in the continuation row.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// c[t,ch] = act(Σ_{j<J} w[j,ch]·u[t−J+1+j, ch]); rows before the step's first come from the tail
// (oldest first), which is zero for a new sequence; afterwards the tail holds the last J−1 rows of
// u (before the activation). qwen3_5.md §6.1. Operands: 0 u f32 [T,C]; 1 w const [J,C]; 2 tail row
// field f32 [J−1, C]; 3 c f32 [T,C], may not be u. Immediates: 0 act (0 none, 1 SiLU).
void conv_causal_ref(const LaunchArgs& args);

}  // namespace flare::kernel
