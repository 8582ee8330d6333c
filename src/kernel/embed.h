// Op embed: rows of a token table.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// y[t,:] = scale · W[id_t,:]
// Operands: 0 ids io i32 [T]; 1 W weight [V,H], any format; 2 y f32 [T,H].
// Immediates: 0 scale (real). Ids are in [0, V); the caller checks. Exact: one decode, one product.
void embed_ref(const LaunchArgs& args);

}  // namespace flare::kernel
