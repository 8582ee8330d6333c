// The oracle of sample.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// The contract of sample.h in double precision, with a full sort.
void sample_ref(const LaunchArgs& args);

}  // namespace flare::kernel
