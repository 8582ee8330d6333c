// Norm, rotation and page records of one step's heads, at every vector level.
#include "kernel/attention_input.h"

#include "kernel/cpu/attention_input/layout.h"
#include "kernel/cpu/ops.h"

namespace flare::kernel {

uint64_t attention_input_workspace_bytes(const LaunchArgs& at_capacity, int n_members) {
  return static_cast<uint64_t>(attention_input::room_of(at_capacity).floats) * sizeof(float) *
         static_cast<uint64_t>(n_members);
}

}  // namespace flare::kernel

#define FLARE_BODY "kernel/cpu/attention_input/attention_input.inl.h"
#include "kernel/cpu/each_level.h"
