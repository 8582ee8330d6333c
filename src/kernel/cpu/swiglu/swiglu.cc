// SwiGLU of two values, at every vector level.
#include "kernel/swiglu.h"

#include "kernel/cpu/ops.h"

#define FLARE_BODY "kernel/cpu/swiglu/swiglu.inl.h"
#include "kernel/cpu/each_level.h"
