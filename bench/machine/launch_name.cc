// Names from the operands of a launch.
#include "machine/launch_name.h"

#include <algorithm>

#include "base/error.h"
#include "kernel/kernels.h"

namespace flare::bench {
namespace {

// "text/layers/3/mlp/gate|up" → "mlp/gate+up".
std::string short_name(std::string name) {
  constexpr std::string_view kLayers = "text/layers/";
  if (name.starts_with(kLayers)) {
    name = name.substr(name.find('/', kLayers.size()) + 1);
  } else if (name.starts_with("text/")) {
    name = name.substr(5);
  }
  std::ranges::replace(name, '|', '+');
  return name;
}

}  // namespace

LaunchName launch_name(const package::Rank& rank, const graph::Plan& plan,
                       const graph::Launch& launch) {
  const graph::Op op = kernel::kernel_info(static_cast<kernel::KernelId>(launch.kernel)).op;
  const graph::Operand* operands = &plan.operands[launch.first_operand];
  for (uint32_t i = 0; i < launch.n_operands; ++i)
    if (operands[i].space == graph::Space::kWeight)
      return {fmt::format("{}:{}", graph::op_name(op),
                          short_name(rank.weight_names[operands[i].index])),
              true};
  return {fmt::format("{}:{}", graph::op_name(op), operands[0].cols), false};
}

}  // namespace flare::bench
