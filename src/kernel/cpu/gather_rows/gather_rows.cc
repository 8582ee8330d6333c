// Selected rows, at every vector level.
#include "kernel/gather_rows.h"

#include "kernel/cpu/ops.h"

#define FLARE_BODY "kernel/cpu/gather_rows/gather_rows.inl.h"
#include "kernel/cpu/each_level.h"
