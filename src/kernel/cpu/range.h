// Reserved address space backed on demand by anonymous memory.
#pragma once

#include <memory>

#include "kernel/backend.h"

namespace flare::kernel {

// Errors: kDoesNotFit where the address space or the memory is missing.
std::unique_ptr<Range> reserve_range(uint64_t bytes);

}  // namespace flare::kernel
