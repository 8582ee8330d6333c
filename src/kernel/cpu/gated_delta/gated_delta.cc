// Gated DeltaNet in step and chunk form, at every vector level.
#include "kernel/gated_delta.h"

#include <cmath>

#include "kernel/cpu/gated_delta/layout.h"
#include "kernel/cpu/ops.h"

namespace flare::kernel {

uint64_t gated_delta_workspace_bytes(const LaunchArgs& at_capacity, int n_members) {
  const int64_t floats = gated_delta_layout::shape_of(at_capacity).member_floats();
  return static_cast<uint64_t>(n_members * floats) * sizeof(float);
}

namespace {

// The gates of one row and V head; few enough that double precision costs nothing.
struct Gates {
  double log_decay;  // g
  float beta;
};
Gates gates_of(const LaunchArgs& args, int64_t t, int64_t head) {
  const double x =
      static_cast<double>(args.operands[1].f32(t)[head]) + args.operands[4].f32()[head];
  const double softplus = x > 20 ? x : std::log1p(std::exp(x));
  Gates gates;
  gates.log_decay = -std::exp(static_cast<double>(args.operands[3].f32()[head])) * softplus;
  gates.beta =
      static_cast<float>(1 / (1 + std::exp(-static_cast<double>(args.operands[2].f32(t)[head]))));
  return gates;
}

float exp_of(double x) { return static_cast<float>(std::exp(x)); }

}  // namespace
}  // namespace flare::kernel

#define FLARE_BODY "kernel/cpu/gated_delta/gated_delta.inl.h"
#include "kernel/cpu/each_level.h"
