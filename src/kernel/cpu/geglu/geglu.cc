// GEGLU of two values, at every vector level.
#include "kernel/geglu.h"

#include "kernel/cpu/ops.h"

#define FLARE_BODY "kernel/cpu/geglu/geglu.inl.h"
#include "kernel/cpu/each_level.h"
