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

// What rows point at.
struct Lists {
  std::vector<int32_t> history, banned;
  std::vector<uint32_t> mask;
  std::vector<LogitChange> bias, extra;
};

Lists random_lists(std::mt19937& random, int32_t vocabulary) {
  Lists lists;
  lists.history.resize(40);
  for (int32_t& id : lists.history) id = static_cast<int32_t>(random() % vocabulary);
  lists.mask.resize((vocabulary + 31) / 32);
  for (uint32_t& word : lists.mask) word = random();
  lists.mask[0] |= 1;
  // Quarters keep the ties; an id outside the row is skipped.
  for (int32_t id = 0; id <= vocabulary; ++id) {
    const uint32_t dice = random() % 40;
    const float value = static_cast<float>(random() % 33) / 4 - 4;
    if (dice == 0 && id > 0) lists.banned.push_back(id);
    if (dice == 1 || dice == 2) lists.bias.push_back({id, value});
    if (dice == 2 || dice == 3) lists.extra.push_back({id, value + 4});
  }
  return lists;
}

SampleParams random_params(std::mt19937& random, const Lists& lists, int32_t vocabulary) {
  const auto one_of = [&](std::initializer_list<double> values) {
    return static_cast<float>(values.begin()[random() % values.size()]);
  };
  SampleParams p;
  p.temperature = one_of({0, 0.3, 0.8, 1, 1, 3});
  p.top_k = static_cast<int32_t>(one_of({0, 0, -1, 1, 2, 20, 1000}));
  p.top_p = one_of({1, 1, 1, 0.95, 0.5, 0.01, 0});
  p.min_p = one_of({0, 0, 0, 0.05, 0.5, 1});
  p.typical_p = one_of({1, 1, 1, 0.95, 0.5, 0.1, 0});
  p.top_n_sigma = one_of({-1, -1, 0, 0.5, 1, 2.5});
  p.xtc_probability = one_of({0, 0, 0.5, 1});
  p.xtc_threshold = one_of({0.5, 0.1, 0.01, 0, 0.6});
  p.repetition_penalty = one_of({1, 1.1, 0.7});
  p.presence_penalty = one_of({0, 1.5, -0.5});
  p.frequency_penalty = one_of({0, 0.2});
  p.repeat_last_n = static_cast<int32_t>(one_of({-1, 0, 5, 64}));
  p.history = lists.history.data();
  p.n_history = static_cast<int32_t>(lists.history.size());
  p.n_prompt = p.n_history / 2;
  p.mask = random() % 3 == 0 ? lists.mask.data() : nullptr;
  p.bias = lists.bias.data();
  p.banned = lists.banned.data();
  p.extra = lists.extra.data();
  if (random() % 3 == 0) p.n_bias = static_cast<int32_t>(lists.bias.size());
  if (random() % 3 == 0) p.n_banned = static_cast<int32_t>(lists.banned.size());
  if (random() % 3 == 0) p.n_extra = static_cast<int32_t>(lists.extra.size());
  p.id_limit = random() % 3 == 0 ? vocabulary - vocabulary / 4 : 0;
  p.seed = random() * 0x100000001ull;
  p.choice = random() % 8;
  p.position = random();
  return p;
}

::testing::AssertionResult drew(int32_t got, int32_t want, const SampleParams& p) {
  if (got == want) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << got << " instead of " << want << " with t " << p.temperature << " k " << p.top_k
         << " typical " << p.typical_p << " p " << p.top_p << " min " << p.min_p << " sigma "
         << p.top_n_sigma << " xtc " << p.xtc_probability << " " << p.xtc_threshold << " rep "
         << p.repetition_penalty << " pre " << p.presence_penalty << " freq " << p.frequency_penalty
         << " last " << p.repeat_last_n << " bias " << p.n_bias << " banned " << p.n_banned
         << " extra " << p.n_extra << " mask " << (p.mask != nullptr);
}

TEST(Sample, DrawsWhatTheOracleDrawsInAnyBatch) {
  std::mt19937 random(77);
  for (int32_t vocabulary : {1, 7, 33, 500, 4001}) {
    const Lists lists = random_lists(random, vocabulary);
    constexpr int64_t kRows = 400;
    Array logits(kRows, vocabulary);
    logits.randomise(random, 8);
    // Quarters make ties among the larger vocabularies.
    for (int64_t r = 0; r < kRows / 2; ++r)
      for (int64_t i = 0; i < vocabulary; ++i)
        logits.row(r)[i] = std::round(logits.row(r)[i] * 4) / 4;
    std::vector<SampleParams> params;
    for (int64_t r = 0; r < kRows; ++r) params.push_back(random_params(random, lists, vocabulary));
    const std::vector<int32_t> want = expected(logits, params);
    for (Isa isa : testing::levels()) {
      for (int team : {1, 2, 3}) {
        const std::vector<int32_t> got = drawn(logits, params, isa, team);
        for (int64_t r = 0; r < kRows; ++r)
          EXPECT_TRUE(drew(got[r], want[r], params[r]))
              << isa_name(isa) << " team " << team << " V " << vocabulary << " row " << r;
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
  Array logits(7, 250000);
  logits.randomise(random, 0.5f);
  const std::vector<SampleParams> params = {
      {.temperature = 1, .seed = 5},
      {.temperature = 1, .top_p = 0.9f, .seed = 6},
      {.temperature = 2, .min_p = 0.3f, .seed = 7},
      {.temperature = 0.7f, .top_k = 20, .top_p = 0.95f, .seed = 8},
      {.temperature = 1, .typical_p = 0.9f, .seed = 9},
      {.temperature = 1, .top_p = 0.9f, .top_n_sigma = 1, .seed = 10},
      {.temperature = 1, .xtc_probability = 1, .xtc_threshold = 1e-5f, .seed = 11}};
  const std::vector<int32_t> want = expected(logits, params);
  // A flat distribution puts neighbouring ranks 4e-6 apart: the binary32 total of the kernel may
  // move a draw by a few ranks, so it is held to a logit, not to an id.
  constexpr double kRankTolerance = 25 * 4e-6;
  for (Isa isa : testing::levels()) {
    const std::vector<int32_t> got = drawn(logits, params, isa, 2);
    for (int i = 0; i < 7; ++i)
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
    const Lists lists = random_lists(random, vocabulary);
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
      params.push_back(random_params(random, lists, vocabulary));
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

double uniform_of(const SampleParams& p, DrawPurpose purpose) {
  const auto word = static_cast<uint32_t>(purpose);
  return (philox4x32_10(p.seed, p.choice, p.position, word, 0).word[0] + 0.5) * 0x1p-32;
}

// Holds every draw to the inverse of a distribution worked out by hand, so few draws prove it:
// `probability` [V] sums to 1, `values` [V] order the ids.
void check_distribution(const SampleParams& base, const std::vector<float>& values,
                        const std::vector<double>& probability) {
  constexpr int kDraws = 400;
  std::vector<int32_t> order;
  for (size_t i = 0; i < values.size(); ++i) order.push_back(static_cast<int32_t>(i));
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return values[a] > values[b]; });
  Array logits(kDraws, static_cast<int64_t>(values.size()), 0);
  std::vector<SampleParams> params(kDraws, base);
  for (int32_t r = 0; r < kDraws; ++r) {
    std::ranges::copy(values, logits.row(r));
    params[r].seed = 1234 + static_cast<uint64_t>(r) / 100;
    params[r].position = static_cast<uint32_t>(r);
  }
  for (Isa isa : testing::levels()) {
    const std::vector<int32_t> got = drawn(logits, params, isa);
    for (int32_t r = 0; r < kDraws; ++r) {
      const double u = uniform_of(params[r], DrawPurpose::kToken);
      double sum = 0;
      size_t rank = 0;
      bool near_border = false;
      for (; rank < order.size(); ++rank) {
        sum += probability[order[rank]];
        near_border |= std::abs(u - sum) < 3e-6;
        if (u <= sum && probability[order[rank]] > 0) break;
      }
      if (near_border) continue;
      ASSERT_LT(rank, order.size());
      EXPECT_EQ(got[r], order[rank]) << isa_name(isa) << " u " << u;
    }
  }
}

// Ids with these probabilities at temperature 1.
std::vector<float> logs(std::initializer_list<double> probabilities) {
  std::vector<float> values;
  for (double p : probabilities) values.push_back(static_cast<float>(std::log(p)));
  return values;
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
  const std::vector<float> values = logs({0.1, 0.4, 0.2, 0.3});
  check_distribution({.temperature = 1, .top_k = 3}, values, {0, 4.0 / 9, 2.0 / 9, 3.0 / 9});
  check_distribution({.temperature = 1, .top_k = 3, .top_p = 0.7f}, values,
                     {0, 4.0 / 7, 0, 3.0 / 7});
  check_distribution({.temperature = 1, .min_p = 0.4f}, values, {0, 4.0 / 9, 2.0 / 9, 3.0 / 9});
}

// The entropy of 0.5 0.25 0.125 0.0625 0.0625 is 1.875 bits; the surprises 1 2 3 4 4 bits are off
// by 0.875, 0.125, 1.125, 2.125 and 2.125, so ids leave in the order 1, 0, 2, 3, 4.
TEST(Sample, TypicalKeepsWhatIsNearestToTheEntropy) {
  const std::vector<float> values = logs({0.5, 0.25, 0.125, 0.0625, 0.0625});
  const auto check = [&](float typical, std::vector<double> p) {
    check_distribution({.temperature = 1, .typical_p = typical}, values, p);
  };
  check(0, {0, 1, 0, 0, 0});
  check(0.2f, {0, 1, 0, 0, 0});
  check(0.3f, {2.0 / 3, 1.0 / 3, 0, 0, 0});
  check(0.8f, {4.0 / 7, 2.0 / 7, 1.0 / 7, 0, 0});
  // Of equal ids the lower one stays.
  check(0.9f, {8.0 / 15, 4.0 / 15, 2.0 / 15, 1.0 / 15, 0});
  check(1, {0.5, 0.25, 0.125, 0.0625, 0.0625});
  // Of the three that top_k leaves, 4:2:1, the entropy is 1.3788 bits, the surprises 0.807, 1.807,
  // 2.807: id 1 is nearest, then 0. What follows works on what typical_p left.
  SampleParams p{.temperature = 1, .top_k = 3, .typical_p = 0.5f};
  check_distribution(p, values, {2.0 / 3, 1.0 / 3, 0, 0, 0});
  p.top_p = 0.6f;
  check_distribution(p, values, {1, 0, 0, 0, 0});
  // Without the likeliest id, min_p measures by the likeliest that is left.
  p = {.temperature = 1, .typical_p = 0.2f, .min_p = 0.9f};
  check_distribution(p, values, {0, 1, 0, 0, 0});
}

// Logits 4 3 1 0 have mean 2 and standard deviation 1.5811.
TEST(Sample, TopNSigmaCutsByTheSpreadOfTheLogitsLeft) {
  const std::vector<float> values = {0, 4, 3, 1};
  const double e4 = std::exp(4), e3 = std::exp(3), e1 = std::exp(1);
  const auto check = [&](float n, double temperature, std::vector<double> weights) {
    double sum = 0;
    for (double& w : weights) sum += w = w == 0 ? 0 : std::pow(w, 1 / temperature);
    for (double& w : weights) w /= sum;
    check_distribution({.temperature = static_cast<float>(temperature), .top_n_sigma = n}, values,
                       weights);
  };
  // It does not depend on temperature; 0 and below is off.
  for (double temperature : {0.5, 1.0, 2.0}) {
    check(0.6f, temperature, {0, e4, 0, 0});
    check(0.7f, temperature, {0, e4, e3, 0});
    check(1.8f, temperature, {0, e4, e3, 0});
    check(2, temperature, {0, e4, e3, e1});
    check(2.6f, temperature, {1, e4, e3, e1});
    check(0, temperature, {1, e4, e3, e1});
    check(-1, temperature, {1, e4, e3, e1});
  }
  // Banned ids have no part in the spread: 4 and 3 alone deviate by 0.5.
  const int32_t banned[] = {0, 3};
  SampleParams p{.temperature = 1, .banned = banned, .n_banned = 2};
  p.top_n_sigma = 1.9f;
  check_distribution(p, values, {0, 1, 0, 0});
  p.top_n_sigma = 2.1f;
  check_distribution(p, values, {0, e4 / (e4 + e3), e3 / (e4 + e3), 0});
}

TEST(Sample, XtcRemovesAllButTheLastOfTheLikely) {
  const std::vector<float> values = logs({0.1, 0.4, 0.2, 0.3});
  const auto check = [&](float threshold, std::vector<double> p) {
    check_distribution({.temperature = 1, .xtc_probability = 1, .xtc_threshold = threshold}, values,
                       p);
  };
  check(0.15f, {1.0 / 3, 0, 2.0 / 3, 0});
  check(0.25f, {1.0 / 6, 0, 2.0 / 6, 3.0 / 6});
  check(0.35f, {0.1, 0.4, 0.2, 0.3});  // one alone is never removed
  check(0.05f, {1, 0, 0, 0});
  check(0, {1, 0, 0, 0});
  check(0.51f, {0.1, 0.4, 0.2, 0.3});
  // What is left may be all but nothing of the whole.
  check_distribution({.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.4f},
                     {40, 0.5f, 40, 0}, {0, 0, 1, 0});
  check_distribution({.temperature = 1, .xtc_probability = 1, .xtc_threshold = 1e-18f},
                     {40, 0, 40, 0}, {0, 0, 0, 1});
  // After the other filters: of 4:3 that top_k left both are likely.
  check_distribution({.temperature = 1, .top_k = 2, .xtc_probability = 1, .xtc_threshold = 0.35f},
                     values, {0, 0, 0, 1});
  // Greedy is no draw.
  Array row = row_of(values);
  EXPECT_EQ(drawn(row, {{.xtc_probability = 1, .xtc_threshold = 0.1f}}, Isa::kV2)[0], 1);
}

// The coin has a counter of its own: it neither is the token's uniform nor shifts it.
TEST(Sample, XtcThrowsItsOwnCoin) {
  const std::vector<float> values = logs({0.5, 0.5});
  constexpr int kDraws = 300;
  Array logits(kDraws, 2, 0);
  std::vector<SampleParams> params;
  for (int32_t r = 0; r < kDraws; ++r) {
    std::ranges::copy(values, logits.row(r));
    params.push_back({.temperature = 1, .xtc_probability = 0.4f, .xtc_threshold = 0.3f, .seed = 9});
    params.back().position = static_cast<uint32_t>(r);
  }
  int n_applied = 0;
  for (Isa isa : testing::levels()) {
    const std::vector<int32_t> got = drawn(logits, params, isa);
    for (int32_t r = 0; r < kDraws; ++r) {
      const bool applies = uniform_of(params[r], DrawPurpose::kXtc) <= 0.4;
      const bool upper = uniform_of(params[r], DrawPurpose::kToken) > 0.5;
      n_applied += applies;
      EXPECT_EQ(got[r], applies || upper ? 1 : 0) << r;
    }
  }
  EXPECT_GT(n_applied, 60);
}

// Worked by hand, greedy, in the order of S8.1.
TEST(Sample, BiasComesBeforePenaltiesAndBansBeatEverything) {
  const int32_t history[] = {0, 2};
  const LogitChange up[] = {{1, 3}, {7, 50}, {-1, 50}}, first[] = {{0, 2}}, dry[] = {{2, 1.5f}};
  const int32_t banned[] = {2, 99, -5};
  for (Isa isa : testing::levels()) {
    Array a = row_of({2, 0.5f, 3, 1});
    EXPECT_EQ(drawn(a, {{}}, isa)[0], 2);
    EXPECT_EQ(drawn(a, {{.bias = up, .n_bias = 3}}, isa)[0], 1);
    EXPECT_EQ(drawn(a, {{.banned = banned, .n_banned = 3}}, isa)[0], 0);
    EXPECT_EQ(drawn(a, {{.extra = dry, .n_extra = 1}}, isa)[0], 0);
    // A ban is not lifted by a bias, and a bias does not unmask.
    const LogitChange back[] = {{2, 100}};
    EXPECT_EQ(drawn(a, {{.bias = back, .banned = banned, .n_bias = 1, .n_banned = 1}}, isa)[0], 0);
    const uint32_t mask[] = {0b1001};
    EXPECT_EQ(drawn(a, {{.bias = back, .n_bias = 1, .mask = mask}}, isa)[0], 0);
    // (2 + 2)/3 < 3/2, but 2/3 + 2 > 3/2: the bias is divided too.
    SampleParams p{.repetition_penalty = 3, .history = history, .n_history = 1, .n_prompt = 1};
    p.bias = first;
    p.n_bias = 1;
    Array b = row_of({2, 1.5f, 1, 1});
    EXPECT_EQ(drawn(b, {p}, isa)[0], 1);
    // The largest and smallest numbers stay numbers.
    const LogitChange most[] = {{0, FLT_MAX}}, least[] = {{0, FLT_MAX}, {1, FLT_MAX}};
    Array c = row_of({FLT_MAX, -FLT_MAX});
    EXPECT_EQ(drawn(c, {{.temperature = 1, .bias = most, .n_bias = 1}}, isa)[0], 0);
    EXPECT_EQ(drawn(c, {{.extra = least, .n_extra = 2}}, isa)[0], 0);
    Array d = row_of({-1, -1});
    EXPECT_EQ(drawn(d, {{.extra = least, .n_extra = 1}}, isa)[0], 1);
    EXPECT_GE(drawn(d, {{.temperature = 1, .extra = least, .n_extra = 2}}, isa)[0], 0);
  }
}

}  // namespace
}  // namespace flare::kernel
