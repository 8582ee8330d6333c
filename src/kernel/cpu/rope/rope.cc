// Rotary embedding with angles in double precision, at every vector level.
#include "kernel/rope.h"

#include "kernel/cpu/ops.h"

#define FLARE_BODY "kernel/cpu/rope/rope.inl.h"
#include "kernel/cpu/each_level.h"
