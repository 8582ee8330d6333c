// New keys and values into pages, at every vector level.
#include "kernel/kv_write.h"

#include "kernel/cpu/ops.h"

#define FLARE_BODY "kernel/cpu/kv_write/kv_write.inl.h"
#include "kernel/cpu/each_level.h"
