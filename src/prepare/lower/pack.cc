// Which tensors are packed, and the packing itself panel by panel.
#include "prepare/lower/pack.h"

#include <algorithm>
#include <map>

#include "base/buffer.h"
#include "base/checked.h"
#include "base/team.h"
#include "codec/panels.h"
#include "kernel/kernels.h"

namespace flare::prepare {
namespace {

// A stored tensor and where its panels go.
struct Target {
  codec::Segment stored;
  uint64_t offset = 0, bytes = 0;
};
using Targets = std::map<const std::byte*, Target>;

Targets find_targets(const graph::Graph& graph, const std::vector<codec::Matrix>& weights) {
  Targets targets;
  for (const graph::Node& node : graph.nodes) {
    if (node.op != graph::Op::kLinear) continue;
    const codec::Matrix& weight = weights[node.operands[1].index];
    if (!kernel::reads_panels(kernel::route_linear(weight, node.policy))) continue;
    for (const codec::Segment& s : weight.segments)
      if (s.layout != codec::LayoutId::kPanels16) targets[s.object].stored = s;
  }
  return targets;
}

uint64_t lay_out(Targets& targets) {
  constexpr uint64_t kLine = 64;
  uint64_t total = 0;
  for (auto& [object, target] : targets) {
    target.offset = total;
    target.bytes = codec::panels_bytes(target.stored.format, target.stored.geometry);
    total = checked_align_up(checked_add(total, target.bytes, "packed weights"), kLine);
  }
  return total;
}

void pack(const Target& target, std::byte* memory, Team& team) {
  const codec::Segment& s = target.stored;
  const uint64_t panel_bytes = codec::panel_shape(s.format, s.geometry.cols).bytes;
  const auto n = static_cast<int64_t>(codec::n_panels(s.geometry.rows));
  team.for_range(n, 1, [&](int64_t begin, int64_t end) {
    codec::pack_panels(s.format, s.object, s.geometry, static_cast<uint64_t>(begin),
                       static_cast<uint64_t>(end),
                       memory + target.offset + static_cast<uint64_t>(begin) * panel_bytes);
  });
}

}  // namespace

Packed pack_weights(const graph::Graph& graph, std::vector<codec::Matrix>& weights,
                    ParameterSource& source, int threads) {
  Packed packed;
  Targets targets = find_targets(graph, weights);
  if (targets.empty()) return packed;
  packed.bytes = lay_out(targets);
  auto memory = std::make_shared<Buffer>(packed.bytes, "packed weights");
  Team team(threads);
  for (const auto& [object, target] : targets) {
    pack(target, memory->data(), team);
    const codec::Segment& s = target.stored;
    const uint64_t stored = codec::format(s.format).planes(s.geometry).total_bytes;
    packed.stored_bytes += stored;
    source.release({object, stored});
  }
  for (codec::Matrix& weight : weights)
    for (codec::Segment& s : weight.segments) {
      const auto found = targets.find(s.object);
      if (found == targets.end()) continue;
      s.object = memory->data() + found->second.offset;
      s.layout = codec::LayoutId::kPanels16;
    }
  packed.memory = std::move(memory);
  return packed;
}

}  // namespace flare::prepare
