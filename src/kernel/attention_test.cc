// kv_write and attention at every vector level of this machine against their oracles.
#include "kernel/attention.h"

#include "kernel/kv_write.h"
#include "kernel/op_fixture.h"

namespace flare::kernel {
namespace {

using graph::DType;
using graph::Space;
using testing::Array;
using testing::Sequence;
using testing::Step;

// Values lie in [−1, 1]. A scaled score sums dk products in at least four running sums: it errs by
// at most (dk/4)·2^−24·Σ|qk|·scale, where the sum of magnitudes is about √dk/2: 2^−18 at dk = 64. A
// weight errs relatively by twice that, but roundings rarely add up: frozen at 2^−18 absolute. The
// largest error seen is 2^−22.9 (v2) and 2^−23 (v3, v4).
constexpr double kTolerance = 0x1p-18;

struct Case {
  std::vector<Sequence> sequences;
  int32_t page_tokens;
  int64_t nq;
  int64_t nkv;
  int64_t dk;
  int64_t dv;
  int64_t window;
  DType dtype;
};
std::vector<Case> cases() {
  return {
      {{}, 4, 2, 1, 8, 8, 0, DType::kF32},
      {{{0, 1}}, 4, 1, 1, 5, 3, 0, DType::kF32},
      {{{0, 2}, {3, 0}, {4, 5}}, 4, 4, 2, 16, 24, 0, DType::kBf16},
      {{{7, 17}, {0, 64}, {31, 1}}, 4, 6, 2, 33, 20, 0, DType::kBf16},
      {{{0, 130}}, 128, 8, 2, 64, 64, 0, DType::kBf16},
      {{{100, 130}, {250, 3}}, 16, 3, 1, 24, 40, 37, DType::kF32},
      {{{600, 1}, {1300, 2}, {255, 1}}, 128, 4, 2, 64, 80, 0, DType::kBf16},
      {{{5000, 1}}, 128, 4, 2, 32, 32, 0, DType::kBf16},
      {{{4090, 12}}, 128, 2, 1, 16, 16, 0, DType::kF32},
      {{{900, 20}}, 100, 4, 4, 16, 16, 300, DType::kBf16},
      {{{40, 3}}, 1, 40, 1, 12, 12, 0, DType::kF32},
      {{{0, 2}, {300, 1}, {4, 5}}, 4, 4, 2, 16, 24, 0, DType::kF8E4M3},
      {{{0, 130}, {200, 1}}, 128, 8, 2, 64, 64, 100, DType::kF8E4M3},
  };
}

struct Regions {
  OperandView k;
  OperandView v;
  uint64_t page_bytes;
};
Regions regions_of(const Case& c) {
  const uint64_t element = graph::dtype_bytes(c.dtype);
  const uint64_t k_offset = 64;
  const uint64_t v_offset = k_offset + (c.nkv * c.page_tokens * c.dk * element + 63) / 64 * 64;
  return {testing::state(Space::kPage, c.dtype, k_offset, c.nkv * c.dk),
          testing::state(Space::kPage, c.dtype, v_offset, c.nkv * c.dv),
          v_offset + c.nkv * c.page_tokens * c.dv * element};
}

// Fills every page with keys and values of all tokens: past ones through the writer's oracle too.
void fill_pages(Step& step, const Case& c, const Regions& regions, std::mt19937& random) {
  int64_t tokens = 0;
  for (const Sequence& s : c.sequences) tokens += s.past + s.rows;
  Array k(tokens, c.nkv * c.dk);
  Array v(tokens, c.nkv * c.dv);
  k.randomise(random);
  v.randomise(random);
  StepInputs all = step.inputs;
  std::vector<int32_t> begin = {0};
  std::vector<int32_t> owner;
  std::vector<int32_t> past(c.sequences.size(), 0);
  for (size_t b = 0; b < c.sequences.size(); ++b) {
    const int32_t n = c.sequences[b].past + c.sequences[b].rows;
    begin.push_back(begin.back() + n);
    owner.insert(owner.end(), n, static_cast<int32_t>(b));
  }
  all.n_rows = begin.back();
  all.sequence_begin = begin.data();
  all.sequence_past = past.data();
  all.row_sequence = owner.data();
  const std::vector<OperandView> operands = {k.view(), v.view(), regions.k, regions.v};
  const std::vector<graph::Immediate> heads = {graph::integer(c.nkv)};
  kv_write_ref({.operands = operands, .immediates = heads, .step = &all});
}

std::vector<graph::Immediate> immediates_of(const Case& c) {
  return {graph::integer(c.nq), graph::integer(c.nkv),
          graph::real(2 / std::sqrt(static_cast<double>(c.dk))), graph::integer(c.window)};
}

TEST(KvWrite, WritesTheBitsOfTheOracleAndNothingElse) {
  std::mt19937 random(3);
  for (const Case& c : cases()) {
    const Regions regions = regions_of(c);
    Step step(c.sequences, c.page_tokens, regions.page_bytes, 0, random);
    const auto blank = step.memory;
    Array k(step.inputs.n_rows, c.nkv * c.dk);
    Array v(step.inputs.n_rows, c.nkv * c.dv);
    k.randomise(random);
    v.randomise(random);
    if (k.rows() > 0) k.row(0)[0] = std::numeric_limits<float>::infinity();
    const std::vector<OperandView> operands = {k.view(), v.view(), regions.k, regions.v};
    const std::vector<graph::Immediate> heads = {graph::integer(c.nkv)};
    kv_write_ref({.operands = operands, .immediates = heads, .step = &step.inputs});
    const auto expected = step.memory;
    for (Isa isa : testing::levels())
      for (int team : {1, 2, 3}) {
        std::copy(blank.begin(), blank.end(), step.memory.begin());
        testing::run_kernel(KernelId::kKvWrite, isa, team, operands, heads, &step.inputs);
        EXPECT_TRUE(step.memory == expected) << isa_name(isa);
      }
  }
}

TEST(Attention, FollowsTheOracleWithTheSameBitsForEveryTeam) {
  std::mt19937 random(7);
  for (const Case& c : cases()) {
    const Regions regions = regions_of(c);
    Step step(c.sequences, c.page_tokens, regions.page_bytes, 0, random);
    fill_pages(step, c, regions, random);
    Array q(step.inputs.n_rows, c.nq * c.dk);
    q.randomise(random);
    Array expected(q.rows(), c.nq * c.dv);
    const auto immediates = immediates_of(c);
    const std::vector<OperandView> reference = {q.view(), regions.k, regions.v, expected.view()};
    attention_ref({.operands = reference, .immediates = immediates, .step = &step.inputs});
    for (Isa isa : testing::levels()) {
      Array first;
      for (int team : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message() << isa_name(isa) << " team " << team << " rows "
                                          << q.rows() << " dk " << c.dk);
        Array o(q.rows(), c.nq * c.dv);
        const std::vector<OperandView> operands = {q.view(), regions.k, regions.v, o.view()};
        testing::run_kernel(KernelId::kAttention, isa, team, operands, immediates, &step.inputs);
        o.expect_near(expected, 0, kTolerance);
        o.expect_guards();
        if (team == 1) first = o;
        EXPECT_TRUE(o.same_bits(first));
      }
    }
  }
}

TEST(Attention, ARowAloneHasTheBitsItHasAmongOthers) {
  std::mt19937 random(8);
  for (const Case& c : cases()) {
    const Regions regions = regions_of(c);
    Step step(c.sequences, c.page_tokens, regions.page_bytes, 0, random);
    fill_pages(step, c, regions, random);
    Array q(step.inputs.n_rows, c.nq * c.dk);
    q.randomise(random);
    const auto immediates = immediates_of(c);
    for (Isa isa : testing::levels()) {
      Array o(q.rows(), c.nq * c.dv);
      const std::vector<OperandView> operands = {q.view(), regions.k, regions.v, o.view()};
      testing::run_kernel(KernelId::kAttention, isa, 2, operands, immediates, &step.inputs);
      for (int32_t t = 0; t < step.inputs.n_rows; t += 1 + t % 3) {
        const int32_t b = step.inputs.row_sequence[t];
        StepInputs one = step.inputs;
        const int32_t begin[] = {0, 1};
        const int32_t owner[] = {0};
        const int32_t past[] = {step.inputs.sequence_past[b] + t - step.inputs.sequence_begin[b]};
        one.n_rows = one.n_sequences = 1;
        one.sequence_begin = begin;
        one.row_sequence = owner;
        one.sequence_past = past;
        one.page_tables = step.inputs.page_tables + b;
        Array alone(1, o.cols());
        OperandView row = q.view();
        row.data = reinterpret_cast<std::byte*>(q.row(t));
        row.rows = 1;
        const std::vector<OperandView> single = {row, regions.k, regions.v, alone.view()};
        testing::run_kernel(KernelId::kAttention, isa, 1 + t % 3, single, immediates, &one);
        ASSERT_EQ(std::memcmp(alone.row(0), o.row(t), o.cols() * sizeof(float)), 0)
            << isa_name(isa) << " row " << t;
      }
    }
  }
}

// A window must not touch pages that lie wholly before it: they may be gone.
TEST(Attention, ReadsNoPageBeforeTheWindow) {
  std::mt19937 random(9);
  const Case c{{{40, 3}}, 4, 2, 1, 8, 8, 6, DType::kF32};
  const Regions regions = regions_of(c);
  Step step(c.sequences, c.page_tokens, regions.page_bytes, 0, random);
  fill_pages(step, c, regions, random);
  std::vector<std::byte*> pages = step.pages(0);
  for (size_t p = 0; p < 8; ++p) pages[p] = nullptr;  // tokens 0 … 31; row 40 sees 35 … 40
  std::byte* const* table = pages.data();
  step.inputs.page_tables = &table;
  Array q(3, 16);
  q.randomise(random);
  Array expected(3, 16);
  const auto immediates = immediates_of(c);
  const std::vector<OperandView> reference = {q.view(), regions.k, regions.v, expected.view()};
  attention_ref({.operands = reference, .immediates = immediates, .step = &step.inputs});
  for (Isa isa : testing::levels()) {
    Array o(3, 16);
    const std::vector<OperandView> operands = {q.view(), regions.k, regions.v, o.view()};
    testing::run_kernel(KernelId::kAttention, isa, 2, operands, immediates, &step.inputs);
    o.expect_near(expected, 0, kTolerance);
  }
}

}  // namespace
}  // namespace flare::kernel
