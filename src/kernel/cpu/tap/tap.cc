// A copied value, at every vector level.
#include "kernel/tap.h"

#include "kernel/cpu/ops.h"

#define FLARE_BODY "kernel/cpu/tap/tap.inl.h"
#include "kernel/cpu/each_level.h"
