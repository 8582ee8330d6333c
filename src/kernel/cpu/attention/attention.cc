// Paged causal attention over fixed token blocks, at every vector level.
#include "kernel/attention.h"

#include "kernel/cpu/attention/layout.h"
#include "kernel/cpu/ops.h"

namespace flare::kernel {

uint64_t attention_workspace_bytes(const LaunchArgs& at_capacity, int n_members) {
  const attention::Shape shape = attention::shape_of(at_capacity);
  const int64_t split = attention::split_below(n_members) * attention::kMaxChunks;
  return static_cast<uint64_t>(n_members * shape.member_floats() + split * shape.partial_floats()) *
         sizeof(float);
}

}  // namespace flare::kernel

#define FLARE_BODY "kernel/cpu/attention/attention.inl.h"
#include "kernel/cpu/each_level.h"
