// Gated DeltaNet in step, chunk, verification and commit form, at every vector level.
#include "kernel/gated_delta.h"

#include "kernel/cpu/gated_delta/layout.h"
#include "kernel/cpu/ops.h"

namespace flare::kernel {

uint64_t gated_delta_workspace_bytes(const LaunchArgs& at_capacity, int n_members) {
  const int64_t floats = gated_delta_layout::shape_of(at_capacity).member_floats();
  return static_cast<uint64_t>(n_members * floats) * sizeof(float);
}

}  // namespace flare::kernel

#define FLARE_BODY "kernel/cpu/gated_delta/gated_delta.inl.h"
#include "kernel/cpu/each_level.h"
