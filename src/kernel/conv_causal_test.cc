// conv_causal at every vector level of this machine against its oracle.
#include "kernel/conv_causal.h"

#include "base/case_sample_fixture.h"
#include "kernel/op_fixture.h"

namespace flare::kernel {
namespace {

using testing::Array;
using testing::Sequence;
using testing::Step;

// At most J = 4 products below 1 in magnitude, each with a rounding of the running sum, and SiLU.
constexpr double kTolerance = 8 * 0x1p-23;
constexpr uint64_t kOffset = 64;

struct Case {
  std::vector<Sequence> sequences;
  int64_t taps;
  int64_t cols;
  int64_t act;
};

std::vector<Case> conv_cases() {
  const std::vector<Sequence> steps[] = {{},
                                         {{0, 1}},
                                         {{0, 2}, {5, 1}, {9, 0}, {3, 3}},
                                         {{7, 17}, {0, 64}},
                                         {{1, 4}},
                                         {{0, 130}, {2, 5}},
                                         {{1, 2}, {1, 1}},
                                         {{1, 2}, {0, 9}}};
  std::vector<Case> out;
  for (const auto& sequences : steps)
    for (int64_t taps : {1, 2, 3, 4, 7})
      for (int64_t cols : {1, 7, 16, 20, 33, 48, 100, 600})
        for (int64_t act : {0, 1}) out.push_back({sequences, taps, cols, act});
  return out;
}

TEST(ConvCausal, FollowsTheOracleAndLeavesTheTail) {
  SampledCases cases(20);
  for (const Case& c : conv_cases()) {
    if (!cases.next()) continue;
    std::mt19937 random(cases.number());
    const int64_t tail = (c.taps - 1) * c.cols;
    Step step(c.sequences, 128, 0, kOffset + tail * sizeof(float), random);
    for (size_t b = 0; b < c.sequences.size(); ++b) {
      const auto values = testing::random_values(random, tail, -1, 1);
      if (c.sequences[b].past > 0) std::copy(values.begin(), values.end(), step.field(b, kOffset));
    }
    const auto before = step.memory;
    Array u(step.inputs.n_rows, c.cols);
    u.randomise(random);
    auto w = testing::random_values(random, c.taps * c.cols, -1, 1);
    const std::vector<graph::Immediate> immediates = {graph::integer(c.act)};
    const auto operands = [&](Array& out) {
      return std::vector<OperandView>{
          u.view(), testing::constant(w, c.taps, c.cols),
          testing::state(graph::Space::kRow, graph::DType::kF32, kOffset, tail), out.view()};
    };
    Array expected(u.rows(), c.cols);
    conv_causal_ref(
        {.operands = operands(expected), .immediates = immediates, .step = &step.inputs});
    const auto after = step.memory;
    for (Isa isa : testing::levels()) {
      Array first;
      for (int team : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message() << isa_name(isa) << " team " << team << " rows "
                                          << u.rows() << " case " << cases.number());
        std::copy(before.begin(), before.end(), step.memory.begin());
        Array out(u.rows(), c.cols);
        testing::run_kernel(KernelId::kConvCausal, isa, team, operands(out), immediates,
                            &step.inputs);
        out.expect_near(expected, 0, kTolerance * static_cast<double>(c.taps));
        out.expect_guards();
        EXPECT_TRUE(step.memory == after);
        if (team == 1) first = out;
        EXPECT_TRUE(out.same_bits(first));
      }
    }
  }
}

}  // namespace
}  // namespace flare::kernel
