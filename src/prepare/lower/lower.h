// From a bound graph to replayable plans: state layouts, kernel routes, arena offsets by liveness.
#pragma once

#include <span>
#include <vector>

#include "codec/matrix.h"
#include "graph/graph.h"
#include "graph/plan.h"
#include "package/prepared.h"

namespace flare::prepare {

// Where each declared state of a graph lies, by state index.
struct StateLayout {
  package::PageLayout page;
  package::RowLayout row;
  std::vector<graph::Operand> operands;
};
StateLayout lay_out_states(const graph::Graph& graph, uint32_t page_tokens);

// A plan for up to `capacity` live rows, sequences and logits rows. `weights` are the graph's, by
// index (their formats choose the kernels); `vocab` is the width of Io::kLogits.
graph::Plan lower(const graph::Graph& graph, const StateLayout& states,
                  std::span<const codec::Matrix> weights, uint32_t vocab,
                  const graph::PlanCapacity& capacity);

}  // namespace flare::prepare
