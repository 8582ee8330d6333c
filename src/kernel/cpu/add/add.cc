// Sum of two values, at every vector level.
#include "kernel/add.h"

#include "kernel/cpu/ops.h"

#define FLARE_BODY "kernel/cpu/add/add.inl.h"
#include "kernel/cpu/each_level.h"
