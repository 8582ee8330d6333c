// The sampler's passes over whole rows, at every vector level.
#include "kernel/sample.h"

#include "kernel/cpu/ops.h"
#include "kernel/cpu/sample/draw.h"

namespace flare::kernel {

uint64_t sample_workspace_bytes(const LaunchArgs& at_capacity, int n_members) {
  return static_cast<uint64_t>(n_members) * sampling::row_bytes(at_capacity.operands[0].cols);
}

}  // namespace flare::kernel

#define FLARE_BODY "kernel/cpu/sample/sample.inl.h"
#include "kernel/cpu/each_level.h"
