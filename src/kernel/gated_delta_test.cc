// gated_delta at every vector level of this machine against its oracle: steps, chunks, both.
#include "kernel/gated_delta.h"

#include "kernel/op_fixture.h"

namespace flare::kernel {
namespace {

using testing::Array;
using testing::Sequence;
using testing::Step;

// State and values are of order 1; a column of S sums dk products, and the recurrence contracts
// (decay and β pull towards v), so errors of one row do not grow: dk·2^−24 worst, frozen at its
// value for dk = 128. The largest errors seen are 2^−20.4 (v2), 2^−20.7 (v3), 2^−20.8 (v4) in
// states and 2^−22.7 in outputs.
constexpr double kTolerance = 0x1p-17;
constexpr uint64_t kOffset = 64;

struct Case {
  std::vector<Sequence> sequences;
  int64_t nk;
  int64_t dk;
  int64_t nv;
  int64_t dv;
};
const Case kCases[] = {
    {{}, 1, 8, 2, 8},
    {{{0, 1}}, 1, 5, 1, 3},
    {{{0, 1}, {9, 2}, {4, 0}, {0, 5}}, 2, 16, 4, 24},
    {{{3, 15}, {3, 16}, {0, 17}}, 1, 32, 2, 64},
    {{{3, 64}, {0, 63}, {1, 65}}, 2, 24, 2, 40},
    {{{5, 130}, {8, 1}}, 1, 128, 2, 128},
    {{{5, 33}}, 1, 20, 3, 7},
};

// One step's arrays, and the calls on them.
struct Problem {
  Problem(const Case& c, std::mt19937& random)
      : shape(c),
        step(c.sequences, 128, 0, kOffset + c.nv * c.dk * c.dv * sizeof(float), random),
        conv(step.inputs.n_rows, 2 * c.nk * c.dk + c.nv * c.dv),
        a(step.inputs.n_rows, c.nv),
        b(step.inputs.n_rows, c.nv),
        a_log(testing::random_values(random, c.nv, -4, 1)),
        dt_bias(testing::random_values(random, c.nv, -2, 2)),
        immediates{graph::integer(c.nk), graph::integer(c.dk), graph::integer(c.nv),
                   graph::integer(c.dv)} {
    conv.randomise(random, 1.5f);
    a.randomise(random, 3);
    b.randomise(random, 4);
    if (a.rows() > 3) {
      a.row(1)[0] = 30;  // softplus is the identity there
      a.row(2)[0] = 90;  // the state is forgotten
      a.row(3)[0] = -40;
    }
    for (size_t s = 0; s < c.sequences.size(); ++s) {
      const auto values = testing::random_values(random, c.nv * c.dk * c.dv, -0.5f, 0.5f);
      if (c.sequences[s].past > 0) std::copy(values.begin(), values.end(), step.field(s, kOffset));
    }
    before = step.memory;
  }

  std::vector<OperandView> operands(Array& out) {
    return {conv.view(),
            a.view(),
            b.view(),
            testing::constant(a_log, 1, shape.nv),
            testing::constant(dt_bias, 1, shape.nv),
            testing::state(graph::Space::kRow, graph::DType::kF32, kOffset,
                           shape.nv * shape.dk * shape.dv),
            out.view()};
  }
  void restore() { std::copy(before.begin(), before.end(), step.memory.begin()); }
  Array states() {
    Array out(step.inputs.n_sequences, shape.nv * shape.dk * shape.dv);
    for (int64_t s = 0; s < out.rows(); ++s)
      std::copy_n(step.field(s, kOffset), out.cols(), out.row(s));
    return out;
  }

  const Case& shape;
  Step step;
  Array conv;
  Array a;
  Array b;
  std::vector<float> a_log;
  std::vector<float> dt_bias;
  std::vector<graph::Immediate> immediates;
  std::vector<std::byte> before;
};

TEST(GatedDelta, FollowsTheOracleWithTheSameBitsForEveryTeam) {
  std::mt19937 random(31);
  for (const Case& c : kCases) {
    Problem p(c, random);
    Array expected(p.conv.rows(), c.nv * c.dv);
    gated_delta_ref(
        {.operands = p.operands(expected), .immediates = p.immediates, .step = &p.step.inputs});
    const Array state = p.states();
    for (Isa isa : testing::levels()) {
      Array first;
      Array first_state;
      for (int team : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message() << isa_name(isa) << " team " << team << " rows "
                                          << p.conv.rows() << " dk " << c.dk);
        p.restore();
        Array out(p.conv.rows(), c.nv * c.dv);
        testing::run_kernel(KernelId::kGatedDelta, isa, team, p.operands(out), p.immediates,
                            &p.step.inputs);
        out.expect_near(expected, 0, kTolerance);
        out.expect_guards();
        const Array new_state = p.states();
        new_state.expect_near(state, 0, kTolerance);
        if (team == 1) {
          first = out;
          first_state = new_state;
        }
        EXPECT_TRUE(out.same_bits(first));
        EXPECT_TRUE(new_state.same_bits(first_state));
      }
    }
  }
}

// Chunks of 64, runs of 16 rows and single rows are three ways to the same recurrence.
TEST(GatedDelta, AnyCutOfASequenceGivesTheSameResult) {
  std::mt19937 random(32);
  const Case c{{{5, 130}}, 1, 64, 2, 48};
  Problem p(c, random);
  for (Isa isa : testing::levels()) {
    Array whole(130, c.nv * c.dv);
    p.restore();
    testing::run_kernel(KernelId::kGatedDelta, isa, 1, p.operands(whole), p.immediates,
                        &p.step.inputs);
    const Array whole_state = p.states();
    for (int32_t cut : {1, 7, 16, 64}) {
      SCOPED_TRACE(::testing::Message() << isa_name(isa) << " cut " << cut);
      p.restore();
      Array pieces(130, c.nv * c.dv);
      for (int32_t t = 0; t < 130; t += cut) {
        const int32_t n = std::min(cut, 130 - t);
        StepInputs part = p.step.inputs;
        const int32_t begin[] = {0, n};
        part.n_rows = n;
        part.sequence_begin = begin;
        std::vector<OperandView> views = p.operands(pieces);
        for (int i : {0, 1, 2, 6}) {
          views[i].data = reinterpret_cast<std::byte*>(views[i].f32_out(t));
          views[i].rows = n;
        }
        testing::run_kernel(KernelId::kGatedDelta, isa, 2, views, p.immediates, &part);
      }
      pieces.expect_near(whole, 0, kTolerance);
      p.states().expect_near(whole_state, 0, kTolerance);
    }
  }
}

TEST(GatedDelta, ASequenceAloneHasTheBitsItHasAmongOthers) {
  std::mt19937 random(33);
  for (const Case& c : kCases) {
    Problem p(c, random);
    for (Isa isa : testing::levels()) {
      p.restore();
      Array out(p.conv.rows(), c.nv * c.dv);
      testing::run_kernel(KernelId::kGatedDelta, isa, 2, p.operands(out), p.immediates,
                          &p.step.inputs);
      const Array states = p.states();
      p.restore();
      for (int32_t s = 0; s < p.step.inputs.n_sequences; ++s) {
        const int32_t first = p.step.inputs.sequence_begin[s];
        const int32_t n = p.step.inputs.sequence_begin[s + 1] - first;
        StepInputs one = p.step.inputs;
        const int32_t begin[] = {0, n};
        one.n_rows = n;
        one.n_sequences = 1;
        one.sequence_begin = begin;
        one.rows = p.step.inputs.rows + s;
        Array alone(n, out.cols());
        std::vector<OperandView> views = p.operands(alone);
        for (int i : {0, 1, 2}) {
          views[i].data = reinterpret_cast<std::byte*>(views[i].f32_out(first));
          views[i].rows = n;
        }
        testing::run_kernel(KernelId::kGatedDelta, isa, 1, views, p.immediates, &one);
        for (int32_t t = 0; t < n; ++t)
          ASSERT_EQ(std::memcmp(alone.row(t), out.row(first + t), out.cols() * sizeof(float)), 0);
      }
      EXPECT_TRUE(p.states().same_bits(states));
    }
  }
}

}  // namespace
}  // namespace flare::kernel
