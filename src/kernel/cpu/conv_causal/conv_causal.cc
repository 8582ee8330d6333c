// Short causal depthwise convolution, at every vector level.
#include "kernel/conv_causal.h"

#include "kernel/cpu/ops.h"

#define FLARE_BODY "kernel/cpu/conv_causal/conv_causal.inl.h"
#include "kernel/cpu/each_level.h"
