// Root-mean-square norm of column groups, at every vector level.
#include "kernel/rms_norm.h"

#include "kernel/cpu/ops.h"

#define FLARE_BODY "kernel/cpu/rms_norm/rms_norm.inl.h"
#include "kernel/cpu/each_level.h"
