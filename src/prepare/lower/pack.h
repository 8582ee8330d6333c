// Weights moved into the layout that their kernels want: once per stored tensor, in parallel.
#pragma once

#include <memory>
#include <vector>

#include "codec/matrix.h"
#include "graph/graph.h"
#include "prepare/parameter_source.h"

namespace flare::prepare {

struct Packed {
  std::shared_ptr<void> memory;  // what the matrices point into now; null: nothing was packed
  uint64_t bytes = 0;            // of that memory
  uint64_t stored_bytes = 0;     // of the objects that it replaces
};

// Replaces the segments of every tensor that a linear node reads through a panel kernel, wherever
// it is used (a tied embedding too), and lets the source give up the stored bytes. `threads` >= 1.
// Errors: kDoesNotFit.
Packed pack_weights(const graph::Graph& graph, std::vector<codec::Matrix>& weights,
                    ParameterSource& source, int threads);

}  // namespace flare::prepare
