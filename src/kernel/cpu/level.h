// Which of its levels a kernel takes on this machine.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// Whether this CPU does fewer products of bf16 pairs (vdpbf16ps) a second than of binary32: Intel's
// do. Measured on a Xeon of 2023, a thread: 121 GOP/s against 248.
bool has_slow_bf16_products();

// The level whose function of the kernel a machine of level `isa` runs: attention takes binary32
// where that is faster. Tiles (level amx) are faster than either.
Isa level_of(KernelId id, Isa isa, bool slow_bf16_products);

}  // namespace flare::kernel
