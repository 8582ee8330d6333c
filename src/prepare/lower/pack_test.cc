// Packing: which tensors move, that nothing else changes, and that values stay what they were.
#include "prepare/lower/pack.h"

#include <gtest/gtest.h>

#include <cstring>

#include "codec/panels.h"
#include "kernel/kernels.h"
#include "prepare/checkpoint_source.h"
#include "prepare/model/model.h"

namespace flare::prepare {
namespace {

namespace fs = std::filesystem;
const fs::path kNano = fs::path(FLARE_SOURCE_DIR) / "models/nano";

std::vector<float> all_values(const codec::Matrix& m) {
  std::vector<float> out(m.rows * m.cols);
  for (uint64_t r = 0; r < m.rows; ++r) codec::decode_row(m, r, out.data() + r * m.cols);
  return out;
}

TEST(PackWeights, MovesWhatPanelsRunAndKeepsEveryValue) {
  for (const char* recipe : {"q4", "q8"}) {
    CheckpointSource source(kNano, recipe, 2), untouched(kNano, recipe, 2);
    TextModel model = build_text_model(source, {});
    const TextModel before = build_text_model(untouched, {});
    const Packing packing = plan_packing(model.step.graph, model.step.weights);
    ASSERT_NE(packing.memory, nullptr);
    uint64_t stored = 0;
    for (const Packing::Target& target : packing.targets)
      stored += codec::format(target.stored.format).planes(target.stored.geometry).total_bytes;
    EXPECT_LE(packing.bytes, stored * 11 / 10);
    source.fill();
    untouched.fill();
    pack_weights(packing, source, 2);
    for (const graph::Node& node : model.step.graph.nodes) {
      if (node.op != graph::Op::kLinear) continue;
      const codec::Matrix& weight = model.step.weights[node.operands[1].index];
      const bool in_panels = kernel::reads_panels(kernel::route_linear(weight, node.policy));
      for (const codec::Segment& s : weight.segments)
        EXPECT_EQ(s.layout == codec::LayoutId::kPanels16, in_panels);
    }
    for (size_t i = 0; i < model.step.weights.size(); ++i)
      ASSERT_EQ(all_values(model.step.weights[i]), all_values(before.step.weights[i]))
          << model.step.graph.weight_names[i];
    // A second time there is nothing to do.
    EXPECT_EQ(plan_packing(model.step.graph, model.step.weights).memory, nullptr);
  }
}

TEST(PackWeights, LeavesWordsAndExactModelsInPlace) {
  for (const bool exact : {false, true}) {
    CheckpointSource source(kNano, exact ? "q4" : "bf16", 1);
    ModelOptions options;
    options.exact = exact;
    TextModel model = build_text_model(source, options);
    EXPECT_EQ(plan_packing(model.step.graph, model.step.weights).memory, nullptr);
  }
}

}  // namespace
}  // namespace flare::prepare
