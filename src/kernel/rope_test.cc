// Rope at every vector level of this machine against its oracle.
#include "kernel/rope.h"

#include "base/case_sample_fixture.h"
#include "kernel/op_fixture.h"

namespace flare::kernel {
namespace {

using testing::Array;

// cos and sin rounded once, two products and a sum: three half ulps of |a| + |b|, doubled.
constexpr double kTolerance = 3 * 0x1p-23;
// cos or sin of an exact angle times one: half an ulp below 1.
constexpr double kUnitTolerance = 0x1.01p-25;

struct Case {
  int64_t rows;
  int64_t heads;
  int64_t width;
  int64_t half;
  double factor;
  int64_t section1;
  int64_t section2;
  int32_t largest;  // position
};

std::vector<Case> rope_cases() {
  const struct {
    int64_t width, half;
  } heads[] = {{2, 1},   {8, 4},   {26, 5},   {34, 17},  {64, 32},
               {80, 20}, {96, 48}, {128, 64}, {256, 32}, {320, 160}};
  std::vector<Case> out;
  for (int64_t rows : {0, 1, 2, 5, 17, 64, 130})
    for (int64_t n_heads : {1, 2, 3, 4})
      for (const auto& head : heads)
        for (double factor : {1.0, 0.5, 1.25})
          // About a third of the frequencies for height and for width, or none.
          for (bool sections : {false, true})
            for (int32_t largest : {10, 40000, 1000000})
              out.push_back({rows, n_heads, head.width, head.half, factor,
                             sections ? (head.half + 2) / 3 : 0, sections ? head.half / 3 : 0,
                             largest});
  return out;
}

TEST(Rope, FollowsTheOracle) {
  SampledCases cases(100);
  for (const Case& c : rope_cases()) {
    if (!cases.next()) continue;
    std::mt19937 random(cases.number());
    Array x(c.rows, c.heads * c.width);
    x.randomise(random, 1);
    std::vector<float> f(c.half);
    for (int64_t i = 0; i < c.half; ++i)
      f[i] = static_cast<float>(std::pow(1e7, -static_cast<double>(i) / c.half));
    std::vector<int32_t> positions(3 * c.rows);
    for (int32_t& p : positions) p = static_cast<int32_t>(random() % (c.largest + 1));
    const std::vector<graph::Immediate> immediates = {
        graph::integer(c.width), graph::real(c.factor), graph::integer(c.section1),
        graph::integer(c.section2)};
    const auto operands = [&](Array& in, Array& out) {
      return std::vector<OperandView>{in.view(), testing::constant(f, 1, c.half),
                                      testing::indices(positions.data(), 3, c.rows), out.view()};
    };
    Array expected(c.rows, x.cols());
    rope_ref({.operands = operands(x, expected), .immediates = immediates});
    for (Isa isa : testing::levels()) {
      Array first(c.rows, x.cols());
      for (int team : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message()
                     << isa_name(isa) << " team " << team << " case " << cases.number());
        Array y(c.rows, x.cols());
        testing::run_kernel(KernelId::kRope, isa, team, operands(x, y), immediates, nullptr);
        y.expect_near(expected, 0, kTolerance * 2 * c.factor);
        y.expect_guards();
        if (team == 1) first = y;
        EXPECT_TRUE(y.same_bits(first));
        Array in_place = x;
        testing::run_kernel(KernelId::kRope, isa, team, operands(in_place, in_place), immediates,
                            nullptr);
        EXPECT_TRUE(in_place.same_bits(y));
      }
    }
  }
}

// qwen3_5.md §5: sections [11, 11, 10] give H to i = 1, 4 … 31 and W to i = 2, 5 … 29.
TEST(Rope, InterleavedSectionsChooseTheAxis) {
  for (Isa isa : testing::levels()) {
    Array x(1, 64, 0);
    x.fill(0);
    for (int i = 0; i < 32; ++i) x.row(0)[i] = 1;
    std::vector<float> f(32, 1.0f);
    const int32_t positions[] = {100, 200, 300};
    const std::vector<graph::Immediate> immediates = {graph::integer(64), graph::real(1),
                                                      graph::integer(11), graph::integer(10)};
    Array y(1, 64, 0);
    const std::vector<OperandView> operands = {x.view(), testing::constant(f, 1, 32),
                                               testing::indices(positions, 3, 1), y.view()};
    testing::run_kernel(KernelId::kRope, isa, 1, operands, immediates, nullptr);
    for (int i = 0; i < 32; ++i) {
      const bool height = i % 3 == 1;
      const bool width = i % 3 == 2 && i <= 29;
      const double angle = height ? 200 : width ? 300 : 100;
      EXPECT_NEAR(y.row(0)[i], std::cos(angle), kUnitTolerance) << i;
      EXPECT_NEAR(y.row(0)[32 + i], std::sin(angle), kUnitTolerance) << i;
    }
  }
}

}  // namespace
}  // namespace flare::kernel
