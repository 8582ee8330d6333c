// attention_input at every vector level: the bits of its parts in turn, and its oracle.
#include "kernel/attention_input.h"

#include "kernel/op_fixture.h"

namespace flare::kernel {
namespace {

using graph::DType;
using graph::Space;
using testing::Array;
using testing::Sequence;

// A normed value is below 8 with the cases' weights. Its relative error is that of the mean (two
// roundings for each of at most width/4 = 32 steps, halved by the root), of root, quotient and
// products; the rotation adds three (rope_test.cc).
constexpr double kTolerance = 8 * 48 * 0x1p-24;
constexpr uint64_t kOffset = 64;

struct Case {
  std::vector<Sequence> sequences;
  int32_t page_tokens;
  int64_t query_heads, kv_heads, width, half;
  bool q_norm, k_norm;
  int64_t offset;  // of the norms
};
const Case kCases[] = {
    {{{3, 1}}, 16, 16, 8, 128, 64, true, true, 0},
    {{{0, 0}}, 4, 1, 1, 2, 1, true, true, 0},
    {{{0, 7}, {14, 1}, {4, 3}}, 5, 3, 1, 26, 5, false, false, 0},
    {{{0, 17}}, 1, 2, 2, 96, 48, true, false, 1},
    {{{126, 5}, {0, 2}}, 128, 4, 2, 200, 100, false, true, 1},
};

uint64_t region_bytes(const Case& c, DType dtype) {
  return static_cast<uint64_t>(c.kv_heads * c.width * c.page_tokens) * graph::dtype_bytes(dtype);
}

struct Launch {
  Launch(const Case& c, DType dtype, std::mt19937& random)
      : shape(c),
        type(dtype),
        values_at((kOffset + region_bytes(c, dtype) + 63) / 64 * 64),
        step(c.sequences, c.page_tokens, values_at + region_bytes(c, dtype), 0, random),
        rows(step.inputs.n_rows),
        q(rows, c.query_heads * c.width),
        k(rows, c.kv_heads * c.width),
        v(rows, c.kv_heads * c.width) {
    for (Array* x : {&q, &k, &v}) x->randomise(random);
    q_weight = testing::random_values(random, c.width, 0, 2);
    k_weight = testing::random_values(random, c.width, 0, 2);
    for (int64_t i = 0; i < c.half; ++i)
      frequencies.push_back(static_cast<float>(std::pow(1e6, -static_cast<double>(i) / c.half)));
    positions.resize(3 * rows);
    for (int32_t& p : positions) p = static_cast<int32_t>(random() % 5000);
  }

  OperandView region(uint64_t offset) const {
    return testing::state(Space::kPage, type, offset, shape.kv_heads * shape.width);
  }
  OperandView norm(std::vector<float>& weight, bool wanted) {
    return wanted ? testing::constant(weight, 1, shape.width) : OperandView{};
  }
  std::vector<OperandView> operands(Array& from, Array& to) {
    return {from.view(),
            k.view(),
            v.view(),
            region(kOffset),
            region(values_at),
            norm(q_weight, shape.q_norm),
            norm(k_weight, shape.k_norm),
            testing::constant(frequencies, 1, shape.half),
            testing::indices(positions.data(), 3, rows),
            to.view()};
  }
  std::vector<graph::Immediate> immediates() const {
    return {graph::integer(shape.kv_heads),
            graph::integer(shape.width),
            graph::real(1.25),
            graph::integer(3),
            graph::integer(2),
            graph::real(1e-6),
            graph::integer(shape.offset)};
  }

  // The same by rms_norm, rope and kv_write.
  void run_apart(Isa isa, Array& to) {
    const auto im = immediates();
    const std::span<const graph::Immediate> all = im;
    const auto turn = [&](Array& from, std::vector<float>& weight, bool normed, Array& out) {
      Array* in = &from;
      if (normed) {
        const OperandView norm_operands[] = {in->view(), norm(weight, true), out.view()};
        testing::run_kernel(KernelId::kRmsNorm, isa, 1, norm_operands, all.subspan(5, 2), nullptr);
        in = &out;
      }
      const OperandView rope_operands[] = {in->view(),
                                           testing::constant(frequencies, 1, shape.half),
                                           testing::indices(positions.data(), 3, rows), out.view()};
      testing::run_kernel(KernelId::kRope, isa, 1, rope_operands, all.subspan(1, 4), nullptr);
    };
    turn(q, q_weight, shape.q_norm, to);
    Array keys(rows, k.cols());
    turn(k, k_weight, shape.k_norm, keys);
    const OperandView write[] = {keys.view(), v.view(), region(kOffset), region(values_at)};
    testing::run_kernel(KernelId::kKvWrite, isa, 1, write, all.subspan(0, 1), &step.inputs);
  }

  const Case& shape;
  DType type;
  uint64_t values_at;
  testing::Step step;
  int64_t rows;
  Array q, k, v;
  std::vector<float> q_weight, k_weight, frequencies;
  std::vector<int32_t> positions;
};

TEST(AttentionInput, GivesTheBitsOfItsPartsInTurn) {
  std::mt19937 random(31);
  for (const Case& c : kCases)
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF8E4M3}) {
      Launch launch(c, dtype, random);
      const std::vector<std::byte> before = launch.step.memory;
      for (const Isa isa : testing::levels()) {
        Array expected(launch.rows, launch.q.cols());
        launch.run_apart(isa, expected);
        const std::vector<std::byte> pages = launch.step.memory;
        for (const int team : {1, 2, 3})
          for (const bool in_place : {false, true}) {
            SCOPED_TRACE(::testing::Message() << isa_name(isa) << " team " << team << " width "
                                              << c.width << " in place " << in_place);
            launch.step.memory = before;
            Array from = launch.q, other(launch.rows, launch.q.cols());
            Array& to = in_place ? from : other;
            testing::run_kernel(KernelId::kAttentionInput, isa, team, launch.operands(from, to),
                                launch.immediates(), &launch.step.inputs);
            EXPECT_TRUE(to.same_bits(expected));
            EXPECT_EQ(launch.step.memory, pages);
          }
        launch.step.memory = before;
      }
    }
}

TEST(AttentionInput, FollowsTheOracle) {
  std::mt19937 random(32);
  for (const Case& c : kCases) {
    Launch launch(c, DType::kF32, random);
    const std::vector<std::byte> before = launch.step.memory;
    Array expected(launch.rows, launch.q.cols());
    attention_input_ref({.operands = launch.operands(launch.q, expected),
                         .immediates = launch.immediates(),
                         .step = &launch.step.inputs});
    const std::vector<std::byte> pages = launch.step.memory;
    for (const Isa isa : testing::levels()) {
      launch.step.memory = before;
      Array q(launch.rows, launch.q.cols());
      testing::run_kernel(KernelId::kAttentionInput, isa, 2, launch.operands(launch.q, q),
                          launch.immediates(), &launch.step.inputs);
      q.expect_near(expected, 0, kTolerance);
      q.expect_guards();
      // Pages hold nothing but f32 values and zeros.
      const auto* want = reinterpret_cast<const float*>(pages.data());
      const auto* got = reinterpret_cast<const float*>(launch.step.memory.data());
      for (size_t i = 0; i < pages.size() / 4; ++i) ASSERT_NEAR(got[i], want[i], kTolerance);
    }
  }
}

}  // namespace
}  // namespace flare::kernel
