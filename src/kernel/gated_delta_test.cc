// gated_delta at every vector level of this machine against its oracle: steps, chunks, both;
// verification and commit against single steps.
#include "kernel/gated_delta.h"

#include "base/case_sample_fixture.h"
#include "kernel/op_fixture.h"

namespace flare::kernel {
namespace {

using testing::Array;
using testing::Sequence;
using testing::Step;

// State and values are of order 1; a column of S sums dk products, and the recurrence contracts
// (decay and β pull towards v), so errors of one row do not grow: dk·2^−24 worst, frozen at its
// value for dk = 128. What a row adds before it, convolution, SiLU and norms, is some 2^−22 of v.
constexpr double kTolerance = 0x1p-17;
// A row of factors holds k̂ and e^g, some ulp each, and δ, whose error is that of a state's column.
constexpr double kFactorTolerance = kTolerance;
constexpr uint64_t kTail = 64;

struct Case {
  std::vector<Sequence> sequences;
  int64_t nk;
  int64_t dk;
  int64_t nv;
  int64_t dv;
  int64_t taps = 4;
  int64_t conv_cols() const { return 2 * nk * dk + nv * dv; }
  int64_t tail_floats() const { return (taps - 1) * conv_cols(); }
  int64_t state_floats() const { return nv * dk * dv; }
  int64_t factor_cols() const { return nk * dk + nv + nv * dv; }
  uint64_t state() const { return kTail + static_cast<uint64_t>(tail_floats()) * sizeof(float); }
  uint64_t row_bytes() const {
    return state() + static_cast<uint64_t>(state_floats()) * sizeof(float);
  }
};
const Case kCases[] = {
    {{}, 1, 8, 2, 8},
    {{{0, 1}}, 1, 5, 1, 3},
    {{{0, 1}, {9, 2}, {4, 0}, {0, 5}}, 2, 16, 4, 24},
    {{{3, 15}, {3, 16}, {0, 17}}, 1, 32, 2, 64, 3},
    {{{3, 64}, {0, 63}, {1, 65}}, 2, 24, 2, 40},
    {{{5, 130}, {8, 1}}, 1, 128, 2, 128},
    {{{5, 33}, {2, 22}}, 1, 20, 3, 7, 1},
    {{{5, 27}}, 2, 64, 2, 100, 6},
};
// A few rows per sequence, as drafts give them.
const Case kVerified[] = {
    {{}, 1, 8, 2, 8},
    {{{0, 1}}, 1, 5, 1, 3},
    {{{0, 1}, {9, 2}, {4, 0}, {7, 5}}, 2, 16, 4, 24},
    {{{3, 15}, {3, 16}}, 1, 32, 2, 64, 3},
    {{{1, 8}, {6, 3}}, 1, 128, 3, 128},
    {{{5, 4}, {2, 2}}, 1, 20, 3, 7, 1},
    {{{5, 66}}, 1, 12, 2, 9, 6},
};

// One step's arrays, and the calls on them.
struct Problem {
  Problem(const Case& c, std::mt19937& random)
      : shape(c),
        step(c.sequences, 128, 0, c.row_bytes(), random),
        u(step.inputs.n_rows, c.conv_cols()),
        a(step.inputs.n_rows, c.nv),
        b(step.inputs.n_rows, c.nv),
        w(testing::random_values(random, c.taps * c.conv_cols(), -1, 1)),
        a_log(testing::random_values(random, c.nv, -4, 1)),
        dt_bias(testing::random_values(random, c.nv, -2, 2)),
        immediates{graph::integer(c.nk), graph::integer(c.dk), graph::integer(c.nv),
                   graph::integer(c.dv)} {
    u.randomise(random, 1.5f);
    a.randomise(random, 3);
    b.randomise(random, 4);
    if (a.rows() > 3) {
      a.row(1)[0] = 30;  // softplus is the identity there
      a.row(2)[0] = 90;  // the state is forgotten
      a.row(3)[0] = -40;
    }
    for (size_t s = 0; s < c.sequences.size(); ++s) {
      const auto tail = testing::random_values(random, c.tail_floats(), -1.5f, 1.5f);
      const auto state = testing::random_values(random, c.state_floats(), -0.5f, 0.5f);
      if (c.sequences[s].past == 0) continue;
      std::copy(tail.begin(), tail.end(), step.field(s, kTail));
      std::copy(state.begin(), state.end(), step.field(s, c.state()));
    }
    before = step.memory;
  }

  OperandView tail_view() const {
    return testing::state(graph::Space::kRow, graph::DType::kF32, kTail, shape.tail_floats());
  }
  OperandView state_view() const {
    return testing::state(graph::Space::kRow, graph::DType::kF32, shape.state(),
                          shape.state_floats());
  }
  std::vector<OperandView> operands(Array& out) {
    return {u.view(),
            a.view(),
            b.view(),
            testing::constant(w, shape.taps, shape.conv_cols()),
            testing::constant(a_log, 1, shape.nv),
            testing::constant(dt_bias, 1, shape.nv),
            tail_view(),
            state_view(),
            out.view()};
  }
  std::vector<OperandView> verify_operands(Array& out, Array& factors) {
    auto views = operands(out);
    views.push_back(factors.view());
    return views;
  }
  std::vector<OperandView> commit_operands(Array& factors, const std::vector<int32_t>& accepted) {
    return {u.view(), factors.view(),
            testing::indices(accepted.data(), static_cast<int64_t>(accepted.size())), tail_view(),
            state_view()};
  }
  std::vector<graph::Immediate> commit_immediates() const {
    auto out = immediates;
    out.push_back(graph::integer(shape.taps));
    return out;
  }
  // gated_delta over rows [first, first + n) of sequence s alone.
  void run_part(Isa isa, int team, int32_t s, int32_t first, int32_t n, Array& out) {
    StepInputs part = step.inputs;
    const int32_t begin[] = {0, n};
    part.n_rows = n;
    part.n_sequences = 1;
    part.sequence_begin = begin;
    part.rows = step.inputs.rows + s;
    std::vector<OperandView> views = operands(out);
    for (int i : {0, 1, 2, 8}) {
      views[i].data = reinterpret_cast<std::byte*>(views[i].f32_out(first));
      views[i].rows = n;
    }
    testing::run_kernel(KernelId::kGatedDelta, isa, team, views, immediates, &part);
  }
  void restore() { std::copy(before.begin(), before.end(), step.memory.begin()); }
  Array fields(uint64_t offset, int64_t floats) {
    Array out(step.inputs.n_sequences, floats);
    for (int64_t s = 0; s < out.rows(); ++s)
      std::copy_n(step.field(s, offset), out.cols(), out.row(s));
    return out;
  }
  Array states() { return fields(shape.state(), shape.state_floats()); }
  Array tails() { return fields(kTail, shape.tail_floats()); }
  int32_t rows_of(int32_t s) const {
    return step.inputs.sequence_begin[s + 1] - step.inputs.sequence_begin[s];
  }

  const Case& shape;
  Step step;
  Array u;
  Array a;
  Array b;
  std::vector<float> w;
  std::vector<float> a_log;
  std::vector<float> dt_bias;
  std::vector<graph::Immediate> immediates;
  std::vector<std::byte> before;
};

TEST(GatedDelta, FollowsTheOracleWithTheSameBitsForEveryTeam) {
  SampledCases sample(2);
  for (const Case& c : kCases) {
    if (!sample.next()) continue;
    std::mt19937 random(sample.number());
    Problem p(c, random);
    Array expected(p.u.rows(), c.nv * c.dv);
    gated_delta_ref(
        {.operands = p.operands(expected), .immediates = p.immediates, .step = &p.step.inputs});
    const Array state = p.states();
    const Array tail = p.tails();
    for (Isa isa : testing::levels()) {
      Array first;
      Array first_state;
      for (int team : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message() << isa_name(isa) << " team " << team << " rows "
                                          << p.u.rows() << " dk " << c.dk);
        p.restore();
        Array out(p.u.rows(), c.nv * c.dv);
        testing::run_kernel(KernelId::kGatedDelta, isa, team, p.operands(out), p.immediates,
                            &p.step.inputs);
        out.expect_near(expected, 0, kTolerance);
        out.expect_guards();
        const Array new_state = p.states();
        new_state.expect_near(state, 0, kTolerance);
        EXPECT_TRUE(p.tails().same_bits(tail));
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
    const Array whole_tail = p.tails();
    for (int32_t cut : {1, 7, 16, 64}) {
      SCOPED_TRACE(::testing::Message() << isa_name(isa) << " cut " << cut);
      p.restore();
      Array pieces(130, c.nv * c.dv);
      for (int32_t t = 0; t < 130; t += cut)
        p.run_part(isa, 2, 0, t, std::min(cut, 130 - t), pieces);
      pieces.expect_near(whole, 0, kTolerance);
      p.states().expect_near(whole_state, 0, kTolerance);
      EXPECT_TRUE(p.tails().same_bits(whole_tail));
    }
  }
}

TEST(GatedDelta, ASequenceAloneHasTheBitsItHasAmongOthers) {
  SampledCases sample(2);
  for (const Case& c : kCases) {
    if (!sample.next()) continue;
    std::mt19937 random(sample.number());
    Problem p(c, random);
    for (Isa isa : testing::levels()) {
      p.restore();
      Array out(p.u.rows(), c.nv * c.dv);
      testing::run_kernel(KernelId::kGatedDelta, isa, 2, p.operands(out), p.immediates,
                          &p.step.inputs);
      const Array states = p.states();
      p.restore();
      Array alone(p.u.rows(), c.nv * c.dv);
      for (int32_t s = 0; s < p.step.inputs.n_sequences; ++s)
        p.run_part(isa, 1, s, p.step.inputs.sequence_begin[s], p.rows_of(s), alone);
      EXPECT_TRUE(alone.same_bits(out));
      EXPECT_TRUE(p.states().same_bits(states));
    }
  }
}

TEST(GatedDeltaVerify, FollowsTheOracleAndWritesNoState) {
  SampledCases sample(2);
  for (const Case& c : kVerified) {
    if (!sample.next()) continue;
    std::mt19937 random(sample.number());
    Problem p(c, random);
    Array expected(p.u.rows(), c.nv * c.dv);
    Array expected_factors(p.u.rows(), c.factor_cols());
    gated_delta_verify_ref({.operands = p.verify_operands(expected, expected_factors),
                            .immediates = p.immediates,
                            .step = &p.step.inputs});
    for (Isa isa : testing::levels()) {
      Array first;
      Array first_factors;
      for (int team : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message() << isa_name(isa) << " team " << team << " rows "
                                          << p.u.rows() << " dk " << c.dk);
        Array out(p.u.rows(), c.nv * c.dv);
        Array factors(p.u.rows(), c.factor_cols());
        testing::run_kernel(KernelId::kGatedDeltaVerify, isa, team, p.verify_operands(out, factors),
                            p.immediates, &p.step.inputs);
        out.expect_near(expected, 0, kTolerance);
        factors.expect_near(expected_factors, 0, kFactorTolerance);
        out.expect_guards();
        factors.expect_guards();
        EXPECT_TRUE(p.step.memory == p.before);
        if (team == 1) {
          first = out;
          first_factors = factors;
        }
        EXPECT_TRUE(out.same_bits(first));
        EXPECT_TRUE(factors.same_bits(first_factors));
      }
    }
  }
}

TEST(GatedDeltaCommit, FollowsTheOracle) {
  SampledCases sample(2);
  for (const Case& c : kVerified) {
    if (!sample.next()) continue;
    std::mt19937 random(sample.number());
    Problem p(c, random);
    Array factors(p.u.rows(), c.factor_cols());
    factors.randomise(random, 0.5f);
    std::vector<int32_t> accepted;
    for (int32_t s = 0; s < p.step.inputs.n_sequences; ++s)
      accepted.push_back((p.rows_of(s) + 1) / 2);
    const auto operands = p.commit_operands(factors, accepted);
    const auto immediates = p.commit_immediates();
    p.restore();
    gated_delta_commit_ref(
        {.operands = operands, .immediates = immediates, .step = &p.step.inputs});
    const Array state = p.states();
    const Array tail = p.tails();
    for (Isa isa : testing::levels())
      for (int team : {1, 3}) {
        SCOPED_TRACE(::testing::Message() << isa_name(isa) << " team " << team << " dk " << c.dk);
        p.restore();
        testing::run_kernel(KernelId::kGatedDeltaCommit, isa, team, operands, immediates,
                            &p.step.inputs);
        p.states().expect_near(state, 0, kTolerance);
        EXPECT_TRUE(p.tails().same_bits(tail));
      }
  }
}

// Whatever is accepted, nothing shows that the rows came as candidates.
TEST(GatedDeltaCommit, LeavesTheBitsOfSingleStepsForEveryAcceptedPrefix) {
  SampledCases sample(3);
  for (const Case& c : kVerified) {
    if (!sample.next()) continue;
    std::mt19937 random(sample.number());
    Problem p(c, random);
    int32_t longest = 0;
    for (int32_t s = 0; s < p.step.inputs.n_sequences; ++s)
      longest = std::max(longest, p.rows_of(s));
    for (Isa isa : testing::levels())
      for (int32_t wanted = 0; wanted <= longest; ++wanted) {
        SCOPED_TRACE(::testing::Message()
                     << isa_name(isa) << " dk " << c.dk << " accepted " << wanted);
        std::vector<int32_t> accepted;
        for (int32_t s = 0; s < p.step.inputs.n_sequences; ++s)
          accepted.push_back(std::min(wanted, p.rows_of(s)));
        p.restore();
        Array singles(p.u.rows(), c.nv * c.dv);
        for (int32_t s = 0; s < p.step.inputs.n_sequences; ++s)
          for (int32_t i = 0; i < accepted[s]; ++i)
            p.run_part(isa, 1, s, p.step.inputs.sequence_begin[s] + i, 1, singles);
        const auto after_singles = p.step.memory;
        p.restore();
        Array out(p.u.rows(), c.nv * c.dv);
        Array factors(p.u.rows(), c.factor_cols());
        testing::run_kernel(KernelId::kGatedDeltaVerify, isa, 2, p.verify_operands(out, factors),
                            p.immediates, &p.step.inputs);
        testing::run_kernel(KernelId::kGatedDeltaCommit, isa, 2,
                            p.commit_operands(factors, accepted), p.commit_immediates(),
                            &p.step.inputs);
        EXPECT_TRUE(p.step.memory == after_singles);
        for (int32_t s = 0; s < p.step.inputs.n_sequences; ++s)
          for (int32_t i = 0; i < accepted[s]; ++i) {
            const int64_t t = p.step.inputs.sequence_begin[s] + i;
            EXPECT_EQ(std::memcmp(out.row(t), singles.row(t), out.cols() * sizeof(float)), 0);
          }
      }
  }
}

}  // namespace
}  // namespace flare::kernel
