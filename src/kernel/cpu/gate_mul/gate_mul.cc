// Product with a logistic gate, at every vector level.
#include "kernel/gate_mul.h"

#include "kernel/cpu/ops.h"

#define FLARE_BODY "kernel/cpu/gate_mul/gate_mul.inl.h"
#include "kernel/cpu/each_level.h"
