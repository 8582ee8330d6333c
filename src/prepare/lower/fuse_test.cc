// Fusion: what joins, what keeps nodes apart, and the same bits with and without it.
#include "prepare/lower/fuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "kernel/kernels.h"
#include "prepare/lower/lower.h"
#include "prepare/lower/pack.h"
#include "prepare/model/model.h"
#include "prepare/prepare.h"
#include "prepare/test_support.h"

namespace flare::prepare {
namespace {

namespace fs = std::filesystem;
using graph::Builder;
using graph::Constant;
using graph::Op;
using graph::Policy;
using graph::Value;
using graph::Weight;

fs::path golden(const std::string& name) {
  return fs::path(FLARE_SOURCE_DIR) / "../shared/data/goldens/models" / name;
}

// A graph under construction with shapes, but no bytes, behind its weights and constants.
struct Sketch {
  Builder g{"text.step"};
  std::vector<codec::Matrix> weights;
  std::vector<kernel::Constant> constants;

  // One segment for each count of rows.
  Weight weight(const std::vector<uint32_t>& rows, uint32_t cols) {
    codec::Matrix m;
    for (const uint32_t n : rows)
      codec::append_segment(
          m, {nullptr, {n, cols}, codec::FormatId::kBf16, codec::LayoutId::kContiguousLe, 0, n});
    weights.push_back(m);
    return g.weight("w" + std::to_string(weights.size()), static_cast<uint32_t>(m.rows), cols);
  }
  Constant constant(uint32_t cols) {
    constants.push_back({1, cols, std::vector<float>(cols, 1.0f)});
    return g.constant("c" + std::to_string(constants.size()), cols);
  }
  Value embed(uint32_t cols) { return g.embed(weight({8}, cols)); }
  Value linear(Value x, const std::vector<uint32_t>& rows) {
    const Weight w = weight(rows, x.cols);
    const Value y = g.buffer(x, w.rows);
    g.linear_into(y, x, w, Policy::kA16Only);
    return y;
  }
  // The nodes that fusion leaves, one a line.
  std::string fused() {
    const graph::Graph graph = fuse(g.finish(), weights, constants);
    const std::string text = graph::graph_text(graph);
    return text.substr(text.find("  %"));
  }
};

TEST(Fuse, EveryLinearThatReadsANormNormsForItself) {
  Sketch s;
  const Value x = s.embed(32);
  const Value n = s.g.rms_norm(x, s.constant(32), 1e-6, true);
  const Value y = s.g.buffer(x, 24);
  s.g.linear_into(y.columns(0, 16), n, s.weight({16}, 32), Policy::kAllowA8);
  s.g.linear_into(y.columns(16, 8), n, s.weight({8}, 32), Policy::kA16Only);
  s.g.tap("y", y);
  const graph::Graph fused = fuse(s.g.finish(), s.weights, s.constants);
  ASSERT_EQ(fused.nodes.size(), 4u);
  for (const int n_linear : {1, 2}) {
    const graph::Node& linear = fused.nodes[n_linear];
    EXPECT_EQ(linear.op, Op::kLinear);
    EXPECT_EQ(linear.operands[0].value.id, x.id);
    EXPECT_EQ(linear.operands[4].kind, graph::NodeOperand::Kind::kConstant);
    EXPECT_EQ(linear.immediates[1].i, 1);
    EXPECT_EQ(linear.immediates[3].r, 1e-6);
    EXPECT_EQ(linear.immediates[4].i, 1);
  }
}

TEST(Fuse, ANormThatAnythingElseSeesStays) {
  const auto sketch = [](auto use) {
    Sketch s;
    const Value n = s.g.rms_norm(s.embed(32), s.constant(32), 1e-6, false);
    use(s, n, s.linear(n, {32}));
    return s.fused();
  };
  const std::string apart =
      "  %0 T×32 = embed(token_ids, @w1)\n"
      "  %1 T×32 = rms_norm(%0 T×32, $c1)\n"
      "  %2 T×32 = linear(%1 T×32, @w2) A16Only\n";
  EXPECT_EQ(sketch([](Sketch& s, Value n, Value) { s.g.tap("n", n); }),
            apart + "  tap(%1 T×32, tap)\n");
  EXPECT_EQ(sketch([](Sketch& s, Value n, Value y) { s.g.swiglu(n, y); }),
            apart + "  %3 T×32 = swiglu(%1 T×32, %2 T×32)\n");
  EXPECT_EQ(sketch([](Sketch& s, Value n, Value) { s.linear(n.columns(0, 16), {8}); }),
            apart + "  %3 T×8 = linear(%1[0:16] T×16, @w3) A16Only\n");
  EXPECT_EQ(sketch([](Sketch&, Value, Value) {}),
            "  %0 T×32 = embed(token_ids, @w1)\n"
            "  %2 T×32 = linear(%0 T×32, @w2, $c1) A16Only\n");
}

TEST(Fuse, ANormOfHeadsIsNotOneOfRows) {
  Sketch s;
  s.linear(s.g.rms_norm(s.embed(32), s.constant(8), 1e-6, false), {16});
  EXPECT_NE(s.fused().find("rms_norm"), std::string::npos);
}

TEST(Fuse, GatesGoIntoTheLinearBehindThem) {
  Sketch s;
  const Value x = s.embed(32);
  const Value both = s.linear(x, {32, 32});
  const Value a = s.linear(s.g.gate_mul(both.columns(0, 32), both.columns(32, 32)), {32});
  s.linear(s.g.gated_norm(a, both.columns(32, 32), s.constant(8), 1e-5), {8});
  EXPECT_EQ(s.fused(),
            "  %0 T×32 = embed(token_ids, @w1)\n"
            "  %1 T×64 = linear(%0 T×32, @w2) A16Only\n"
            "  %3 T×32 = linear(%1[0:32] T×32, @w3, %1[32:64] T×32) A16Only\n"
            "  %5 T×8 = linear(%3 T×32, @w4, $c1, %1[32:64] T×32) A16Only\n");
}

TEST(Fuse, GegluJoinsTheLinearWhoseHalvesItTakes) {
  Sketch s;
  const Value y = s.linear(s.embed(8), {32, 32});
  s.g.geglu(y.columns(0, 32), y.columns(32, 32));
  const graph::Graph fused = fuse(s.g.finish(), s.weights, s.constants);
  ASSERT_EQ(fused.nodes.size(), 2u);
  EXPECT_EQ(fused.nodes[1].op, Op::kLinear);
  EXPECT_EQ(fused.nodes[1].immediates[2].i, 2);
  EXPECT_EQ(fused.nodes[1].operands[3].value.cols, 32u);
}

TEST(Fuse, ANormOfABranchJoinsTheSumBehindIt) {
  const auto sketch = [](auto use) {
    Sketch s;
    const Value x = s.embed(16), y = s.linear(x, {16});
    use(s, x, y, s.g.rms_norm(y, s.constant(16), 1e-6, true));
    return s.fused();
  };
  const std::string before =
      "  %0 T×16 = embed(token_ids, @w1)\n"
      "  %1 T×16 = linear(%0 T×16, @w2) A16Only\n";
  const auto tapped = [](Sketch& s, Value z) { s.g.tap("z", z); };
  const std::string joined = "  %3 T×16 = norm_add(%1 T×16, $c1, %0 T×16)\n  tap(%3 T×16, tap)\n";
  EXPECT_EQ(sketch([&](Sketch& s, Value x, Value, Value n) { tapped(s, s.g.add(x, n)); }),
            before + joined);
  EXPECT_EQ(sketch([&](Sketch& s, Value x, Value, Value n) { tapped(s, s.g.add(n, x)); }),
            before + joined);
  const auto stays = [&](auto use) { EXPECT_EQ(sketch(use).find("norm_add"), std::string::npos); };
  stays([&](Sketch& s, Value x, Value, Value n) {
    tapped(s, s.g.add(x, n));
    s.g.tap("n", n);
  });
  stays([&](Sketch& s, Value x, Value y, Value n) {
    s.g.linear_into(y, x, s.weight({16}, 16), Policy::kA16Only);
    s.g.add(x, n);
  });
  Sketch heads;
  const Value x = heads.embed(16);
  heads.g.add(x, heads.g.rms_norm(heads.linear(x, {16}), heads.constant(8), 1e-6, true));
  EXPECT_EQ(heads.fused().find("norm_add"), std::string::npos);
}

TEST(Fuse, SwigluJoinsTheLinearWhoseHalvesItTakes) {
  const auto sketch = [](const std::vector<uint32_t>& rows, auto use) {
    Sketch s;
    const Value y = s.linear(s.embed(8), rows);
    use(s, y, y.cols / 2);
    return s.fused();
  };
  const auto halves = [](Sketch& s, Value y, uint32_t m) {
    s.g.swiglu(y.columns(0, m), y.columns(m, m));
  };
  EXPECT_EQ(sketch({32, 32}, halves),
            "  %0 T×8 = embed(token_ids, @w1)\n"
            "  %2 T×32 = linear(%0 T×8, @w2) A16Only\n");
  const auto stays = [&](const std::vector<uint32_t>& rows, auto use) {
    EXPECT_NE(sketch(rows, use).find("swiglu"), std::string::npos);
  };
  stays({24, 40}, halves);
  stays({48}, halves);  // the halves of one tensor meet inside a panel
  stays({32, 32},
        [](Sketch& s, Value y, uint32_t m) { s.g.swiglu(y.columns(m, m), y.columns(0, m)); });
  stays({32, 32},
        [](Sketch& s, Value y, uint32_t) { s.g.swiglu(y.columns(0, 16), y.columns(16, 16)); });
  stays({32, 32}, [&](Sketch& s, Value y, uint32_t m) {
    halves(s, y, m);
    s.g.tap("up", y.columns(m, m));
  });
  // Two launches side by side are two products.
  Sketch s;
  const Value x = s.embed(8), y = s.g.buffer(x, 32);
  s.g.linear_into(y.columns(0, 16), x, s.weight({16}, 8), Policy::kA16Only);
  s.g.linear_into(y.columns(16, 16), x, s.weight({16}, 8), Policy::kA16Only);
  halves(s, y, 16);
  EXPECT_NE(s.fused().find("swiglu"), std::string::npos);
}

TEST(Fuse, SumsGoOverTheOlderValueWhereItEnds) {
  const auto sketch = [](auto use) {
    Sketch s;
    const Value x = s.embed(16);
    const Value y = s.linear(s.linear(x, {24}), {16});
    use(s, x, y);
    return s.fused();
  };
  const std::string before =
      "  %0 T×16 = embed(token_ids, @w1)\n"
      "  %1 T×24 = linear(%0 T×16, @w2) A16Only\n";
  EXPECT_EQ(sketch([](Sketch& s, Value x, Value y) { s.g.tap("z", s.g.add(x, y)); }),
            before +
                "  %0 T×16 = linear(%1 T×24, @w3, %0 T×16) A16Only\n"
                "  tap(%0 T×16, tap)\n");
  EXPECT_EQ(sketch([](Sketch& s, Value x, Value y) { s.g.add(y, x); }),
            before + "  %0 T×16 = linear(%1 T×24, @w3, %0 T×16) A16Only\n");
  // x is still wanted: the sum has a place of its own.
  EXPECT_EQ(sketch([](Sketch& s, Value x, Value y) {
              s.g.add(x, y);
              s.g.tap("x", x);
            }),
            before +
                "  %3 T×16 = linear(%1 T×24, @w3, %0 T×16) A16Only\n"
                "  tap(%0 T×16, tap)\n");
  // The product is: no fusion.
  EXPECT_EQ(sketch([](Sketch& s, Value x, Value y) {
              s.g.tap("y", y);
              s.g.add(x, y);
            }),
            before +
                "  %2 T×16 = linear(%1 T×24, @w3) A16Only\n"
                "  tap(%2 T×16, tap)\n"
                "  %3 T×16 = add(%0 T×16, %2 T×16)\n");
  EXPECT_NE(sketch([](Sketch& s, Value, Value y) { s.g.add(y, y); }).find("add"),
            std::string::npos);
}

TEST(Fuse, ALinearNeverWritesOverWhatItReads) {
  Sketch s;
  const Value x = s.embed(16);
  s.g.tap("z", s.g.add(x, s.linear(s.g.rms_norm(x, s.constant(16), 1e-6, false), {16})));
  EXPECT_EQ(s.fused(),
            "  %0 T×16 = embed(token_ids, @w1)\n"
            "  %3 T×16 = linear(%0 T×16, @w2, $c1, %0 T×16) A16Only\n"
            "  tap(%3 T×16, tap)\n");
}

// A buffer may be filled again: what reads its first content does so before.
TEST(Fuse, NoReadMovesBehindAWrite) {
  const auto refilled = [](auto first, auto second) {
    Sketch s;
    const Value x = s.embed(16), buffer = s.g.buffer(x, 16);
    s.g.linear_into(buffer, x, s.weight({16}, 16), Policy::kA16Only);
    const Value y = first(s, x, buffer);
    s.g.linear_into(buffer, x, s.weight({16}, 16), Policy::kA16Only);
    second(s, buffer, y);
    return s.fused();
  };
  EXPECT_NE(refilled([](Sketch& s, Value,
                        Value buffer) { return s.g.rms_norm(buffer, s.constant(16), 1e-6, false); },
                     [](Sketch& s, Value, Value y) { s.linear(y, {8}); })
                .find("rms_norm"),
            std::string::npos);
  EXPECT_NE(refilled([](Sketch& s, Value x, Value buffer) { return s.g.gate_mul(x, buffer); },
                     [](Sketch& s, Value, Value y) { s.linear(y, {8}); })
                .find("gate_mul"),
            std::string::npos);
  EXPECT_NE(refilled([](Sketch& s, Value x, Value) { return s.linear(x, {16}); },
                     [](Sketch& s, Value buffer, Value y) { s.g.add(buffer, y); })
                .find("add"),
            std::string::npos);
}

TEST(Fuse, TheHeadNormsWantedRowsOnlyUnlessTapped) {
  const auto sketch = [](bool tap) {
    Sketch s;
    const Value n = s.g.rms_norm(s.embed(16), s.constant(16), 1e-6, false);
    if (tap) s.g.tap("n", n);
    s.g.logits(n, s.weight({8}, 16), Policy::kA16Only);
    return s.fused();
  };
  EXPECT_EQ(sketch(false),
            "  %0 T×16 = embed(token_ids, @w1)\n"
            "  %1 L×16 = gather_rows(%0 T×16, logits_rows)\n"
            "  linear(%1 L×16, @w2, logits, $c1) A16Only\n");
  EXPECT_EQ(sketch(true),
            "  %0 T×16 = embed(token_ids, @w1)\n"
            "  %1 T×16 = rms_norm(%0 T×16, $c1)\n"
            "  tap(%1 T×16, tap)\n"
            "  %2 L×16 = gather_rows(%1 T×16, logits_rows)\n"
            "  linear(%2 L×16, @w2, logits) A16Only\n");
}

// Queries, keys and values of a projection, each step of the way up to attention a choice.
struct AttentionSketch {
  bool q_norm = true, k_norm = true;
  double k_eps = 1e-6, k_factor = 1;
  bool tap_rotated = false, tap_query = false;

  std::string fused() const {
    Sketch s;
    const Value qkv = s.linear(s.embed(8), {32, 16, 16});
    const graph::State keys =
        s.g.state({"k", graph::StateInfo::Kind::kPaged, graph::DType::kBf16, 16});
    const graph::State values =
        s.g.state({"v", graph::StateInfo::Kind::kPaged, graph::DType::kBf16, 16});
    const Constant f = s.constant(4), w = s.constant(8);
    Value q = qkv.columns(0, 32), k = qkv.columns(32, 16);
    const Value query = q;
    if (q_norm) q = s.g.rms_norm(q, w, 1e-6, false);
    if (k_norm) k = s.g.rms_norm(k, w, k_eps, false);
    q = s.g.rope(q, 8, {f, 1, 0, 0});
    k = s.g.rope(k, 8, {f, k_factor, 0, 0});
    if (tap_rotated) s.g.tap("q", q);
    s.g.attention(q, k, qkv.columns(48, 16), keys, values, {4, 2, 8, 1, 0});
    if (tap_query) s.g.tap("query", query);
    const std::string text = s.fused();
    const size_t begin = text.find('\n', text.find("linear")) + 1;
    return text.substr(begin);
  }
};

TEST(Fuse, WhatStandsBeforeAttentionIsOneLaunch) {
  const std::string attention = "attention(%1[0:32] T×32, &k, &v)\n";
  const auto expect_one = [&](const AttentionSketch& sketch, const std::string& norms) {
    const std::string text = sketch.fused();
    EXPECT_TRUE(text.starts_with(
        "  %1[0:32] T×32 = attention_input(%1[0:32] T×32, %1[32:48] T×16, %1[48:64] T×16, &k, &v" +
        norms + ", $c1, positions)\n"))
        << text;
    EXPECT_TRUE(text.ends_with(attention)) << text;
    EXPECT_EQ(std::ranges::count(text, '\n'), 2) << text;
  };
  expect_one({}, ", $c2, $c2");
  expect_one({.q_norm = false}, ", $c2");
  expect_one({.q_norm = false, .k_norm = false}, "");
  // A query that is read later keeps its place.
  const std::string kept = AttentionSketch{.tap_query = true}.fused();
  EXPECT_NE(kept.find(" = attention_input(%1[0:32] T×32, "), std::string::npos) << kept;
  EXPECT_EQ(kept.find("%1[0:32] T×32 = attention_input"), std::string::npos) << kept;
  // One launch has one eps and one rotation.
  const std::string norms = AttentionSketch{.k_eps = 1e-5}.fused();
  EXPECT_EQ(std::ranges::count(norms, '\n'), 4) << norms;
  EXPECT_NE(norms.find("attention_input"), std::string::npos) << norms;
  for (const AttentionSketch& apart :
       {AttentionSketch{.k_factor = 2}, AttentionSketch{.tap_rotated = true}})
    EXPECT_EQ(apart.fused().find("attention_input"), std::string::npos) << apart.fused();
}

// Launches of each layer, by the names of what they read. A launch that names nothing counts to
// the layer of the one before; embedding and head count to none.
std::map<std::string, size_t> launches_by_layer(const fs::path& folder) {
  const auto source = open_source(folder, "", 1);
  const TextModel model = build_text_model(*source, {});
  const graph::Graph fused = fuse(model.step.graph, model.step.weights, model.step.constants);
  std::map<std::string, size_t> out;
  std::string layer = "text/layers/0/";
  for (const graph::Node& node : fused.nodes) {
    for (const graph::NodeOperand& o : node.operands) {
      std::string name;
      if (o.kind == graph::NodeOperand::Kind::kWeight) name = fused.weight_names[o.index];
      if (o.kind == graph::NodeOperand::Kind::kConstant) name = fused.constant_names[o.index];
      if (o.kind == graph::NodeOperand::Kind::kState) name = fused.states[o.index].name;
      if (!name.starts_with("text/layers/")) continue;
      layer = name.substr(0, name.find('/', 12) + 1);
    }
    const bool is_head = std::ranges::any_of(node.operands, [](const graph::NodeOperand& o) {
      return o.kind == graph::NodeOperand::Kind::kIo &&
             (o.index == static_cast<int32_t>(graph::Io::kLogits) ||
              o.index == static_cast<int32_t>(graph::Io::kLogitsRows));
    });
    if (node.op != Op::kEmbed && !is_head) ++out[layer];
  }
  return out;
}

TEST(Fuse, ALayerIsAtMostEightLaunches) {
  for (const char* name : {"qwen3", "qwen3_tied_yarn", "gemma3_text"}) {
    if (!fs::exists(golden(name))) GTEST_SKIP() << golden(name) << " is absent";
    const auto layers = launches_by_layer(golden(name));
    EXPECT_GE(layers.size(), 2u);
    for (const auto& [layer, n] : layers) {
      EXPECT_LE(n, 8u) << name << " " << layer;
      EXPECT_GE(n, 4u) << name << " " << layer;
    }
  }
}

// One step of two sequences, one of them under way, and what it leaves.
struct Outcome {
  std::vector<float> logits;
  std::vector<std::vector<float>> taps;
  std::vector<std::byte> states;
};

Outcome run_step(const graph::Graph& graph, const TextModel& model, int threads, Isa isa) {
  constexpr int32_t kRows = 7, kPageTokens = 4, kPages = 3;
  const StateLayout states = lay_out_states(graph, kPageTokens);
  const auto backend = kernel::make_cpu_backend({.threads = threads, .isa = isa});
  const auto instance = backend->instantiate(
      lower(graph, states, model.step.weights, model.vocab_size, {kRows, 2, 2}),
      {model.step.weights, model.step.constants});
  Outcome out;
  const uint64_t page_bytes = states.page.bytes, row_bytes = (states.row.bytes + 63) / 64 * 64;
  out.states.resize(2 * (kPages * page_bytes + row_bytes) + 64);
  std::byte* base = out.states.data() + (-reinterpret_cast<uintptr_t>(out.states.data()) % 64);
  std::vector<std::byte*> pages[2], rows;
  for (int b = 0; b < 2; ++b) {
    for (int p = 0; p < kPages; ++p) pages[b].push_back(base + (2 * p + b) * page_bytes);
    rows.push_back(base + 2 * kPages * page_bytes + b * row_bytes);
  }
  std::byte* const* tables[] = {pages[0].data(), pages[1].data()};
  out.logits.resize(2 * model.vocab_size);
  std::vector<float*> taps;
  for (size_t i = 0; i < graph.taps.size(); ++i) out.taps.emplace_back(kRows * 4096);
  for (std::vector<float>& tap : out.taps) taps.push_back(tap.data());
  // Five tokens of sequence 0 and two of sequence 1, then one more and six more.
  const auto step = [&](std::vector<int32_t> past, std::vector<int32_t> counts) {
    std::vector<int32_t> ids, positions, sequence, begin = {0};
    for (int32_t b = 0; b < 2; ++b) {
      for (int32_t i = 0; i < counts[b]; ++i) {
        ids.push_back((past[b] + i) * 37 % 200 + b);
        positions.push_back(past[b] + i);
        sequence.push_back(b);
      }
      begin.push_back(static_cast<int32_t>(ids.size()));
    }
    const size_t n = ids.size();
    for (int axis = 1; axis < 3; ++axis)
      for (size_t i = 0; i < n; ++i) positions.push_back(positions[i]);
    const int32_t wanted[] = {begin[1] - 1, static_cast<int32_t>(n) - 1};
    kernel::StepInputs in;
    in.n_rows = static_cast<int32_t>(n);
    in.n_sequences = 2;
    in.n_logits = 2;
    in.token_ids = ids.data();
    in.positions = positions.data();
    in.row_sequence = sequence.data();
    in.sequence_begin = begin.data();
    in.sequence_past = past.data();
    in.logits_rows = wanted;
    in.page_tables = tables;
    in.rows = rows.data();
    in.page_tokens = kPageTokens;
    in.logits = out.logits.data();
    in.logits_stride = model.vocab_size;
    in.taps = taps.data();
    backend->replay(*instance, in);
  };
  step({0, 0}, {5, 2});
  step({5, 2}, {1, 6});
  // Where a page lies in memory is not part of the outcome.
  out.states.erase(out.states.begin(), out.states.begin() + (base - out.states.data()));
  out.states.resize(2 * (kPages * page_bytes + row_bytes));
  return out;
}

TEST(Fuse, KeepsEveryBitOfLogitsTapsAndStates) {
  const Isa isa = machine_isa().value_or(Isa::kV2);
  for (const char* name : {"nano", "llama3", "qwen2", "qwen3", "qwen3_5", "gemma3_text"})
    for (const char* recipe : {"", "q4"})
      for (const bool exact : {false, true})
        for (const bool taps : {false, true}) {
          const fs::path folder = name == std::string("nano")
                                      ? fs::path(FLARE_SOURCE_DIR) / "models/nano"
                                      : golden(name);
          if (!fs::exists(folder)) GTEST_SKIP() << folder << " is absent";
          SCOPED_TRACE(::testing::Message()
                       << name << " " << recipe << " exact " << exact << " taps " << taps);
          const auto source = open_source(folder, recipe, 1);
          ModelOptions options;
          options.exact = exact;
          options.taps = taps;
          TextModel model = build_text_model(*source, options);
          const Packing packing = plan_packing(model.step.graph, model.step.weights);
          source->fill();
          pack_weights(packing, *source, /*threads=*/1);
          const graph::Graph fused =
              fuse(model.step.graph, model.step.weights, model.step.constants);
          EXPECT_LT(fused.nodes.size(), model.step.graph.nodes.size());
          const Outcome want = run_step(model.step.graph, model, 1, isa);
          EXPECT_TRUE(std::ranges::all_of(want.logits, [](float v) { return v != 0; }));
          for (const int threads : {1, 2}) {
            const Outcome got = run_step(fused, model, threads, isa);
            EXPECT_EQ(got.logits, want.logits);
            EXPECT_EQ(got.taps, want.taps);
            EXPECT_EQ(got.states, want.states);
          }
        }
}

}  // namespace
}  // namespace flare::prepare
