// linear at level v4: AVX-512 for binary32; int8 stays with v3.
#include <immintrin.h>

#include "base/isa_region.h"
#include "kernel/cpu/linear/linear.h"
#include "kernel/cpu/linear/panels.h"
#include "kernel/cpu/linear/problem.h"

FLARE_TARGET_BEGIN(FLARE_TARGET_V4)
namespace flare::kernel::v4 {
namespace {

using namespace linear;

// Each body uses the words of those before it.
// clang-format off
#define FLARE_LANES 16
#include "kernel/cpu/linear/linear_ends.inl.h"
#undef FLARE_LANES
#include "kernel/cpu/linear/simd_v4.inl.h"
#include "kernel/cpu/linear/pin.inl.h"
#include "kernel/cpu/linear/linear_float.inl.h"
#include "kernel/cpu/linear/panel_formats.inl.h"
#include "kernel/cpu/linear/panel_dots_maddubs.inl.h"
#include "kernel/cpu/linear/panels.inl.h"
#include "kernel/cpu/linear/panel_slices.inl.h"
#include "kernel/cpu/linear/panel_tiles.inl.h"
#include "kernel/cpu/linear/panel_floats.inl.h"
// clang-format on

}  // namespace

void linear_generic(const LaunchArgs& args, Member& member) {
  run_generic(problem_of(args), member);
}
void linear_bf16(const LaunchArgs& args, Member& member) {
  run_words<Bf16Weights>(problem_of(args), member);
}
void linear_fp16(const LaunchArgs& args, Member& member) {
  run_words<Fp16Weights>(problem_of(args), member);
}
void linear_panels(const LaunchArgs& args, Member& member) {
  run_panels(panel_problem(args, /*is_int8=*/true), member);
}
void linear_panel_floats(const LaunchArgs& args, Member& member) {
  run_panel_floats(panel_problem(args, /*is_int8=*/false), member);
}

}  // namespace flare::kernel::v4
FLARE_TARGET_END
