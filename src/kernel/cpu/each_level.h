// Includes FLARE_BODY once per vector level: namespaces v2, v3, v4 of flare::kernel.
// No include guard; a unit defines FLARE_BODY, after all its other includes, and includes this.
#include <immintrin.h>

#include "base/isa_region.h"

namespace flare::kernel::v2 {
#define FLARE_LANES 4
#include "kernel/cpu/vec.inl.h"
#include FLARE_BODY
#undef FLARE_LANES
}  // namespace flare::kernel::v2

FLARE_TARGET_BEGIN(FLARE_TARGET_V3)
namespace flare::kernel::v3 {
#define FLARE_LANES 8
#include "kernel/cpu/vec.inl.h"
#include FLARE_BODY
#undef FLARE_LANES
}  // namespace flare::kernel::v3
FLARE_TARGET_END

FLARE_TARGET_BEGIN(FLARE_TARGET_V4)
namespace flare::kernel::v4 {
#define FLARE_LANES 16
#include "kernel/cpu/vec.inl.h"
#include FLARE_BODY
#undef FLARE_LANES
}  // namespace flare::kernel::v4
FLARE_TARGET_END
