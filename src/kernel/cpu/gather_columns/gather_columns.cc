// Columns in another order, at every vector level.
#include "kernel/gather_columns.h"

#include "kernel/cpu/ops.h"

#define FLARE_BODY "kernel/cpu/gather_columns/gather_columns.inl.h"
#include "kernel/cpu/each_level.h"
