// Launches with optional operands that a plan may not have.
#include "kernel/check_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "kernel/kernels.h"
#include "kernel/linear.h"

namespace flare::kernel {
namespace {

using graph::DType;
using graph::Extent;
using graph::Operand;
using graph::Space;

Operand value(uint64_t place, uint32_t cols) {
  return {Space::kArena, DType::kF32, Extent::kRows, 0, place * 1024, cols, cols};
}
Operand constant(uint32_t index) { return {Space::kConst, DType::kF32, Extent::kOne, index}; }
Operand page(uint64_t offset, uint32_t cols) {
  return {Space::kPage, DType::kBf16, Extent::kOne, 0, offset, cols, cols};
}

Operand columns(uint32_t index) { return {Space::kConst, DType::kI32, Extent::kOne, index}; }

// One launch over a weight [32, 16], f32 constants 0 … 2 of 8, 16 and 32 columns and what `more`
// holds.
struct OneLaunch {
  KernelId kernel;
  std::vector<Operand> operands;
  std::vector<graph::Immediate> immediates;
  std::vector<Constant> more = {};

  // What check_plan says.
  std::string verdict() const {
    codec::Matrix weight;
    weight.rows = 32;
    weight.cols = 16;
    std::vector<Constant> constants;
    for (const int64_t n : {8, 16, 32})
      constants.push_back({1, n, std::vector<float>(static_cast<size_t>(n))});
    constants.insert(constants.end(), more.begin(), more.end());
    graph::Plan plan;
    plan.role = "test";
    plan.capacity = {4, 1, 1};
    plan.arena_bytes = 8192;
    plan.operands = operands;
    plan.immediates = immediates;
    plan.launches = {{static_cast<uint16_t>(kernel), 0, static_cast<uint32_t>(operands.size()), 0,
                      static_cast<uint32_t>(immediates.size())}};
    try {
      check_plan(plan, {{&weight, 1}, constants});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kInvalid);
      return e.message();
    }
    return "accepted";
  }
};

OneLaunch linear(LinearInput input, LinearOutput output) {
  const bool halves = takes_halves(output);
  OneLaunch l{KernelId::kLinearGeneric,
              {value(0, 16),
               {Space::kWeight, DType::kU8, Extent::kOne, 0, 0, 16, 16},
               constant(2),
               value(1, halves ? 16 : 32),
               {},
               {},
               {}},
              {graph::integer(0), graph::integer(static_cast<int64_t>(input)),
               graph::integer(static_cast<int64_t>(output)), graph::real(1e-6), graph::integer(1)}};
  if (input == LinearInput::kRmsNorm) l.operands[4] = constant(1);
  if (input == LinearInput::kGatedNorm) l.operands[4] = constant(0);
  if (input == LinearInput::kGatedNorm || input == LinearInput::kGateMul)
    l.operands[5] = value(2, 16);
  if (!halves) l.operands[6] = value(3, 32);
  return l;
}

template <typename Change>
void expect_refused(OneLaunch launch, Change change, std::string_view text) {
  EXPECT_EQ(launch.verdict(), "accepted");
  change(launch);
  const std::string verdict = launch.verdict();
  EXPECT_NE(verdict.find(text), std::string::npos) << verdict << "\nexpected: " << text;
}

TEST(CheckPlan, LinearHasTheOperandsOfItsEnds) {
  using enum LinearInput;
  const auto refused = [](LinearInput input, LinearOutput output, auto change,
                          std::string_view text) {
    expect_refused(linear(input, output), change, text);
  };
  const auto plain = LinearOutput::kPlain, swiglu = LinearOutput::kSwiglu,
             geglu = LinearOutput::kGeglu;
  refused(kRmsNorm, plain, [](auto& l) { l.operands[4] = {}; }, "operand 4 is absent");
  refused(kRmsNorm, plain, [](auto& l) { l.operands[4] = constant(0); }, "8 columns, 16 expected");
  refused(kPlain, plain, [](auto& l) { l.operands[4] = constant(1); }, "operand 4 is there");
  refused(kGatedNorm, swiglu, [](auto& l) { l.operands[4] = constant(2); }, "multiple of 32");
  refused(kGatedNorm, plain, [](auto& l) { l.operands[5] = {}; }, "operand 5 is absent");
  refused(kGateMul, plain, [](auto& l) { l.operands[5].cols = 8; }, "operand 5 has 8 columns");
  refused(kGateMul, plain, [](auto& l) { l.operands[5].extent = Extent::kLogits; }, "rows 'L'");
  refused(kGateMul, plain, [](auto& l) { l.operands[5] = l.operands[3]; }, "operand 5");
  refused(kRmsNorm, plain, [](auto& l) { l.operands[5] = value(2, 16); }, "operand 5 is there");
  refused(kPlain, swiglu, [](auto& l) { l.operands[3] = value(1, 32); }, "32 rows, 64 expected");
  refused(kPlain, swiglu, [](auto& l) { l.operands[6] = value(3, 16); }, "operand 6 is there");
  refused(kPlain, geglu, [](auto& l) { l.operands[3] = value(1, 32); }, "32 rows, 64 expected");
  refused(kPlain, geglu, [](auto& l) { l.operands[6] = value(3, 16); }, "operand 6 is there");
  refused(kPlain, plain, [](auto& l) { l.operands[6].cols = 16; }, "operand 6 has 16 columns");
  refused(kPlain, plain, [](auto& l) { l.operands[3].offset = 0; }, "place of operand 0");
  refused(kPlain, plain, [](auto& l) { l.immediates[0] = graph::integer(4); }, "0 to 3 expected");
  refused(kPlain, plain, [](auto& l) { l.immediates[1] = graph::integer(4); }, "0 to 3 expected");
  refused(kPlain, plain, [](auto& l) { l.immediates[2] = graph::integer(-1); }, "0 to 2 expected");
  refused(kPlain, plain, [](auto& l) { l.immediates[4] = graph::integer(2); }, "0 to 1 expected");
}

TEST(CheckPlan, AResidualMayBeTheOutput) {
  OneLaunch l = linear(LinearInput::kRmsNorm, LinearOutput::kPlain);
  l.operands[6] = l.operands[3];
  EXPECT_EQ(l.verdict(), "accepted");
}

// A number outside the input would read someone else's memory.
TEST(CheckPlan, GatheredColumnsAreColumnsOfTheInput) {
  const OneLaunch launch{KernelId::kGatherColumns,
                         {value(0, 16), columns(3), value(1, 4)},
                         {},
                         {{1, 4, {}, {15, 0, 3, 3}}}};
  const auto refused = [&](auto change, std::string_view text) {
    expect_refused(launch, change, text);
  };
  refused([](auto& l) { l.more[0].indices[2] = 16; }, "holds column 16, 0 to 15 expected");
  refused([](auto& l) { l.more[0].indices[0] = -1; }, "holds column -1, 0 to 15 expected");
  refused([](auto& l) { l.operands[0].cols = 15; }, "holds column 15, 0 to 14 expected");
  refused([](auto& l) { l.operands[2].cols = 3; }, "operand 2 has 3 columns, 4 expected");
  refused([](auto& l) { l.operands[2].extent = Extent::kLogits; }, "rows 'L'");
  refused([](auto& l) { l.operands[2].offset = 0; }, "place of operand 0");
  refused([](auto& l) { l.operands[1] = constant(0); }, "an i32 constant expected");
  refused([](auto& l) { l.operands[1] = columns(0); }, "names a constant of f32, i32 expected");
  refused([](auto& l) { l.operands[1] = columns(4); }, "names constant 4 of 4");
  refused([](auto& l) { l.more[0].cols = 5; }, "a constant of 4 values, 1 × 5 expected");
  refused([](auto& l) { l.more[0].values = {1, 2, 3, 4}; }, "a constant of 8 values, 1 × 4");
  refused([](auto& l) { l.more[0] = {2, 4, {}, {0, 1, 2, 3, 4, 5, 6, 7}}; },
          "operand 1 has 2 rows, 1 expected");
  refused([](auto& l) { l.immediates = {graph::integer(0)}; }, "1 immediates, 0 expected");
}

// The other way round: words of column numbers are no values.
TEST(CheckPlan, ColumnNumbersAreNoValues) {
  OneLaunch launch{KernelId::kRmsNorm,
                   {value(0, 8), constant(0), value(1, 8)},
                   {graph::real(1e-6), graph::integer(0)},
                   {{1, 8, {}, {0, 1, 2, 3, 4, 5, 6, 7}}}};
  EXPECT_EQ(launch.verdict(), "accepted");
  launch.operands[1] = columns(3);
  EXPECT_NE(launch.verdict().find("an f32 constant expected"), std::string::npos);
  launch.operands[1] = constant(3);
  EXPECT_NE(launch.verdict().find("a constant of i32, f32 expected"), std::string::npos);
}

TEST(CheckPlan, AttentionInputHasWholeHeads) {
  OneLaunch launch{// eight frequencies are too many for heads of eight
                   KernelId::kAttentionInput,
                   {value(0, 32),
                    value(1, 16),
                    value(2, 16),
                    page(0, 16),
                    page(1024, 16),
                    constant(0),
                    {},
                    constant(0),
                    {Space::kIo, DType::kI32, Extent::kRows,
                     static_cast<uint32_t>(graph::Io::kPositions), 0, 1, 1},
                    value(0, 32)},
                   {graph::integer(2), graph::integer(8), graph::real(1), graph::integer(0),
                    graph::integer(0), graph::real(1e-6), graph::integer(0)}};
  EXPECT_NE(launch.verdict().find("8 frequencies, at most 4"), std::string::npos);
  launch.operands[5] = {};
  launch.immediates[1] = graph::integer(16);
  launch.immediates[0] = graph::integer(1);
  const auto refused = [&](auto change, std::string_view text) {
    expect_refused(launch, change, text);
  };
  refused([](auto& l) { l.immediates[1] = graph::integer(32); }, "operand 1 has 16 columns, 32");
  refused([](auto& l) { l.operands[0].cols = 24; }, "heads of width 16");
  refused([](auto& l) { l.operands[1].cols = 8; }, "operand 1 has 8 columns, 16");
  refused([](auto& l) { l.operands[3].cols = 8; }, "operand 3 has 8 columns, 16");
  refused([](auto& l) { l.operands[4].cols = 8; }, "operand 4 has 8 columns, 16");
  refused([](auto& l) { l.operands[6] = constant(0); }, "operand 6 has 8 columns, 16");
  refused([](auto& l) { l.operands[2].extent = Extent::kLogits; }, "operand 2 has rows 'L'");
  refused([](auto& l) { l.operands[9] = value(1, 32); }, "place of operand 1");
  refused([](auto& l) { l.operands[9] = value(3, 16); }, "operand 9 has 16 columns, 32");
  refused([](auto& l) { l.immediates[6] = graph::integer(2); }, "0 to 1 expected");
}

TEST(CheckPlan, AttentionHasOneSinkForEveryQueryHead) {
  OneLaunch launch{
      KernelId::kAttention,
      {value(0, 32), page(0, 8), page(1024, 8), constant(0), value(1, 32)},
      {graph::integer(8), graph::integer(2), graph::real(0.5), graph::integer(0), graph::real(0)}};
  const auto refused = [&](auto change, std::string_view text) {
    expect_refused(launch, change, text);
  };
  refused([](auto& l) { l.operands[3] = constant(1); }, "operand 3 has 16 columns, 8");
  refused([](auto& l) { l.operands[2].cols = 16; }, "operand 2 has 16 columns, 8");
  refused([](auto& l) { l.operands[4].offset = 0; }, "place of operand 0");
  refused([](auto& l) { l.immediates[1] = graph::integer(3); }, "multiple of the 3 KV heads");
  refused([](auto& l) { l.immediates[3] = graph::integer(-1); }, "a window >= 0");
  refused([](auto& l) { l.immediates[4] = graph::real(-1); }, "a softcap 0 to 1e6");
  launch.operands[3] = {};
  EXPECT_EQ(launch.verdict(), "accepted");
  launch.operands[1].dtype = launch.operands[2].dtype = DType::kF8E4M3;
  EXPECT_EQ(launch.verdict(), "accepted");
}

}  // namespace
}  // namespace flare::kernel
