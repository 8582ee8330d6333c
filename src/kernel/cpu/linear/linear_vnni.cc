// linear at level vnni: vpdpbusd for int8.
#include <immintrin.h>

#include "base/isa_region.h"
#include "kernel/cpu/linear/linear.h"
#include "kernel/cpu/linear/panels.h"
#include "kernel/cpu/linear/problem.h"

FLARE_TARGET_BEGIN(FLARE_TARGET_VNNI)
namespace flare::kernel::vnni {
namespace {

using namespace linear;

// Each body uses the words of those before it.
// clang-format off
#define FLARE_LANES 16
#include "kernel/cpu/linear/linear_ends.inl.h"
#undef FLARE_LANES
#include "kernel/cpu/linear/simd_v4.inl.h"
#include "kernel/cpu/linear/panel_formats.inl.h"
#include "kernel/cpu/linear/panel_dots_vnni.inl.h"
#include "kernel/cpu/linear/panels.inl.h"
#include "kernel/cpu/linear/panel_slices.inl.h"
#include "kernel/cpu/linear/panel_tiles.inl.h"
// clang-format on

}  // namespace
void linear_panels(const LaunchArgs& args, Member& member) {
  run_panels(panel_problem(args, /*is_int8=*/true), member);
}

}  // namespace flare::kernel::vnni
FLARE_TARGET_END
