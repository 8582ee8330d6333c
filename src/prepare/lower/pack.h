// Weights moved into the layout that their kernels want: once per stored tensor, in parallel.
#pragma once

#include <memory>
#include <vector>

#include "codec/matrix.h"
#include "graph/graph.h"
#include "prepare/parameter_source.h"

namespace flare::prepare {

// Which stored tensors move, and where to.
struct Packing {
  struct Target {
    codec::Segment stored;  // of any part of the tensor
    uint64_t offset = 0;    // of its panels
  };
  std::vector<Target> targets;
  std::shared_ptr<std::byte> memory;  // null: nothing is packed
  uint64_t bytes = 0;                 // of that memory
};

// Points the segments of every tensor that a linear node reads through a panel kernel, wherever it
// is used (a tied embedding too), at memory that pack_weights fills; until then none is taken.
// Errors: kDoesNotFit.
Packing plan_packing(const graph::Graph& graph, std::vector<codec::Matrix>& weights);

// Packs every target and lets the source, which is filled, give up the stored bytes on the way.
// `threads` >= 1.
void pack_weights(const Packing& packing, ParameterSource& source, int threads);

}  // namespace flare::prepare
