// The levels of group_math.h, and the choice among them.
#include "codec/group_math.h"

#include "base/isa_region.h"

namespace flare::codec::v2 {
namespace {
#define FLARE_LANES 4
#include "codec/group_math.inl.h"
#undef FLARE_LANES
}  // namespace
}  // namespace flare::codec::v2

FLARE_TARGET_BEGIN(FLARE_TARGET_V3)
namespace flare::codec::v3 {
namespace {
#define FLARE_LANES 8
#include "codec/group_math.inl.h"
#undef FLARE_LANES
}  // namespace
}  // namespace flare::codec::v3
FLARE_TARGET_END

FLARE_TARGET_BEGIN(FLARE_TARGET_V4)
namespace flare::codec::v4 {
namespace {
#define FLARE_LANES 16
#include "codec/group_math.inl.h"
#undef FLARE_LANES
}  // namespace
}  // namespace flare::codec::v4
FLARE_TARGET_END

namespace flare::codec {

const GroupMath& group_math(Isa isa) {
  if (isa >= Isa::kV4) return v4::kMath;
  return isa == Isa::kV3 ? v3::kMath : v2::kMath;
}

const GroupMath& group_math() {
  static const GroupMath& mine = group_math(machine_isa().value_or(Isa::kV2));
  return mine;
}

}  // namespace flare::codec
