// Lowering checked by a second computation of liveness: no two live values share arena bytes.
#include "prepare/lower/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "kernel/kernels.h"
#include "prepare/lower/fuse.h"
#include "prepare/model/model.h"
#include "prepare/prepare.h"
#include "prepare/test_support.h"

namespace flare::prepare {
namespace {

namespace fs = std::filesystem;
using graph::NodeOperand;
using graph::Space;

// First and last launch that touches a value, and its bytes in the arena, all read from the plan.
struct Life {
  size_t first = SIZE_MAX, last = 0;
  uint64_t begin = UINT64_MAX, end = 0;
};

std::vector<Life> lives_of(const graph::Graph& g, const graph::Plan& plan) {
  std::vector<Life> lives(g.values.size());
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const graph::Launch& launch = plan.launches[n];
    EXPECT_EQ(launch.n_operands, g.nodes[n].operands.size());
    for (size_t i = 0; i < g.nodes[n].operands.size(); ++i) {
      const NodeOperand& o = g.nodes[n].operands[i];
      const graph::Operand& placed = plan.operands[launch.first_operand + i];
      const bool is_value =
          o.kind == NodeOperand::Kind::kInput || o.kind == NodeOperand::Kind::kOutput;
      EXPECT_EQ(placed.space == Space::kArena, is_value);
      if (!is_value) continue;
      const auto id = static_cast<size_t>(o.value.id);
      EXPECT_EQ(placed.cols, o.value.cols);
      EXPECT_EQ(placed.stride, g.values[id].cols);
      EXPECT_EQ(placed.extent, g.values[id].extent);
      const uint64_t rows = static_cast<uint64_t>(
          placed.extent == graph::Extent::kLogits ? plan.capacity.logits : plan.capacity.rows);
      const uint64_t begin = placed.offset - uint64_t{o.value.column} * 4;
      Life& life = lives[id];
      EXPECT_TRUE(life.first == SIZE_MAX || life.begin == begin) << "value " << id << " moved";
      life.first = std::min(life.first, n);
      life.last = std::max(life.last, n);
      life.begin = begin;
      life.end = begin + rows * placed.stride * 4;
    }
  }
  return lives;
}

void expect_sound(const graph::Graph& g, const graph::Plan& plan, const std::string& what) {
  ASSERT_EQ(plan.launches.size(), g.nodes.size());
  const std::vector<Life> lives = lives_of(g, plan);
  for (size_t a = 0; a < lives.size(); ++a) {
    if (lives[a].first == SIZE_MAX) continue;
    EXPECT_EQ(lives[a].begin % 64, 0u) << what;
    EXPECT_LE(lives[a].end, plan.arena_bytes) << what;
    for (size_t b = 0; b < a; ++b) {
      if (lives[b].first == SIZE_MAX) continue;
      const bool together = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
      const bool overlap = lives[a].begin < lives[b].end && lives[b].begin < lives[a].end;
      EXPECT_FALSE(together && overlap) << what << ": values " << a << " and " << b;
    }
  }
  uint64_t most = 0;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    uint64_t sum = 0;
    for (const Life& life : lives)
      if (life.first != SIZE_MAX && life.first <= n && n <= life.last)
        sum += (life.end - life.begin + 63) / 64 * 64;
    most = std::max(most, sum);
  }
  EXPECT_GE(plan.arena_bytes, most) << what;
  EXPECT_LE(plan.arena_bytes, 2 * most) << what;
}

TEST(Lower, LiveValuesNeverShareBytesAndTheArenaStaysSmall) {
  for (const char* name :
       {"models/nano", "../shared/data/goldens/models/llama3",
        "../shared/data/goldens/models/qwen2", "../shared/data/goldens/models/qwen3",
        "../shared/data/goldens/models/qwen3_5"}) {
    const fs::path folder = fs::path(FLARE_SOURCE_DIR) / name;
    if (!fs::exists(folder)) GTEST_SKIP() << folder << " is absent";
    for (const bool taps : {false, true}) {
      const auto source = open_source(folder, "", 1);
      ModelOptions options;
      options.taps = taps;
      const TextModel model = build_text_model(*source, options);
      const StateLayout states = lay_out_states(model.step.graph, 128);
      const graph::Graph fused = fuse(model.step.graph, model.step.weights, model.step.constants);
      for (const graph::PlanCapacity& capacity :
           {graph::PlanCapacity{1, 1, 1}, graph::PlanCapacity{7, 3, 2},
            graph::PlanCapacity{520, 8, 8}, graph::PlanCapacity{64, 1, 64}})
        for (const graph::Graph* g : {&model.step.graph, &fused}) {
          const graph::Plan plan =
              lower(*g, states, model.step.weights, model.vocab_size, capacity);
          EXPECT_EQ(plan.capacity, capacity);
          EXPECT_EQ(plan.taps, model.step.graph.taps);
          expect_sound(*g, plan, std::string(name) + " rows " + std::to_string(capacity.rows));
        }
    }
  }
}

TEST(Lower, GivesTheSamePlanEveryTime) {
  const auto source = open_source(fs::path(FLARE_SOURCE_DIR) / "models/nano", "", 1);
  const TextModel model = build_text_model(*source, {});
  const StateLayout states = lay_out_states(model.step.graph, 128);
  const auto text = [&] {
    const graph::Plan plan =
        lower(model.step.graph, states, model.step.weights, model.vocab_size, {16, 4, 4});
    return graph::plan_text(plan, kernel::kernel_name) +
           graph::plan_to_json(plan, kernel::kernel_name).to_text();
  };
  const std::string first = text();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(text(), first);
}

TEST(Lower, StatesLieApartAndAligned) {
  graph::Builder b("text.step");
  using Kind = graph::StateInfo::Kind;
  b.state({"a/key", Kind::kPaged, graph::DType::kBf16, 3});
  b.state({"a/value", Kind::kPaged, graph::DType::kF32, 5});
  b.state({"b/tail", Kind::kConvTail, graph::DType::kF32, 7});
  b.state({"b/state", Kind::kRecurrent, graph::DType::kF32, 33});
  b.state({"c/key", Kind::kPaged, graph::DType::kBf16, 1});
  const graph::Graph g = b.finish();
  for (uint32_t tokens : {1u, 5u, 128u}) {
    const StateLayout layout = lay_out_states(g, tokens);
    EXPECT_EQ(layout.page.tokens, tokens);
    ASSERT_EQ(layout.page.regions.size(), 3u);
    ASSERT_EQ(layout.row.fields.size(), 3u);
    uint64_t end = 0;
    const uint64_t region_bytes[] = {uint64_t{tokens} * 6, uint64_t{tokens} * 20,
                                     uint64_t{tokens} * 2};
    for (size_t i = 0; i < 3; ++i) {
      const package::PageRegion& r = layout.page.regions[i];
      EXPECT_EQ(r.offset % 64, 0u);
      EXPECT_GE(r.offset, end);
      EXPECT_EQ(r.bytes, region_bytes[i]);
      end = r.offset + r.bytes;
    }
    EXPECT_GE(layout.page.bytes, end);
    EXPECT_EQ(layout.page.bytes % 64, 0u);
    end = 0;
    const uint64_t field_bytes[] = {28, 132, layout.page.bytes};
    for (size_t i = 0; i < 3; ++i) {
      const package::RowField& f = layout.row.fields[i];
      EXPECT_EQ(f.offset % 64, 0u);
      EXPECT_GE(f.offset, end);
      EXPECT_EQ(f.bytes, field_bytes[i]);
      end = f.offset + f.bytes;
    }
    EXPECT_EQ(layout.row.bytes, end);
    EXPECT_EQ(layout.row.bytes % 64, 0u);
    EXPECT_EQ(layout.row.partial_page, layout.row.fields[2].offset);
    EXPECT_EQ(layout.operands[1].space, Space::kPage);
    EXPECT_EQ(layout.operands[1].offset, layout.page.regions[1].offset);
    EXPECT_EQ(layout.operands[3].space, Space::kRow);
    EXPECT_EQ(layout.operands[3].offset, layout.row.fields[1].offset);
  }
}

TEST(Lower, AModelWithoutStateHasEmptyLayouts) {
  graph::Builder b("text.sample");
  b.sample(100);
  const StateLayout layout = lay_out_states(b.finish(), 128);
  EXPECT_EQ(layout.page.bytes, 0u);
  EXPECT_EQ(layout.row.bytes, 0u);
  EXPECT_FALSE(layout.row.partial_page);
}

TEST(Lower, SizesThatExceed64BitsAreErrors) {
  const auto lowered = [](uint32_t cols) {
    graph::Builder b("text.step");
    const auto x = b.embed(b.weight("table", 1, cols));
    const auto y = b.add(x, x), z = b.add(x, y);
    b.add(b.add(x, y), b.add(y, z));
    const graph::Graph g = b.finish();
    codec::Matrix table;
    table.rows = 1;
    table.cols = cols;
    return lower(g, lay_out_states(g, 128), {&table, 1}, 1, {INT32_MAX, 1, 1});
  };
  EXPECT_GT(lowered(1 << 10).arena_bytes, uint64_t{INT32_MAX} << 12);
  // One value too large, and each fitting but not their sum.
  for (uint32_t cols : {UINT32_MAX, (1u << 29) + 1024}) {
    try {
      lowered(cols);
      ADD_FAILURE() << cols;
    } catch (const Error& e) {
      EXPECT_EQ(code_name(e.code()), code_name(Code::kRange)) << e.message();
      EXPECT_NE(e.message().find("arena"), std::string::npos) << e.message();
    }
  }
  graph::Builder b("text.step");
  b.state({"s", graph::StateInfo::Kind::kPaged, graph::DType::kF32, uint64_t{1} << 62});
  EXPECT_THROW(lay_out_states(b.finish(), 128), Error);
}

TEST(Prepare, RefusesCapacitiesThatNoStepCanHave) {
  const auto refused = [](const PrepareOptions& options, const std::string& word) {
    try {
      prepare(open_source(fs::path(FLARE_SOURCE_DIR) / "models/nano", "", 1), options);
      ADD_FAILURE() << "taken: " << word;
    } catch (const Error& e) {
      EXPECT_EQ(code_name(e.code()), code_name(Code::kUsage)) << e.message();
      EXPECT_NE(e.message().find(word), std::string::npos) << e.message();
    }
  };
  PrepareOptions options;
  options.max_concurrency = 0;
  refused(options, "--max-concurrency 0");
  options.max_concurrency = UINT32_MAX;
  refused(options, "--max-concurrency 4294967295");
  options.max_concurrency = 1;
  options.prefill_chunk = 0;
  refused(options, "chunk of 0");
  options.prefill_chunk = UINT32_MAX;
  refused(options, "chunk of 4294967295");
  options.prefill_chunk = 1;
  options.max_context = 4097;
  refused(options, "4096 positions");
}

TEST(Prepare, AsksBeforeItTakesMemoryForWeights) {
  PrepareOptions options;
  int calls = 0;
  options.before_loading = [&](const package::PreparedModel& model) {
    ++calls;
    const package::Rank& rank = model.ranks.at(0);
    EXPECT_GT(rank.weight_bytes, 0u);
    EXPECT_EQ(rank.catalog.back().graph_class, "sample");
    const codec::Segment& packed = rank.weights.back().segments.at(0);
    EXPECT_EQ(packed.layout, codec::LayoutId::kPanels16);
    EXPECT_EQ(packed.object[0], std::byte{0});  // the memory is there, nobody has written to it
    throw Error(Code::kDoesNotFit, "too much");
  };
  EXPECT_THROW(prepare(open_source(fs::path(FLARE_SOURCE_DIR) / "models/nano", "q4", 1), options),
               Error);
  EXPECT_EQ(calls, 1);
}

TEST(Prepare, TheCatalogCoversEveryStep) {
  PrepareOptions options;
  options.max_concurrency = 5;
  options.prefill_chunk = 100;
  const auto model =
      prepare(open_source(fs::path(FLARE_SOURCE_DIR) / "models/nano", "", 1), options);
  EXPECT_EQ(model.capacity.max_rows, 105u);
  const auto& catalog = model.ranks[0].catalog;
  int32_t rows = 0;
  for (const package::CatalogEntry& e : catalog) {
    if (e.graph_class == "sample") continue;
    EXPECT_GT(e.plan.capacity.rows, rows);
    rows = e.plan.capacity.rows;
    EXPECT_EQ(e.plan.capacity.sequences, std::min(rows, 5));
    EXPECT_EQ(e.plan.capacity.logits, std::min(rows, 5));
  }
  EXPECT_EQ(rows, 105);
  EXPECT_EQ(catalog.back().graph_class, "sample");
  EXPECT_EQ(catalog.back().plan.capacity.logits, 5);
}

}  // namespace
}  // namespace flare::prepare
