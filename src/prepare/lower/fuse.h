// Fusion: nodes that one launch can do together become one node.
#pragma once

#include <span>

#include "codec/matrix.h"
#include "graph/graph.h"
#include "kernel/backend.h"

namespace flare::prepare {

// The graph with, where nothing else sees the value between:
//   rms_norm over a whole row, gate_mul, gated_norm   before the linears that read them
//   swiglu, geglu of the halves of a linear's output  behind it (halves, segments of 16·n rows)
//   add of a linear's output and an older value       behind it, over that value if it ends there
//   rms_norm over a whole row and the add behind it   one norm_add
//   norms and rotations of q and k, kv_write          one attention_input, q̂ over q if that ends
//   gather_rows                                       before the norm whose rows it picks
// Taps, states and outputs get the same bits. `weights` and `constants` are the graph's, by index.
graph::Graph fuse(graph::Graph graph, std::span<const codec::Matrix> weights,
                  std::span<const kernel::Constant> constants);

}  // namespace flare::prepare
