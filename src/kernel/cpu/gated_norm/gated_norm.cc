// Norm of each head with a SiLU gate, at every vector level.
#include "kernel/gated_norm.h"

#include "kernel/cpu/ops.h"

#define FLARE_BODY "kernel/cpu/gated_norm/gated_norm.inl.h"
#include "kernel/cpu/each_level.h"
