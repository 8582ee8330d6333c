// Op geglu: gated linear unit with GELU in its tanh form.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))), of any finite x.
double gelu_tanh(double x);

// a = gelu_tanh(g) ⊙ u (spec/models/building_blocks.md §4). Operands: 0 g f32 [T,F]; 1 u f32 [T,F];
// 2 a f32 [T,F], may be g or u.
void geglu_ref(const LaunchArgs& args);

}  // namespace flare::kernel
