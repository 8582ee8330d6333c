// kv_write and attention at every vector level of this machine against their oracles.
#include "kernel/attention.h"

#include "base/case_sample_fixture.h"
#include "base/float_types.h"
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
// largest error seen is 2^−22.9.
constexpr double kTolerance = 0x1p-18;
// A softcap c is worked out as c·(1 − 2/(e^2x + 1)), which errs by some 2^−23 of c in the score.
constexpr double kCapTolerance = 0x1p-21;
// Level bf16 rounds queries and weights by 2^−9. A rounded query moves a score by the root of the
// sum of (qk·scale·2^−9/√3)², where qk is 1/3 in the root of the mean: 2^−10.4 at scale 2/√dk. A
// weight's own rounding is of the size 2^−9/√3 = 2^−9.8; together 2^−9.3. An output is a mean of
// values of spread 1/√3 with these weights: 2^−10.1 where one or two tokens dominate, less with
// more. Four to five times that: frozen at 2^−8. The largest error seen is 2^−9.2.
constexpr double kBf16Tolerance = 0x1p-8;

struct Case {
  std::vector<Sequence> sequences;
  int32_t page_tokens;
  int64_t nq;
  int64_t nkv;
  int64_t dk;
  int64_t dv;
  int64_t window = 0;
  double cap = 0;
  bool sinks = false;
  DType dtype = DType::kF32;
};
// Every ragged edge, with every element type.
std::vector<Case> cases() {
  const Case kinds[] = {
      {{}, 4, 2, 1, 8, 8},
      {{{0, 1}}, 4, 1, 1, 5, 3},
      {{{0, 2}, {3, 0}, {4, 5}}, 4, 4, 2, 16, 24},
      {{{7, 17}, {0, 64}, {31, 1}}, 4, 6, 2, 33, 20},
      {{{0, 130}}, 128, 8, 2, 64, 64},
      {{{100, 130}, {250, 3}}, 16, 3, 1, 24, 40, 37},
      {{{600, 1}, {1300, 2}, {255, 1}}, 128, 4, 2, 64, 80},
      {{{5000, 1}}, 128, 4, 2, 32, 32},
      {{{4090, 12}}, 128, 2, 1, 16, 16},
      {{{900, 20}}, 100, 4, 4, 16, 16, 300},
      {{{40, 3}}, 1, 40, 1, 12, 12},
      {{{50, 9}, {0, 3}}, 25, 5, 1, 64, 64},
      {{{127, 1}, {128, 1}, {0, 1}}, 128, 12, 4, 64, 128, 128, 0, true},
      {{{700, 70}, {0, 1}}, 64, 14, 2, 64, 32, 90, 5, true},
      {{{2000, 3}}, 256, 16, 2, 128, 64, 0, 3, false},
      {{{0, 40}, {61, 4}}, 32, 7, 1, 96, 96, 5, 0, true},
  };
  std::vector<Case> out;
  for (const Case& kind : kinds)
    for (DType dtype : {DType::kF32, DType::kBf16, DType::kF8E4M3}) {
      out.push_back(kind);
      out.back().dtype = dtype;
    }
  return out;
}
double tolerance(const Case& c, Isa isa) {
  const bool rounds = isa >= Isa::kBf16 && c.dtype != DType::kF32;
  return (rounds ? kBf16Tolerance : kTolerance) + c.cap * kCapTolerance;
}
// The vector levels, and that with bf16 products where the machine has it.
std::vector<Isa> levels() {
  std::vector<Isa> out = testing::levels();
  for (const Isa isa : {Isa::kBf16, Isa::kAmx})
    if (isa <= machine_isa().value_or(Isa::kV2)) out.push_back(isa);
  return out;
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
          graph::real(2 / std::sqrt(static_cast<double>(c.dk))), graph::integer(c.window),
          graph::real(c.cap)};
}

// What an attention launch takes besides its output.
struct Launch {
  Launch(const Case& c, Step& step, std::mt19937& random)
      : regions(regions_of(c)),
        q(step.inputs.n_rows, c.nq * c.dk),
        sinks(testing::random_values(random, c.nq, -2, 4)),
        immediates(immediates_of(c)) {
    fill_pages(step, c, regions, random);
    q.randomise(random);
    if (c.sinks) sink_view = testing::constant(sinks, 1, c.nq);
  }
  std::vector<OperandView> operands(Array& o) {
    return {q.view(), regions.k, regions.v, sink_view, o.view()};
  }
  Regions regions;
  Array q;
  std::vector<float> sinks;
  OperandView sink_view;
  std::vector<graph::Immediate> immediates;
};

TEST(KvWrite, WritesTheBitsOfTheOracleAndNothingElse) {
  SampledCases sample(2);
  for (const Case& c : cases()) {
    if (!sample.next()) continue;
    std::mt19937 random(sample.number());
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
  SampledCases sample(2);
  for (const Case& c : cases()) {
    if (!sample.next()) continue;
    std::mt19937 random(sample.number());
    Step step(c.sequences, c.page_tokens, regions_of(c).page_bytes, 0, random);
    Launch launch(c, step, random);
    Array expected(step.inputs.n_rows, c.nq * c.dv);
    const auto reference = launch.operands(expected);
    attention_ref({.operands = reference, .immediates = launch.immediates, .step = &step.inputs});
    for (Isa isa : levels()) {
      Array first;
      for (int team : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message()
                     << isa_name(isa) << " team " << team << " rows " << step.inputs.n_rows
                     << " dk " << c.dk << " " << graph::dtype_name(c.dtype));
        Array o(step.inputs.n_rows, c.nq * c.dv);
        testing::run_kernel(KernelId::kAttention, isa, team, launch.operands(o), launch.immediates,
                            &step.inputs);
        o.expect_near(expected, 0, tolerance(c, isa));
        o.expect_guards();
        if (team == 1) first = o;
        EXPECT_TRUE(o.same_bits(first));
      }
    }
  }
}

TEST(Attention, ARowAloneHasTheBitsItHasAmongOthers) {
  SampledCases sample(3);
  for (const Case& c : cases()) {
    if (!sample.next()) continue;
    std::mt19937 random(sample.number());
    Step step(c.sequences, c.page_tokens, regions_of(c).page_bytes, 0, random);
    Launch launch(c, step, random);
    for (Isa isa : levels()) {
      Array o(step.inputs.n_rows, c.nq * c.dv);
      testing::run_kernel(KernelId::kAttention, isa, 2, launch.operands(o), launch.immediates,
                          &step.inputs);
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
        std::vector<OperandView> single = launch.operands(alone);
        single[0].data = reinterpret_cast<std::byte*>(launch.q.row(t));
        single[0].rows = 1;
        testing::run_kernel(KernelId::kAttention, isa, 1 + t % 3, single, launch.immediates, &one);
        ASSERT_EQ(std::memcmp(alone.row(0), o.row(t), o.cols() * sizeof(float)), 0)
            << isa_name(isa) << " row " << t << " " << graph::dtype_name(c.dtype);
      }
    }
  }
}

// A window must not touch pages that lie wholly before it: they may be gone.
TEST(Attention, ReadsNoPageBeforeTheWindow) {
  std::mt19937 random(9);
  for (DType dtype : {DType::kF32, DType::kBf16, DType::kF8E4M3}) {
    const Case c{{{40, 3}}, 4, 2, 1, 8, 8, 6, 0, false, dtype};
    Step step(c.sequences, c.page_tokens, regions_of(c).page_bytes, 0, random);
    Launch launch(c, step, random);
    std::vector<std::byte*> pages = step.pages(0);
    for (size_t p = 0; p < 8; ++p) pages[p] = nullptr;  // tokens 0 … 31; row 40 sees 35 … 40
    std::byte* const* table = pages.data();
    step.inputs.page_tables = &table;
    Array expected(3, 16);
    const auto reference = launch.operands(expected);
    attention_ref({.operands = reference, .immediates = launch.immediates, .step = &step.inputs});
    for (Isa isa : levels()) {
      Array o(3, 16);
      testing::run_kernel(KernelId::kAttention, isa, 2, launch.operands(o), launch.immediates,
                          &step.inputs);
      o.expect_near(expected, 0, tolerance(c, isa));
    }
  }
}

// A page keeps what its former owner wrote; NaN there must not reach a row that does not see it.
TEST(Attention, WordsBehindTheLastTokenDoNotMatter) {
  std::mt19937 random(10);
  for (DType dtype : {DType::kF32, DType::kBf16, DType::kF8E4M3})
    for (int32_t past : {0, 32, 69}) {
      const Case c{{{past, 1}}, 128, 4, 2, 32, 32, 0, 0, false, dtype};
      Step step(c.sequences, c.page_tokens, regions_of(c).page_bytes, 0, random);
      std::fill(step.memory.begin(), step.memory.end(), std::byte{0xff});
      Launch launch(c, step, random);
      Array expected(1, c.nq * c.dv);
      const auto reference = launch.operands(expected);
      attention_ref({.operands = reference, .immediates = launch.immediates, .step = &step.inputs});
      for (Isa isa : levels()) {
        Array o(1, c.nq * c.dv);
        testing::run_kernel(KernelId::kAttention, isa, 1, launch.operands(o), launch.immediates,
                            &step.inputs);
        o.expect_near(expected, 0, tolerance(c, isa));
      }
    }
}

// A row that sees one token gives its value, whatever the code.
TEST(Attention, ReadsEveryFp8CodeExactly) {
  std::mt19937 random(11);
  const Case c{{{0, 1}}, 128, 1, 1, 32, 256, 0, 0, false, DType::kF8E4M3};
  Step step(c.sequences, c.page_tokens, regions_of(c).page_bytes, 0, random);
  Launch launch(c, step, random);
  std::byte* values = step.pages(0)[0] + launch.regions.v.offset;
  for (int64_t code = 0; code < 256; ++code) {
    const bool nan = (code & 0x7f) == 0x7f;
    store_le(values + value_element(c.dtype, c.page_tokens, c.dv, 0, code),
             static_cast<uint8_t>(nan ? 0 : code));
  }
  for (Isa isa : levels()) {
    Array o(1, c.dv);
    testing::run_kernel(KernelId::kAttention, isa, 1, launch.operands(o), launch.immediates,
                        &step.inputs);
    for (int code = 0; code < 256; ++code) {
      if ((code & 0x7f) == 0x7f) continue;
      ASSERT_EQ(o.row(0)[code], e4m3_to_f32(static_cast<uint8_t>(code))) << isa_name(isa);
    }
  }
}

}  // namespace
}  // namespace flare::kernel
