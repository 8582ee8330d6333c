// The builder's nodes and the text of a graph.
#include "graph/graph.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace flare::graph {
namespace {

// Two projections into one buffer, a bias, a state, a tap, the head.
Graph small() {
  Builder b("text.step");
  const Value x = b.embed(b.weight("embedding", 16, 8), 2);
  b.tap("hidden.0", x);
  const Value h = b.rms_norm(x, b.constant("norm", 8), 1e-6, true);
  const Value qk = b.buffer(h, 12);
  b.linear_into(qk.columns(0, 8), h, b.weight("query", 8, 8), Policy::kAllowA8);
  b.linear_into(qk.columns(8, 4), h, b.weight("key", 4, 8), Policy::kA16Only,
                b.constant("key_bias", 4));
  const State keys = b.state({"key", StateInfo::Kind::kPaged, DType::kBf16, 4});
  const State values = b.state({"value", StateInfo::Kind::kPaged, DType::kBf16, 4});
  const Value o = b.attention(qk.columns(0, 8), qk.columns(8, 4), qk.columns(8, 4), keys, values,
                              {2, 1, 4, 0.5, 7, 30, b.constant("sinks", 2)});
  b.logits(b.add(x, o), b.weight("head", 16, 8), Policy::kExact);
  return b.finish();
}

TEST(Graph, TextHasOneLineAStateAndANode) {
  EXPECT_EQ(graph_text(small()),
            "graph text.step: 10 nodes, 4 weights, 2 states\n"
            "  state key paged 4 × bf16\n"
            "  state value paged 4 × bf16\n"
            "  %0 T×8 = embed(token_ids, @embedding)\n"
            "  tap(%0 T×8, tap)\n"
            "  %1 T×8 = rms_norm(%0 T×8, $norm)\n"
            "  %2[0:8] T×8 = linear(%1 T×8, @query) AllowA8\n"
            "  %2[8:12] T×4 = linear(%1 T×8, @key, $key_bias) A16Only\n"
            "  kv_write(%2[8:12] T×4, %2[8:12] T×4, &key, &value)\n"
            "  %3 T×8 = attention(%2[0:8] T×8, &key, &value, $sinks)\n"
            "  %4 T×8 = add(%0 T×8, %3 T×8)\n"
            "  %5 L×8 = gather_rows(%4 T×8, logits_rows)\n"
            "  linear(%5 L×8, @head, logits) Exact\n");
}

TEST(Graph, NodesCarryTheImmediatesOfTheirContracts) {
  const Graph g = small();
  EXPECT_EQ(g.nodes[0].immediates.at(0).r, 2.0);
  EXPECT_EQ(g.nodes[2].immediates.at(0).r, 1e-6);
  EXPECT_EQ(g.nodes[2].immediates.at(1).i, 1);
  EXPECT_EQ(g.nodes[3].immediates.at(0).i, static_cast<int64_t>(Policy::kAllowA8));
  const Node& attend = g.nodes[6];
  ASSERT_EQ(attend.immediates.size(), 5u);
  EXPECT_EQ(attend.immediates[0].i, 2);
  EXPECT_EQ(attend.immediates[1].i, 1);
  EXPECT_EQ(attend.immediates[2].r, 0.5);
  EXPECT_EQ(attend.immediates[3].i, 7);
  EXPECT_EQ(attend.immediates[4].r, 30);
  EXPECT_EQ(g.taps, std::vector<std::string>{"hidden.0"});
}

TEST(Graph, ColumnsAreGatheredByAConstantOfNumbers) {
  Builder b("text.step");
  const Value x = b.embed(b.weight("embedding", 16, 8));
  const Value y = b.gather_columns(x.columns(2, 6), b.constant("order", 3, DType::kI32));
  b.rms_norm(y, b.constant("norm", 3), 1e-6, false);
  EXPECT_EQ(y.cols, 3u);
  const Graph g = b.finish();
  EXPECT_EQ(g.constant_dtypes, (std::vector<DType>{DType::kI32, DType::kF32}));
  EXPECT_EQ(graph_text(g),
            "graph text.step: 3 nodes, 1 weights, 0 states\n"
            "  %0 T×8 = embed(token_ids, @embedding)\n"
            "  %1 T×3 = gather_columns(%0[2:8] T×6, $order)\n"
            "  %2 T×3 = rms_norm(%1 T×3, $norm)\n");
}

TEST(Graph, AViewOfAViewCountsFromTheValue) {
  const Value v{3, 0, 100};
  const Value part = v.columns(20, 50).columns(5, 10);
  EXPECT_EQ(part.id, 3);
  EXPECT_EQ(part.column, 25u);
  EXPECT_EQ(part.cols, 10u);
}

TEST(GraphDeath, ShapesThatDoNotFitAreDefects) {
  Builder b("text.step");
  const Value x = b.embed(b.weight("embedding", 16, 8));
  const Value y = b.buffer(x, 4);
  EXPECT_DEATH(b.add(x, y), "cols");
  EXPECT_DEATH(b.linear_into(y, x, b.weight("w", 4, 9), Policy::kExact), "cols");
  EXPECT_DEATH(b.rms_norm(x, b.constant("norm", 3), 1e-6, false), "cols");
  EXPECT_DEATH(b.rms_norm(x, b.constant("order", 8, DType::kI32), 1e-6, false), "dtype");
  EXPECT_DEATH(b.gather_columns(x, b.constant("norm", 8)), "dtype");
}

TEST(Types, EveryWordHasAName) {
  for (int op = 0; op < kOps; ++op) EXPECT_FALSE(op_name(static_cast<Op>(op)).empty());
  EXPECT_EQ(op_name(Op::kSample), "sample");
  EXPECT_EQ(dtype_name(DType::kU8), "u8");
  EXPECT_EQ(dtype_bytes(DType::kF32), 4u);
  EXPECT_EQ(dtype_bytes(DType::kBf16), 2u);
  EXPECT_EQ(policy_name(Policy::kAllowA4), "AllowA4");
  EXPECT_EQ(space_name(Space::kIo), "io");
  EXPECT_EQ(extent_name(Extent::kLogits), "L");
}

}  // namespace
}  // namespace flare::graph
