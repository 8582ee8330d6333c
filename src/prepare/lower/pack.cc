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

using Targets = std::map<const std::byte*, Packing::Target>;

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
    const codec::Segment& s = target.stored;
    target.offset = total;
    total = checked_add(total, codec::panels_bytes(s.format, s.geometry), "packed weights");
    total = checked_align_up(total, kLine);
  }
  return total;
}

// Tells the source that rows [begin, end) of the tensor were read.
void release_rows(const codec::Segment& s, const codec::Planes& planes, uint64_t begin,
                  uint64_t end, ParameterSource& source) {
  for (int p = 0; p < planes.count; ++p) {
    const codec::Plane& plane = planes.plane[p];
    source.release(
        {s.object + plane.offset + begin * plane.row_bytes, (end - begin) * plane.row_bytes});
  }
}

// Block by block, so that a tensor is never there twice.
void pack(const codec::Segment& s, std::byte* out, ParameterSource& source, Team& team) {
  constexpr uint64_t kBlockBytes = uint64_t{4} << 20;
  const uint64_t panel_bytes = codec::panel_shape(s.format, s.geometry.cols).bytes;
  const uint64_t n = codec::n_panels(s.geometry.rows);
  const uint64_t block = std::max<uint64_t>(1, kBlockBytes / panel_bytes);
  const codec::Planes planes = codec::format(s.format).planes(s.geometry);
  for (uint64_t first = 0; first < n; first += block) {
    const uint64_t last = std::min(first + block, n);
    team.for_range(static_cast<int64_t>(last - first), 1, [&](int64_t begin, int64_t end) {
      const uint64_t panel = first + static_cast<uint64_t>(begin);
      codec::pack_panels(s.format, s.object, s.geometry, panel, first + static_cast<uint64_t>(end),
                         out + panel * panel_bytes);
    });
    release_rows(s, planes, first * codec::kPanelRows,
                 std::min(last * codec::kPanelRows, s.geometry.rows), source);
  }
  source.release({s.object, planes.total_bytes});
}

}  // namespace

Packing plan_packing(const graph::Graph& graph, std::vector<codec::Matrix>& weights) {
  Packing packing;
  Targets targets = find_targets(graph, weights);
  if (targets.empty()) return packing;
  packing.bytes = lay_out(targets);
  auto memory = std::make_shared<Buffer>(packing.bytes, "packed weights");
  packing.memory = {memory, memory->data()};
  for (const auto& [object, target] : targets) packing.targets.push_back(target);
  for (codec::Matrix& weight : weights)
    for (codec::Segment& s : weight.segments) {
      const auto found = targets.find(s.object);
      if (found == targets.end()) continue;
      s.object = memory->data() + found->second.offset;
      s.layout = codec::LayoutId::kPanels16;
    }
  return packing;
}

void pack_weights(const Packing& packing, ParameterSource& source, int threads) {
  if (packing.targets.empty()) return;
  Team team(threads);
  for (const Packing::Target& target : packing.targets)
    pack(target.stored, packing.memory.get() + target.offset, source, team);
}

}  // namespace flare::prepare
