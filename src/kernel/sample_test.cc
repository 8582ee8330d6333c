// The sampler: Philox against its published answers, draws against the oracle and against exact
// probabilities.
#include "kernel/sample.h"

#include <cfloat>

#include "kernel/op_fixture.h"
#include "kernel/sample_ref.h"

namespace flare::kernel {
namespace {

using testing::Array;

// Random123's kat_vectors, philox4x32 of ten rounds.
TEST(Philox, GivesTheKnownAnswers) {
  struct Answer {
    uint64_t key;
    uint32_t counter[4];
    uint32_t word[4];
  };
  const Answer answers[] = {
      {0, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {~0ull, {~0u, ~0u, ~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822ull,
       {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Answer& a : answers) {
    const Philox p = philox4x32_10(a.key, a.counter[0], a.counter[1], a.counter[2], a.counter[3]);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(p.word[i], a.word[i]);
  }
}

std::vector<OperandView> operands_of(Array& logits, std::vector<SampleParams>& params,
                                     std::vector<int32_t>& out) {
  OperandView p;
  p.space = graph::Space::kIo;
  p.dtype = graph::DType::kU8;
  p.data = reinterpret_cast<std::byte*>(params.data());
  p.rows = logits.rows();
  p.cols = p.stride = 1;
  return {logits.view(), p, testing::indices(out.data(), logits.rows())};
}

std::vector<int32_t> drawn(Array& logits, std::vector<SampleParams> params, Isa isa,
                           int n_members = 1) {
  std::vector<int32_t> out(logits.rows(), -99);
  const Array before = logits;
  testing::run_kernel(KernelId::kSample, isa, n_members, operands_of(logits, params, out), {},
                      nullptr);
  EXPECT_TRUE(logits.same_bits(before)) << "logits changed";
  return out;
}
std::vector<int32_t> expected(Array& logits, std::vector<SampleParams> params) {
  std::vector<int32_t> out(logits.rows(), -99);
  sample_ref({.operands = operands_of(logits, params, out)});
  return out;
}

Array row_of(const std::vector<float>& values) {
  Array a(1, static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), a.row(0));
  return a;
}

TEST(Sample, GreedyTakesTheLowestIdOfTheLargestValue) {
  for (Isa isa : testing::levels()) {
    std::vector<float> values(100, -3.0f);
    values[37] = values[38] = values[99] = 2;
    Array logits = row_of(values);
    EXPECT_EQ(drawn(logits, {{}}, isa)[0], 37);
    EXPECT_EQ(drawn(logits, {{.temperature = 1e-4f}}, isa)[0], 37);
    EXPECT_EQ(drawn(logits, {{.temperature = 5, .top_p = 0}}, isa)[0], 37);
    EXPECT_EQ(drawn(logits, {{.temperature = 5, .top_k = 1}}, isa)[0], 37);
    EXPECT_EQ(drawn(logits, {{.id_limit = 37}}, isa)[0], 0);
  }
}

TEST(Sample, ARowWithNothingLegalGivesMinusOne) {
  const std::vector<uint32_t> none(4, 0);
  const std::vector<uint32_t> high = {0, 0, 0, 0xffffffffu};
  const float inf = std::numeric_limits<float>::infinity();
  for (Isa isa : testing::levels())
    for (float temperature : {0.0f, 1.0f}) {
      Array logits = row_of(std::vector<float>(100, 1.0f));
      EXPECT_EQ(drawn(logits, {{.temperature = temperature, .mask = none.data()}}, isa)[0], -1);
      // Ids 96 … 99 are allowed by the mask and reserved by the limit.
      EXPECT_EQ(drawn(logits, {{.temperature = temperature, .mask = high.data(), .id_limit = 96}},
                      isa)[0],
                -1);
      EXPECT_EQ(drawn(logits, {{.temperature = temperature, .mask = high.data(), .id_limit = 97}},
                      isa)[0],
                96);
      Array dead = row_of({-inf, NAN, -inf});
      EXPECT_EQ(drawn(dead, {{.temperature = temperature}}, isa)[0], -1);
      Array one = row_of({-inf, NAN, -200, NAN, -inf});
      EXPECT_EQ(drawn(one, {{.temperature = temperature}}, isa)[0], 2);
    }
}

// Worked by hand: prompt 0 1, output 2 2 3.
TEST(Sample, PenaltiesSeeTheirPartOfTheHistory) {
  const int32_t history[] = {0, 1, 2, 2, 3};
  SampleParams p;
  p.history = history;
  p.n_history = 5;
  p.n_prompt = 2;
  for (Isa isa : testing::levels()) {
    // 4/2 = 2, 3/2, 2.5/2, 1.9/2 against 2.1 of id 4.
    SampleParams repetition = p;
    repetition.repetition_penalty = 2;
    Array a = row_of({4, 3, 2.5f, 1.9f, 2.1f});
    EXPECT_EQ(drawn(a, {repetition}, isa)[0], 4);
    // The last three entries do not reach the prompt.
    repetition.repeat_last_n = 3;
    EXPECT_EQ(drawn(a, {repetition}, isa)[0], 0);
    repetition.repeat_last_n = -1;
    EXPECT_EQ(drawn(a, {repetition}, isa)[0], 4);
    repetition.repeat_last_n = 0;
    EXPECT_EQ(drawn(a, {repetition}, isa)[0], 0);
    // A negative value is multiplied.
    repetition.repeat_last_n = 64;
    Array b = row_of({-1, -1.5f, -1.5f, -1.5f, -1.9f});
    EXPECT_EQ(drawn(b, {repetition}, isa)[0], 4);
    // Presence counts once, frequency each time; the prompt is free.
    SampleParams presence = p;
    presence.presence_penalty = 1;
    Array c = row_of({2, 1, 3.1f, 3.05f, 0});
    EXPECT_EQ(drawn(c, {presence}, isa)[0], 2);
    SampleParams frequency = p;
    frequency.frequency_penalty = 1;
    EXPECT_EQ(drawn(c, {frequency}, isa)[0], 3);
  }
}

SampleParams random_params(std::mt19937& random, const std::vector<int32_t>& history,
                           const std::vector<uint32_t>& mask, int32_t vocabulary) {
  const auto one_of = [&](std::initializer_list<double> values) {
    return static_cast<float>(values.begin()[random() % values.size()]);
  };
  SampleParams p;
  p.temperature = one_of({0, 0.3, 0.8, 1, 1, 3});
  p.top_k = static_cast<int32_t>(one_of({0, -1, 1, 2, 20, 1000}));
  p.top_p = one_of({1, 1, 0.95, 0.5, 0.01, 0});
  p.min_p = one_of({0, 0, 0.05, 0.5, 1});
  p.repetition_penalty = one_of({1, 1.1, 0.7});
  p.presence_penalty = one_of({0, 1.5, -0.5});
  p.frequency_penalty = one_of({0, 0.2});
  p.repeat_last_n = static_cast<int32_t>(one_of({-1, 0, 5, 64}));
  p.history = history.data();
  p.n_history = static_cast<int32_t>(history.size());
  p.n_prompt = p.n_history / 2;
  p.mask = random() % 3 == 0 ? mask.data() : nullptr;
  p.id_limit = random() % 3 == 0 ? vocabulary - vocabulary / 4 : 0;
  p.seed = random() * 0x100000001ull;
  p.choice = random() % 8;
  p.position = random();
  p.purpose = random() % 3;
  return p;
}

TEST(Sample, DrawsWhatTheOracleDrawsInAnyBatch) {
  std::mt19937 random(77);
  for (int32_t vocabulary : {1, 7, 33, 500, 4001}) {
    std::vector<int32_t> history(40);
    for (int32_t& id : history) id = static_cast<int32_t>(random() % vocabulary);
    std::vector<uint32_t> mask((vocabulary + 31) / 32);
    for (uint32_t& word : mask) word = random();
    mask[0] |= 1;
    constexpr int64_t kRows = 150;
    Array logits(kRows, vocabulary);
    logits.randomise(random, 8);
    // Quarters make ties among the larger vocabularies.
    for (int64_t r = 0; r < kRows / 2; ++r)
      for (int64_t i = 0; i < vocabulary; ++i)
        logits.row(r)[i] = std::round(logits.row(r)[i] * 4) / 4;
    std::vector<SampleParams> params;
    for (int64_t r = 0; r < kRows; ++r)
      params.push_back(random_params(random, history, mask, vocabulary));
    const std::vector<int32_t> want = expected(logits, params);
    for (Isa isa : testing::levels()) {
      for (int team : {1, 2, 3}) {
        const std::vector<int32_t> got = drawn(logits, params, isa, team);
        for (int64_t r = 0; r < kRows; ++r) {
          const SampleParams& p = params[r];
          EXPECT_EQ(got[r], want[r])
              << isa_name(isa) << " team " << team << " V " << vocabulary << " row " << r << " t "
              << p.temperature << " k " << p.top_k << " p " << p.top_p << " min " << p.min_p
              << " rep " << p.repetition_penalty << " pre " << p.presence_penalty << " freq "
              << p.frequency_penalty << " last " << p.repeat_last_n;
        }
      }
      for (int64_t r = 0; r < kRows; r += 29) {
        Array alone = row_of({logits.row(r), logits.row(r) + vocabulary});
        EXPECT_EQ(drawn(alone, {params[r]}, isa)[0], want[r]);
      }
    }
  }
}

TEST(Sample, ALargeFlatVocabularyFollowsTheOracle) {
  std::mt19937 random(78);
  Array logits(4, 250000);
  logits.randomise(random, 0.5f);
  const std::vector<SampleParams> params = {
      {.temperature = 1, .seed = 5},
      {.temperature = 1, .top_p = 0.9f, .seed = 6},
      {.temperature = 2, .min_p = 0.3f, .seed = 7},
      {.temperature = 0.7f, .top_k = 20, .top_p = 0.95f, .seed = 8}};
  const std::vector<int32_t> want = expected(logits, params);
  // A flat distribution puts neighbouring ranks 4e-6 apart: the binary32 total of the kernel may
  // move a draw by a few ranks, so it is held to a logit, not to an id.
  constexpr double kRankTolerance = 25 * 4e-6;
  for (Isa isa : testing::levels()) {
    const std::vector<int32_t> got = drawn(logits, params, isa, 2);
    for (int i = 0; i < 4; ++i)
      EXPECT_NEAR(logits.row(i)[got[i]], logits.row(i)[want[i]], kRankTolerance)
          << isa_name(isa) << i;
    EXPECT_EQ(got[3], want[3]);
  }
}

// Plain double precision over the whole row: what RowLogprobs must say.
RowLogprobs plain_logprobs(const float* logits, int64_t n, int32_t id, int32_t n_top) {
  const auto number = [&](int64_t i) {
    return logits[i] > -HUGE_VALF ? static_cast<double>(std::min(logits[i], FLT_MAX)) : -HUGE_VAL;
  };
  std::vector<int32_t> order;
  double top = -HUGE_VAL;
  for (int64_t i = 0; i < n; ++i) {
    if (number(i) > -HUGE_VAL) order.push_back(static_cast<int32_t>(i));
    top = std::max(top, number(i));
  }
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return number(a) > number(b); });
  double mass = 0;
  for (int32_t i : order) mass += std::exp(number(i) - top);
  const auto logprob = [&](int32_t i) {
    return static_cast<float>(number(i) - top - std::log(mass));
  };
  RowLogprobs out{};
  const bool possible = id >= 0 && id < n && number(id) > -HUGE_VAL;
  out.drawn = possible ? logprob(id) : -9999.0f;
  for (int32_t i : order)
    if (out.n_top < n_top) out.top[out.n_top++] = {i, logprob(i)};
  return out;
}

void expect_same(const RowLogprobs& got, const RowLogprobs& want) {
  // The kernel adds the row's mass in binary32 parts: 1e-6 of it.
  constexpr double kTolerance = 4e-6;
  EXPECT_NEAR(got.drawn, want.drawn, kTolerance);
  ASSERT_EQ(got.n_top, want.n_top);
  for (int i = 0; i < want.n_top; ++i) {
    EXPECT_EQ(got.top[i].id, want.top[i].id) << i;
    EXPECT_NEAR(got.top[i].logprob, want.top[i].logprob, kTolerance) << i;
  }
}

// Neither mask, penalties, temperature nor filters show in them, and they change no draw.
TEST(Sample, LogprobsAreThoseOfTheRawRow) {
  std::mt19937 random(79);
  const float inf = std::numeric_limits<float>::infinity();
  for (int32_t vocabulary : {1, 5, 33, 700, 20000}) {
    constexpr int64_t kRows = 40;
    std::vector<int32_t> history(20);
    for (int32_t& id : history) id = static_cast<int32_t>(random() % vocabulary);
    std::vector<uint32_t> mask((vocabulary + 31) / 32);
    for (uint32_t& word : mask) word = random();
    Array logits(kRows, vocabulary);
    logits.randomise(random, 6);
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t i = 0; i < vocabulary; ++i) {
        float& l = logits.row(r)[i];
        if (r % 2 == 0) l = std::round(l * 4) / 4;
        if (r % 5 == 4 && random() % 3 == 0) l = random() % 2 == 0 ? -inf : NAN;
      }
    std::vector<SampleParams> params;
    for (int64_t r = 0; r < kRows; ++r) {
      params.push_back(random_params(random, history, mask, vocabulary));
      if (r % 7 == 3) params.back().given = static_cast<int32_t>(random() % vocabulary);
    }
    for (Isa isa : testing::levels()) {
      std::vector<SampleParams> asking = params;
      std::vector<RowLogprobs> found(kRows);
      for (int64_t r = 0; r < kRows; ++r) {
        asking[r].logprobs = &found[r];
        asking[r].top_logprobs = static_cast<int32_t>(r % 21);
      }
      const std::vector<int32_t> ids = drawn(logits, asking, isa, 2);
      EXPECT_EQ(ids, drawn(logits, params, isa));
      for (int64_t r = 0; r < kRows; ++r) {
        SCOPED_TRACE(::testing::Message() << "V " << vocabulary << " row " << r);
        if (params[r].given >= 0) {
          EXPECT_EQ(ids[r], params[r].given);
        }
        const int64_t n = params[r].id_limit > 0 ? params[r].id_limit : vocabulary;
        expect_same(found[r], plain_logprobs(logits.row(r), n, ids[r], asking[r].top_logprobs));
      }
    }
  }
}

TEST(Sample, LogprobsOfNothingAreImpossible) {
  const float inf = std::numeric_limits<float>::infinity();
  for (Isa isa : testing::levels()) {
    RowLogprobs found{};
    Array dead = row_of({-inf, NAN, -inf});
    EXPECT_EQ(drawn(dead, {{.logprobs = &found, .top_logprobs = 3}}, isa)[0], -1);
    EXPECT_EQ(found.drawn, -9999.0f);
    EXPECT_EQ(found.n_top, 0);
    Array certain = row_of({-inf, inf, -inf});
    EXPECT_EQ(drawn(certain, {{.logprobs = &found, .top_logprobs = 3}}, isa)[0], 1);
    EXPECT_EQ(found.drawn, 0);
    EXPECT_EQ(found.n_top, 1);
    // A token that the row holds impossible, and a reserved one.
    drawn(certain, {{.logprobs = &found, .given = 0}}, isa);
    EXPECT_EQ(found.drawn, -9999.0f);
    drawn(certain, {{.id_limit = 2, .logprobs = &found, .given = 2}}, isa);
    EXPECT_EQ(found.drawn, -9999.0f);
  }
}

// Frequencies of draws at many counters against probabilities worked out here, by Pearson's χ².
void check_distribution(const SampleParams& base, const std::vector<float>& values,
                        const std::vector<double>& probability) {
  constexpr int kDraws = 20000;
  int freedom = -1;
  for (double p : probability) freedom += p > 0;
  // Six standard deviations above the mean of χ²: about 1e-7 for a right sampler.
  const double limit = freedom + 6 * std::sqrt(2.0 * freedom);
  for (Isa isa : testing::levels()) {
    Array logits(kDraws / 100, static_cast<int64_t>(values.size()), 0);
    for (int64_t r = 0; r < logits.rows(); ++r)
      std::copy(values.begin(), values.end(), logits.row(r));
    std::vector<int> count(values.size());
    for (uint32_t round = 0; round < 100; ++round) {
      std::vector<SampleParams> params(logits.rows(), base);
      for (size_t i = 0; i < params.size(); ++i) {
        params[i].seed = 1234 + round;
        params[i].position = static_cast<uint32_t>(i);
      }
      for (int32_t id : drawn(logits, params, isa)) ++count[id];
    }
    double chi = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (probability[i] == 0) {
        EXPECT_EQ(count[i], 0) << i;
        continue;
      }
      const double want = probability[i] * kDraws;
      chi += (count[i] - want) * (count[i] - want) / want;
    }
    EXPECT_LT(chi, limit) << isa_name(isa);
  }
}

TEST(Sample, DrawsFollowTheSoftmax) {
  std::vector<float> values;
  for (int i = 0; i < 40; ++i) values.push_back(static_cast<float>((i * 7) % 40) * 0.05f);
  std::vector<double> p;
  double sum = 0;
  for (float v : values) sum += std::exp(v / 0.8);
  for (float v : values) p.push_back(std::exp(v / 0.8) / sum);
  check_distribution({.temperature = 0.8f}, values, p);
}

// Probabilities 0.4 0.3 0.2 0.1: top_k 3 leaves 4:3:2; of that top_p 0.7 needs 0.444 + 0.333.
TEST(Sample, TopPActsOnWhatTopKLeft) {
  std::vector<float> values;
  for (double p : {0.1, 0.4, 0.2, 0.3}) values.push_back(static_cast<float>(std::log(p)));
  check_distribution({.temperature = 1, .top_k = 3}, values, {0, 4.0 / 9, 2.0 / 9, 3.0 / 9});
  check_distribution({.temperature = 1, .top_k = 3, .top_p = 0.7f}, values,
                     {0, 4.0 / 7, 0, 3.0 / 7});
  check_distribution({.temperature = 1, .min_p = 0.4f}, values, {0, 4.0 / 9, 2.0 / 9, 3.0 / 9});
}

}  // namespace
}  // namespace flare::kernel
