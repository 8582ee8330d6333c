// Op tap: a copy of a value for parity tools.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// Operands: 0 x f32 [T,D]; 1 io tap f32 [T,D] out.
void tap_ref(const LaunchArgs& args);

}  // namespace flare::kernel
