// The ops that work row by row, at every vector level of this machine, against their oracles.
#include "base/case_sample_fixture.h"
#include "kernel/add.h"
#include "kernel/gate_mul.h"
#include "kernel/gated_norm.h"
#include "kernel/gather_columns.h"
#include "kernel/gather_rows.h"
#include "kernel/geglu.h"
#include "kernel/norm_add.h"
#include "kernel/op_fixture.h"
#include "kernel/rms_norm.h"
#include "kernel/swiglu.h"
#include "kernel/tap.h"

namespace flare::kernel {
namespace {

using testing::Array;
using Oracle = void (*)(const LaunchArgs&);

constexpr uint32_t kSeed = 11;
constexpr double kUlp = 0x1p-23;
// exp to 2 ulp, then a sum, a quotient and a product of half an ulp each, doubled.
constexpr double kSigmoidRelative = 8 * kUlp;
// Where e^−g overflows, from |g| = 88.7 on, the kernel gives 0: it loses at most 120·120·2^−128.
constexpr double kTiny = 1e-34;
// Three roundings of an exponent up to 89 become as many units of e to its power.
constexpr double kGeluRelative = kSigmoidRelative + 3 * 89 * 0x1p-24;
constexpr int64_t kRowCounts[] = {0, 1, 2, 5, 17, 64, 130};

// Sums of n squares by at least 16 running sums, each of n/16 roundings; a root halves the error,
// then five roundings.
double norm_relative(int64_t n) {
  return (static_cast<double>(n) / 16 / 2 + 6) * 0x1p-24 + kSigmoidRelative;
}

struct Shape {
  int64_t rows;
  int64_t cols;
};
// Every width around the vectors' and around a few thousand bytes.
std::vector<Shape> shapes() {
  std::vector<int64_t> widths;
  for (int64_t cols = 1; cols <= 70; ++cols) widths.push_back(cols);
  for (int64_t cols : {127, 128, 129, 130, 255, 257, 1023, 1024, 1100}) widths.push_back(cols);
  std::vector<Shape> out;
  for (int64_t rows : kRowCounts)
    for (int64_t cols : widths) out.push_back({rows, cols});
  return out;
}

// Runs f(x, y) → z for every level, shape, team, and with z in the place of each operand it may
// have.
void check_binary(KernelId id, Oracle oracle, double relative, bool may_be_second) {
  SampledCases cases(12);
  for (const Shape& s : shapes()) {
    if (!cases.next()) continue;
    std::mt19937 random(kSeed + cases.number());
    Array x(s.rows, s.cols);
    Array y(s.rows, s.cols, 9);
    // Gates up to ±120 meet overflow of e^x.
    x.randomise(random, 120);
    y.randomise(random, 120);
    Array expected(s.rows, s.cols);
    const std::vector<OperandView> reference = {x.view(), y.view(), expected.view()};
    oracle({.operands = reference});
    for (Isa isa : testing::levels())
      for (int team : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message()
                     << isa_name(isa) << " team " << team << " " << s.rows << "×" << s.cols);
        Array z(s.rows, s.cols);
        const std::vector<OperandView> operands = {x.view(), y.view(), z.view()};
        testing::run_kernel(id, isa, team, operands, {}, nullptr);
        z.expect_near(expected, relative, kTiny);
        z.expect_guards();
        for (int place = 0; place < (may_be_second ? 2 : 1); ++place) {
          Array a = x;
          Array b = y;
          const std::vector<OperandView> aliased = {a.view(), b.view(),
                                                    place == 0 ? a.view() : b.view()};
          testing::run_kernel(id, isa, team, aliased, {}, nullptr);
          const Array& out = place == 0 ? a : b;
          for (int64_t r = 0; r < s.rows; ++r)
            ASSERT_EQ(std::memcmp(out.row(r), z.row(r), s.cols * sizeof(float)), 0);
          out.expect_guards();
        }
      }
  }
}

TEST(Add, RoundsTheSumOnceInPlaceOrNot) { check_binary(KernelId::kAdd, add_ref, 0, true); }
TEST(Swiglu, FollowsTheOracleInPlaceOrNot) {
  check_binary(KernelId::kSwiglu, swiglu_ref, kSigmoidRelative, true);
}
TEST(Geglu, FollowsTheOracleInPlaceOrNot) {
  check_binary(KernelId::kGeglu, geglu_ref, kGeluRelative, true);
}
// By Python's math.tanh; also torch.nn.functional.gelu(x, approximate='tanh').
TEST(Geglu, HasTheTanhForm) {
  const std::pair<float, double> known[] = {
      {0, 0},          {0.5f, 0.34571401}, {1, 0.84119199}, {-1, -0.15880801},
      {3, 2.99636261}, {-3, -0.00363739},  {-40, 0}};
  for (const auto& [x, want] : known) {
    EXPECT_NEAR(gelu_tanh(x), want, 1e-7) << x;
    for (Isa isa : testing::levels()) {
      Array gate(1, 1), up(1, 1), out(1, 1);
      gate.row(0)[0] = x;
      up.row(0)[0] = 2;
      const std::vector<OperandView> operands = {gate.view(), up.view(), out.view()};
      testing::run_kernel(KernelId::kGeglu, isa, 1, operands, {}, nullptr);
      EXPECT_NEAR(out.row(0)[0], 2 * want, 1e-6) << x << " " << isa_name(isa);
    }
  }
}
TEST(GateMul, FollowsTheOracleInPlaceOrNot) {
  check_binary(KernelId::kGateMul, gate_mul_ref, kSigmoidRelative, false);
}

struct NormCase {
  int64_t rows;
  int64_t groups;
  int64_t width;
};
std::vector<NormCase> norm_cases() {
  std::vector<NormCase> out;
  for (int64_t rows : {0, 1, 2, 5, 17, 64, 130})
    for (int64_t groups : {1, 2, 3, 4})
      for (int64_t width : {1, 2, 5, 8, 15, 16, 17, 31, 33, 48, 64, 100, 128, 1000})
        out.push_back({rows, groups, width});
  return out;
}

// Norm kernels: `gate` present for gated_norm.
void check_norm(KernelId id, Oracle oracle, bool gated, int64_t offset, float weight) {
  SampledCases cases(28);
  for (const NormCase& c : norm_cases()) {
    if (!cases.next()) continue;
    std::mt19937 random(kSeed + cases.number());
    const int64_t cols = c.groups * c.width;
    Array x(c.rows, cols);
    Array z(c.rows, cols, 3);
    x.randomise(random, 4);
    z.randomise(random, 30);
    std::vector<float> w = testing::random_values(random, c.width, -weight, weight);
    const std::vector<graph::Immediate> immediates = {graph::real(1e-6), graph::integer(offset)};
    const std::span<const graph::Immediate> used(immediates.data(), gated ? 1 : 2);
    const auto operands = [&](Array& in, Array& out) {
      std::vector<OperandView> v = {in.view()};
      if (gated) v.push_back(z.view());
      v.push_back(testing::constant(w, 1, c.width));
      v.push_back(out.view());
      return v;
    };
    Array expected(c.rows, cols);
    oracle({.operands = operands(x, expected), .immediates = used});
    for (Isa isa : testing::levels())
      for (int team : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message() << isa_name(isa) << " team " << team << " " << c.rows
                                          << "×" << c.groups << "×" << c.width);
        Array y(c.rows, cols);
        testing::run_kernel(id, isa, team, operands(x, y), used, nullptr);
        // 1 + w may cancel: its rounding is absolute.
        y.expect_near(expected, norm_relative(c.width), 4 * kUlp);
        y.expect_guards();
        Array in_place = x;
        testing::run_kernel(id, isa, team, operands(in_place, in_place), used, nullptr);
        for (int64_t r = 0; r < c.rows; ++r) {
          ASSERT_EQ(std::memcmp(in_place.row(r), y.row(r), cols * sizeof(float)), 0);
          // A row alone has the bits it has among others.
          Array one(1, cols);
          OperandView in = x.view();
          in.data = reinterpret_cast<std::byte*>(x.row(r));
          in.rows = 1;
          OperandView gate = z.view();
          gate.data = reinterpret_cast<std::byte*>(z.row(r));
          gate.rows = 1;
          std::vector<OperandView> v = {in};
          if (gated) v.push_back(gate);
          v.push_back(testing::constant(w, 1, c.width));
          v.push_back(one.view());
          testing::run_kernel(id, isa, 1, v, used, nullptr);
          ASSERT_EQ(std::memcmp(one.row(0), y.row(r), cols * sizeof(float)), 0);
        }
      }
  }
}

TEST(RmsNorm, FollowsTheOraclePlain) { check_norm(KernelId::kRmsNorm, rms_norm_ref, false, 0, 2); }
TEST(RmsNorm, FollowsTheOracleWithOffset) {
  check_norm(KernelId::kRmsNorm, rms_norm_ref, false, 1, 2);
}
// building_blocks.md §1: the test that tells the two forms apart.
TEST(RmsNorm, ZeroWeightsGiveZeroOrTheBareNorm) {
  for (Isa isa : testing::levels())
    for (int64_t offset : {0, 1}) {
      Array x(1, 4);
      const float values[] = {1, -1, 1, -1};
      std::copy_n(values, 4, x.row(0));
      std::vector<float> w(4, 0.0f);
      Array y(1, 4);
      const std::vector<OperandView> operands = {x.view(), testing::constant(w, 1, 4), y.view()};
      const std::vector<graph::Immediate> immediates = {graph::real(0), graph::integer(offset)};
      testing::run_kernel(KernelId::kRmsNorm, isa, 1, operands, immediates, nullptr);
      for (int i = 0; i < 4; ++i) EXPECT_EQ(y.row(0)[i], offset == 1 ? values[i] : 0.0f);
    }
}
TEST(GatedNorm, FollowsTheOracle) { check_norm(KernelId::kGatedNorm, gated_norm_ref, true, 0, 2); }

TEST(NormAdd, FollowsTheOracleWithTheBitsOfItsTwoParts) {
  SampledCases cases(8);
  for (const int64_t rows : {0, 1, 2, 5, 17, 64, 130})
    for (const int64_t cols : {1, 5, 16, 17, 33, 64, 100, 640, 1000}) {
      if (!cases.next()) continue;
      std::mt19937 random(kSeed + cases.number());
      Array x(rows, cols), r(rows, cols, 5);
      x.randomise(random, 4);
      r.randomise(random, 4);
      std::vector<float> w = testing::random_values(random, cols, -2, 2);
      for (const int64_t offset : {0, 1}) {
        const graph::Immediate immediates[] = {graph::real(1e-6), graph::integer(offset)};
        const auto run = [&](Array& a, Array& b, Array& out, Isa isa, int team) {
          const OperandView operands[] = {a.view(), testing::constant(w, 1, cols), b.view(),
                                          out.view()};
          testing::run_kernel(KernelId::kNormAdd, isa, team, operands, immediates, nullptr);
        };
        Array expected(rows, cols);
        const OperandView reference[] = {x.view(), testing::constant(w, 1, cols), r.view(),
                                         expected.view()};
        norm_add_ref({.operands = reference, .immediates = immediates});
        for (Isa isa : testing::levels()) {
          Array normed(rows, cols), apart(rows, cols);
          const OperandView norm[] = {x.view(), testing::constant(w, 1, cols), normed.view()};
          testing::run_kernel(KernelId::kRmsNorm, isa, 1, norm, immediates, nullptr);
          const OperandView sum[] = {r.view(), normed.view(), apart.view()};
          testing::run_kernel(KernelId::kAdd, isa, 1, sum, {}, nullptr);
          for (int team : {1, 2, 3}) {
            SCOPED_TRACE(::testing::Message() << isa_name(isa) << " team " << team << " " << rows
                                              << "×" << cols << " offset " << offset);
            Array y(rows, cols), over_x = x, over_r = r;
            run(x, r, y, isa, team);
            // The normed x is at most 3·√cols; the sum may cancel.
            y.expect_near(expected, norm_relative(cols),
                          norm_relative(cols) * 3 * std::sqrt(static_cast<double>(cols)));
            y.expect_guards();
            ASSERT_TRUE(y.same_bits(apart));
            run(over_x, r, over_x, isa, team);
            run(x, over_r, over_r, isa, team);
            ASSERT_TRUE(over_x.same_bits(y));
            for (int64_t t = 0; t < rows; ++t)
              ASSERT_EQ(std::memcmp(over_r.row(t), y.row(t), cols * sizeof(float)), 0);
            over_r.expect_guards();
          }
        }
      }
    }
}

TEST(GatherRows, CopiesBits) {
  std::mt19937 random(kSeed);
  Array x(9, 70);
  x.randomise(random);
  const int32_t rows[] = {0, 3, 3, 8};
  for (int64_t n = 0; n <= 4; ++n)
    for (Isa isa : testing::levels())
      for (int team : {1, 2, 3}) {
        Array y(n, 70);
        const std::vector<OperandView> operands = {x.view(), testing::indices(rows, n), y.view()};
        testing::run_kernel(KernelId::kGatherRows, isa, team, operands, {}, nullptr);
        Array expected(n, 70);
        const std::vector<OperandView> reference = {x.view(), testing::indices(rows, n),
                                                    expected.view()};
        gather_rows_ref({.operands = reference});
        EXPECT_TRUE(y.same_bits(expected));
      }
}

// Widths on both sides of a block of columns; a permutation, a repeated column, and fewer or more
// columns than there are. Words are NaNs of every payload too.
TEST(GatherColumns, CopiesBits) {
  std::mt19937 random(kSeed);
  const std::pair<int64_t, int64_t> widths[] = {{1, 1},       {7, 7},       {70, 70},
                                                {70, 3},      {3, 70},      {1023, 1023},
                                                {1024, 1024}, {1025, 1025}, {2100, 2100}};
  for (int64_t rows : {0, 1, 2, 5, 17})
    for (const auto& [cols, n] : widths) {
      Array x(rows, cols);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) {
          const uint32_t word = random() | (c % 5 == 0 ? 0x7F800001u : 0);
          std::memcpy(x.row(r) + c, &word, sizeof(word));
        }
      std::vector<int32_t> columns(static_cast<size_t>(n));
      for (int64_t c = 0; c < n; ++c) columns[c] = static_cast<int32_t>(c % cols);
      std::shuffle(columns.begin(), columns.end(), random);
      OperandView order = testing::indices(columns.data(), 1, n);
      order.space = graph::Space::kConst;
      Array expected(rows, n);
      const std::vector<OperandView> reference = {x.view(), order, expected.view()};
      gather_columns_ref({.operands = reference});
      for (int64_t r = 0; r < rows; ++r)  // the oracle itself, by its formula
        for (int64_t c = 0; c < n; ++c)
          ASSERT_EQ(std::memcmp(expected.row(r) + c, x.row(r) + columns[c], sizeof(float)), 0);
      for (Isa isa : testing::levels())
        for (int team : {1, 2, 3}) {
          SCOPED_TRACE(::testing::Message() << isa_name(isa) << " team " << team << " " << rows
                                            << "×" << cols << " to " << n);
          Array y(rows, n);
          const std::vector<OperandView> operands = {x.view(), order, y.view()};
          testing::run_kernel(KernelId::kGatherColumns, isa, team, operands, {}, nullptr);
          EXPECT_TRUE(y.same_bits(expected));
          y.expect_guards();
        }
    }
}

TEST(Tap, CopiesBits) {
  std::mt19937 random(kSeed);
  for (int64_t rows : kRowCounts) {
    Array x(rows, 33);
    x.randomise(random);
    for (Isa isa : testing::levels())
      for (int team : {1, 3}) {
        Array y(rows, 33, 0);
        const std::vector<OperandView> operands = {x.view(), y.view()};
        testing::run_kernel(KernelId::kTap, isa, team, operands, {}, nullptr);
        Array expected(rows, 33, 0);
        const std::vector<OperandView> reference = {x.view(), expected.view()};
        tap_ref({.operands = reference});
        EXPECT_TRUE(y.same_bits(expected));
      }
  }
}

}  // namespace
}  // namespace flare::kernel
