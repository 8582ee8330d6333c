// The CPU back end: ranges, refusal of bad plans, replay equal to the ops and free of allocation.
#include "kernel/backend.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>

#include "base/error.h"
#include "kernel/cpu/allocation_count.h"
#include "kernel/kernels.h"
#include "kernel/op_fixture.h"

namespace flare::kernel {
namespace {

using graph::Extent;
using graph::Io;
using graph::Operand;
using graph::Plan;
using graph::Space;

constexpr uint32_t kCols = 48;
constexpr int32_t kCapacity = 8;

Operand arena(uint64_t offset, uint32_t cols = kCols) {
  return {Space::kArena, graph::DType::kF32, Extent::kRows, 0, offset, cols, cols};
}
Operand io(Io index, graph::DType dtype, Extent extent, uint32_t cols) {
  return {Space::kIo, dtype, extent, static_cast<uint32_t>(index), 0, cols, cols};
}

void launch(Plan& plan, KernelId id, const std::vector<Operand>& operands,
            const std::vector<graph::Immediate>& immediates) {
  plan.launches.push_back({static_cast<uint16_t>(id), static_cast<uint32_t>(plan.operands.size()),
                           static_cast<uint32_t>(operands.size()),
                           static_cast<uint32_t>(plan.immediates.size()),
                           static_cast<uint32_t>(immediates.size())});
  plan.operands.insert(plan.operands.end(), operands.begin(), operands.end());
  plan.immediates.insert(plan.immediates.end(), immediates.begin(), immediates.end());
}

// x = W[id]; y = rms_norm(x); x += y; tap x.
struct Model {
  Model() {
    std::mt19937 random(4);
    table = testing::random_values(random, 10 * kCols, -1, 1);
    codec::Matrix w;
    codec::Segment segment;
    segment.object = reinterpret_cast<const std::byte*>(table.data());
    segment.geometry = {10, kCols};
    segment.format = codec::FormatId::kFp32;
    segment.row_end = 10;
    codec::append_segment(w, segment);
    weights.push_back(w);
    constants.push_back({1, kCols, testing::random_values(random, kCols, 0, 2)});
  }
  PlanBindings bindings() const { return {weights, constants}; }
  Plan plan() const {
    Plan p;
    p.role = "test.step";
    p.capacity = {kCapacity, kCapacity, kCapacity};
    const uint64_t bytes = kCapacity * kCols * sizeof(float);
    p.arena_bytes = 2 * bytes;
    p.taps = {"x"};
    launch(p, KernelId::kEmbed,
           {io(Io::kTokenIds, graph::DType::kI32, Extent::kRows, 1),
            {Space::kWeight, graph::DType::kU8, Extent::kOne, 0, 0, kCols, kCols},
            arena(0)},
           {graph::real(1)});
    launch(p, KernelId::kRmsNorm, {arena(0), {Space::kConst}, arena(bytes)},
           {graph::real(1e-6), graph::integer(0)});
    launch(p, KernelId::kAdd, {arena(0), arena(bytes), arena(0)}, {});
    launch(p, KernelId::kTap, {arena(0), io(Io::kTaps, graph::DType::kF32, Extent::kRows, kCols)},
           {});
    return p;
  }
  std::vector<float> table;
  std::vector<codec::Matrix> weights;
  std::vector<Constant> constants;
};

std::unique_ptr<Backend> backend(int threads, Isa isa = Isa::kV2) {
  return make_cpu_backend({.threads = threads, .isa = isa});
}

std::vector<float> replay(Backend& b, PlanInstance& instance, const std::vector<int32_t>& ids) {
  std::vector<float> out(ids.size() * kCols + 1, testing::kGuard);
  float* taps[] = {out.data()};
  StepInputs inputs;
  inputs.n_rows = static_cast<int32_t>(ids.size());
  inputs.token_ids = ids.data();
  inputs.taps = taps;
  b.replay(instance, inputs);
  EXPECT_EQ(out.back(), testing::kGuard);
  out.pop_back();
  return out;
}

// Values stay below 8, where half an ulp is 2^−22: a mean, a root, a quotient, a product and a sum.
constexpr double kTolerance = 5 * 0x1p-22;

TEST(CpuBackend, ReplayEqualsTheOpsForEveryLiveCountAndTeam) {
  const Model model;
  for (Isa isa : testing::levels()) {
    std::vector<std::vector<float>> first;
    for (int threads : {1, 2, 3}) {
      const auto b = backend(threads, isa);
      EXPECT_EQ(b->n_members(), threads);
      EXPECT_EQ(b->name(), "cpu " + std::string(isa_name(isa)));
      const auto instance = b->instantiate(model.plan(), model.bindings());
      size_t count = 0;
      for (size_t n : {0, 1, 3, kCapacity}) {
        std::vector<int32_t> ids(n);
        for (size_t i = 0; i < n; ++i) ids[i] = static_cast<int32_t>((i * 7 + 3) % 10);
        const std::vector<float> out = replay(*b, *instance, ids);
        for (size_t t = 0; t < n; ++t) {
          const float* x = model.table.data() + ids[t] * kCols;
          double sum = 0;
          for (uint32_t i = 0; i < kCols; ++i) sum += static_cast<double>(x[i]) * x[i];
          for (uint32_t i = 0; i < kCols; ++i) {
            const double y = x[i] / std::sqrt(sum / kCols + 1e-6) * model.constants[0].values[i];
            ASSERT_NEAR(out[t * kCols + i], x[i] + y, kTolerance);
          }
        }
        if (threads == 1) first.push_back(out);
        EXPECT_EQ(out, first[count]);
        ++count;
      }
    }
  }
}

TEST(CpuBackend, ReplayAllocatesNothing) {
  const Model model;
  for (int threads : {1, 3}) {
    const auto b = backend(threads);
    const auto instance = b->instantiate(model.plan(), model.bindings());
    const int32_t ids[] = {1, 2, 3};
    std::vector<float> out(3 * kCols);
    float* taps[] = {out.data()};
    StepInputs inputs;
    inputs.n_rows = 3;
    inputs.token_ids = ids;
    inputs.taps = taps;
    const int64_t before = testing::allocation_count();
    b->replay(*instance, inputs);
    b->replay(*instance, inputs);
    EXPECT_EQ(testing::allocation_count(), before);
  }
}

TEST(CpuBackend, TimesEveryLaunchOfAReplayThatIsTheSameOtherwise) {
  const Model model;
  const auto b = backend(2);
  const auto instance = b->instantiate(model.plan(), model.bindings());
  const std::vector<int32_t> ids = {4, 5, 6};
  const std::vector<float> want = replay(*b, *instance, ids);
  std::vector<float> out(want.size());
  float* taps[] = {out.data()};
  StepInputs inputs;
  inputs.n_rows = 3;
  inputs.token_ids = ids.data();
  inputs.taps = taps;
  std::vector<double> seconds(instance->plan().launches.size(), -1);
  const auto begin = std::chrono::steady_clock::now();
  b->replay_timed(*instance, inputs, seconds);
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(out, want);
  double sum = 0;
  for (const double s : seconds) {
    EXPECT_GE(s, 0);
    sum += s;
  }
  EXPECT_LE(sum, whole.count() * (1 + 1e-9));  // sums of binary64
}

TEST(CpuBackend, ATapThatNobodyAsksForIsSkipped) {
  const Model model;
  const auto b = backend(2);
  const auto instance = b->instantiate(model.plan(), model.bindings());
  const int32_t ids[] = {1};
  StepInputs inputs;
  inputs.n_rows = 1;
  inputs.token_ids = ids;
  b->replay(*instance, inputs);
}

TEST(CpuBackend, InstancesShareOneBufferOfTheLargestScratch) {
  const Model model;
  const auto b = backend(2);
  Plan large = model.plan();
  large.arena_bytes += 1 << 20;
  EXPECT_GE(b->scratch_bytes(large, model.bindings()),
            b->scratch_bytes(model.plan(), model.bindings()) + (1 << 20));
  const auto small = b->instantiate(model.plan(), model.bindings());
  const std::vector<float> before = replay(*b, *small, {4, 5});
  const auto other = b->instantiate(large, model.bindings());
  EXPECT_EQ(replay(*b, *other, {4, 5}), before);
  EXPECT_EQ(replay(*b, *small, {4, 5}), before);
}

// What instantiate says of a plan that `change` spoilt.
std::string refusal(void (*change)(Plan&)) {
  const Model model;
  Plan plan = model.plan();
  change(plan);
  try {
    backend(1)->instantiate(plan, model.bindings());
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInvalid);
    return e.message();
  }
  return "accepted";
}

TEST(CpuBackend, RefusesAPlanThatDoesNotFitItsKernels) {
  const auto expect = [](void (*change)(Plan&), std::string_view text) {
    const std::string message = refusal(change);
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  // Operands: 0 … 2 embed, 3 … 5 rms_norm, 6 … 8 add, 9 … 10 tap.
  expect([](Plan& p) { p.launches[0].kernel = kKernels; },
         fmt::format("kernel id {} is unknown", kKernels));
  expect([](Plan& p) { p.launches[1].n_operands = 2; }, "launch 1 (rms_norm): 2 operands, 3");
  expect([](Plan& p) { p.launches[1].n_immediates = 1; }, "1 immediates, 2 expected");
  expect([](Plan& p) { p.launches[3].first_operand = 10; }, "leave the 11 of the plan");
  expect([](Plan& p) { p.operands[8].offset = p.arena_bytes - 4; }, "launch 2 (add): operand 2");
  expect([](Plan& p) { p.arena_bytes -= 4; }, "leaves the arena");
  expect([](Plan& p) { p.operands[5].offset += 2; }, "a multiple of 4");
  expect([](Plan& p) { p.operands[5].stride = 8; }, "has stride 8");
  expect([](Plan& p) { p.operands[1].index = 1; }, "names weight 1 of 1");
  expect([](Plan& p) { p.operands[4].index = 7; }, "names constant 7 of 1");
  expect([](Plan& p) { p.operands[4].space = Space::kNone; }, "an f32 constant expected");
  expect([](Plan& p) { p.operands[0].index = 1; }, "is input or output 1, 0 expected");
  expect([](Plan& p) { p.operands[0].dtype = graph::DType::kF32; }, "i32 step indices expected");
  expect([](Plan& p) { p.operands[10].index = 8; }, "below 8 expected");
  expect([](Plan& p) { p.operands[7].cols = 40; }, "has 40 columns, 48 expected");
  expect([](Plan& p) { p.operands[7].extent = Extent::kLogits; }, "rows");
  expect([](Plan& p) { p.operands[2].cols = 47; }, "operand 2 has 47 columns, 48 expected");
  expect([](Plan& p) { p.capacity.rows = -1; }, "none negative");
  expect([](Plan& p) { p.capacity.rows = 9; }, "leaves the arena");
}

TEST(Range, BackedMemoryIsZeroAndReleasedMemoryIsZeroAgain) {
  constexpr uint64_t kGranule = 2 << 20;
  const auto b = backend(1);
  const auto range = b->reserve(8 * kGranule);
  EXPECT_EQ(range->bytes(), 8 * kGranule);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(range->base()) % 64, 0u);
  range->back(kGranule / 2, 3 * kGranule);
  std::byte* first = range->base() + kGranule / 2;
  for (uint64_t i = 0; i < 3 * kGranule; i += 4096) {
    ASSERT_EQ(first[i], std::byte{0});
    first[i] = std::byte{7};
  }
  // Granules 1 and 2 lie inside; the halves at the ends stay.
  range->release(kGranule / 2, 3 * kGranule);
  EXPECT_EQ(first[0], std::byte{7});
  range->back(0, 8 * kGranule);
  EXPECT_EQ(first[0], std::byte{7});
  for (uint64_t i = kGranule; i < 3 * kGranule; i += 4096)
    ASSERT_EQ(range->base()[i], std::byte{0});
}

TEST(Range, ReservingTakesNoMemoryAndTheImpossibleIsRefused) {
  const auto b = backend(1);
  const auto range = b->reserve(1ull << 40);
  range->back((1ull << 40) - 4096, 4096);
  range->base()[(1ull << 40) - 1] = std::byte{1};
  try {
    b->reserve(1ull << 62);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kDoesNotFit);
  }
  EXPECT_THROW(range->back(1ull << 40, 1), Error);
  EXPECT_THROW(range->release(0, (1ull << 40) + 1), Error);
}

}  // namespace
}  // namespace flare::kernel
