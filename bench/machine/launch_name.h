// What a launch is called in tables.
#pragma once

#include <string>

#include "graph/plan.h"
#include "package/prepared.h"

namespace flare::bench {

// OP:WEIGHT, of all layers alike: "linear:mlp/gate+up"; without a weight OP:COLUMNS.
struct LaunchName {
  std::string text;
  bool has_weight = false;
};
LaunchName launch_name(const package::Rank& rank, const graph::Plan& plan,
                       const graph::Launch& launch);

}  // namespace flare::bench
