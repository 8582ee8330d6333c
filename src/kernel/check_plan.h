// Whether a plan may be replayed: kernels, operand kinds, shapes and ranges.
#pragma once

#include <cstdint>

#include "graph/plan.h"
#include "kernel/backend.h"

namespace flare::kernel {

// The most operands of any kernel.
inline constexpr uint32_t kMaxOperands = 10;

// Errors: kInvalid naming the plan, the launch and the operand.
void check_plan(const graph::Plan& plan, const PlanBindings& bindings);

// Capacity rows of an extent.
int64_t rows_of(graph::Extent extent, const graph::PlanCapacity& capacity);

}  // namespace flare::kernel
