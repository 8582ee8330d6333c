// Norm of a branch and its sum with the residual stream, at every vector level.
#include "kernel/norm_add.h"

#include "kernel/cpu/ops.h"

#define FLARE_BODY "kernel/cpu/norm_add/norm_add.inl.h"
#include "kernel/cpu/each_level.h"
