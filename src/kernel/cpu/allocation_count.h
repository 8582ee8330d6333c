// How often this test program has allocated. For tests only.
#pragma once

#include <cstdint>

namespace flare::kernel::testing {

int64_t allocation_count();

}  // namespace flare::kernel::testing
