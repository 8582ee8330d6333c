// Op linear: y = x·Wᵀ + b over a weight in row segments of any format.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// y[t,n] = Σ_k x[t,k]·W[n,k] (+ b[n])
// Operands: 0 x f32 [T,K]; 1 W weight [N,K]; 2 b const [1,N] or absent; 3 y f32 [T,N], may not
// alias x. Immediates: 0 policy (integer, graph::Policy). kExact: W decoded exactly, products and
// sums in binary32 or better. kA16Only: activations may be rounded to bf16, nothing below.
// kAllowA8: activations may be quantised to int8 with one scale per weight group of a row.
// Accumulation is binary32 over groups along K in ascending order (int32 inside a group), so a
// row's bits are the same whatever rows stand beside it within one row class. T >= 0. x, W and y
// hold finite values.
void linear_ref(const LaunchArgs& args);

}  // namespace flare::kernel
