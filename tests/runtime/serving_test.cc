// models/nano served: page borders, batches, seeds and constraints over a whole prepared model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <latch>
#include <random>

#include "base/error.h"
#include "prepare/prepare.h"
#include "runtime/engine.h"
#include "runtime/forward.h"
#include "tests/support/collect.h"

namespace flare {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

const fs::path kNano = fs::path(FLARE_SOURCE_DIR) / "models/nano";

package::PreparedModel prepared(bool exact, uint32_t max_context, uint32_t max_concurrency,
                                uint32_t prefill_chunk, bool all_logits = false) {
  prepare::PrepareOptions options;
  options.kv_dtype = graph::DType::kBf16;
  options.exact = exact;
  options.max_context = max_context;
  options.max_concurrency = max_concurrency;
  options.prefill_chunk = prefill_chunk;
  options.all_logits = all_logits;
  return prepare::prepare(prepare::open_source(kNano, "", 2), options);
}

Ids some_tokens(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  Ids ids(n);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % 2000);
  return ids;
}

class PageBorders : public testing::Test {
 protected:
  PageBorders()
      : model_(prepared(/*exact=*/true, 1024, 2, 320)),
        runner_(model_, {{2, choose_isa("")}, {}, false}) {}

  // Reads `tokens` in pieces of `chunk` rows; returns the logits behind the last.
  std::vector<float> read(runtime::SequenceMemory& memory, std::span<const int32_t> tokens,
                          uint32_t chunk) {
    for (size_t at = 0; at < tokens.size(); at += chunk) {
      const runtime::StepEntry entry{
          &memory, tokens.subspan(at, std::min<size_t>(chunk, tokens.size() - at)), true};
      runner_.step({&entry, 1});
    }
    const auto row = runner_.logits(0);
    return {row.begin(), row.end()};
  }

  // Every key and value of the first n tokens, region by region, through the page table.
  std::vector<float> stored(const runtime::SequenceMemory& memory, uint32_t n) const {
    const package::PageLayout& page = model_.ranks[0].page;
    std::vector<float> out;
    for (const package::PageRegion& region : page.regions) {
      EXPECT_EQ(region.dtype, graph::DType::kF32);
      for (uint32_t first = 0; first < n; first += page.tokens) {
        // Rows of keys may lie by head inside a page; whole pages compare whatever the order.
        if (first + page.tokens > n) break;
        const auto* values = reinterpret_cast<const float*>(
            memory.page_table()[first / page.tokens] + region.offset);
        out.insert(out.end(), values, values + region.bytes / sizeof(float));
      }
    }
    return out;
  }

  static void expect_near(const std::vector<float>& got, const std::vector<float>& want,
                          const std::string& what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    double error = 0, norm = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += std::pow(static_cast<double>(got[i]) - want[i], 2);
      norm += std::pow(static_cast<double>(want[i]), 2);
    }
    // Chunks change the order of binary32 sums in the DeltaNet and nothing else: 84 ulp.
    constexpr double kChunkRms = 1e-5;
    EXPECT_LE(std::sqrt(error / norm), kChunkRms) << what;
  }

  package::PreparedModel model_;
  runtime::StepRunner runner_;
};

TEST_F(PageBorders, EveryCutStoresTheSamePagesAndGivesTheSameLogits) {
  const Ids tokens = some_tokens(300, 5);
  runtime::SequenceMemory whole = runner_.new_sequence();
  const std::vector<float> logits = read(whole, tokens, 300);
  const std::vector<float> pages = stored(whole, 300);
  ASSERT_EQ(pages.size(), 2 * model_.ranks[0].page.bytes / sizeof(float));
  for (uint32_t chunk : {1u, 7u, 64u, 127u, 128u, 129u, 300u}) {
    runtime::SequenceMemory memory = runner_.new_sequence();
    const std::string what = "chunks of " + std::to_string(chunk);
    expect_near(read(memory, tokens, chunk), logits, what);
    expect_near(stored(memory, 300), pages, what);
    EXPECT_EQ(memory.computed(), 300u);
    EXPECT_EQ(runner_.pages().used(), 4u);
  }
}

// Alone in its step and beside another sequence, from a page's beginning and from within one.
TEST_F(PageBorders, ARowKeptInPassingIsThatOfAStepWhichEndsThere) {
  const Ids tokens = some_tokens(320, 5), others = some_tokens(20, 8);
  const std::vector<float> logits = [&] {
    runtime::SequenceMemory memory = runner_.new_sequence();
    return read(memory, tokens, 320);
  }();
  const size_t row_bytes = model_.ranks[0].row.bytes;
  for (const uint32_t past : {0u, 100u, 128u})
    for (const uint32_t n_kept : {1u, 5u, 28u, 64u, 99u, 128u, 191u})
      for (const bool alone : {true, false}) {
        const std::string what = fmt::format("{} + {}, {}", past, n_kept, alone);
        runtime::SequenceMemory memory = runner_.new_sequence();
        if (past > 0) read(memory, std::span(tokens).first(past), 320);
        std::optional<runtime::SequenceMemory> other;
        std::vector<runtime::StepEntry> entries;
        std::vector<std::byte> other_row(row_bytes);
        if (!alone) {
          entries.push_back({&other.emplace(runner_.new_sequence()), others, false});
          if (n_kept % 2 == 0) {
            entries.back().kept = other_row.data();
            entries.back().n_kept = 7;
          }
        }
        std::vector<std::byte> row(row_bytes, std::byte{0xa5});
        entries.push_back({&memory, std::span(tokens).subspan(past, 192), true});
        entries.back().kept = row.data();
        entries.back().n_kept = n_kept;
        runner_.step(entries);
        other.reset();
        expect_near(read(memory, std::span(tokens).subspan(past + 192), 320), logits, what);
        const uint32_t frontier = past + n_kept;
        runtime::SequenceMemory again = runner_.new_sequence();
        again.adopt({memory.page_table(), frontier / model_.ranks[0].page.tokens}, row.data(),
                    frontier);
        expect_near(read(again, std::span(tokens).subspan(frontier), 320), logits, what);
      }
}

TEST_F(PageBorders, AReusedRowAndReusedPagesLeaveNoTrace) {
  const Ids tokens = some_tokens(200, 6), others = some_tokens(300, 7);
  std::vector<float> first;
  {
    runtime::SequenceMemory memory = runner_.new_sequence();
    first = read(memory, tokens, 64);
  }
  {
    runtime::SequenceMemory memory = runner_.new_sequence();
    read(memory, others, 64);
  }
  runtime::SequenceMemory memory = runner_.new_sequence();
  EXPECT_EQ(read(memory, tokens, 64), first);
}

// What `ignition bench` does between samples.
TEST_F(PageBorders, AStepBehindAMarkRepeatsBitForBit) {
  for (const uint32_t context : {100u, 127u, 128u, 250u}) {
    const Ids tokens = some_tokens(context + 40, 12);
    runtime::SequenceMemory memory = runner_.new_sequence();
    read(memory, std::span(tokens).first(context), 64);
    const auto mark = memory.mark();
    const auto last = std::span(tokens).subspan(context, 1);
    const std::vector<float> first = read(memory, last, 1);
    memory.return_to(mark);
    read(memory, std::span(tokens).subspan(context + 1), 39);  // other tokens, over a page's end
    memory.return_to(mark);
    EXPECT_EQ(read(memory, last, 1), first) << context;
  }
}

TEST_F(PageBorders, TwoSequencesInOneStepDoNotTouchEachOther) {
  const Ids a = some_tokens(260, 8), b = some_tokens(260, 9);
  std::vector<float> alone[2];
  for (int i = 0; i < 2; ++i) {
    runtime::SequenceMemory memory = runner_.new_sequence();
    alone[i] = read(memory, i == 0 ? a : b, 65);
  }
  runtime::SequenceMemory one = runner_.new_sequence(), two = runner_.new_sequence();
  for (size_t at = 0; at < 260; at += 65) {
    const runtime::StepEntry entries[] = {{&one, std::span(a).subspan(at, 65), true},
                                          {&two, std::span(b).subspan(at, 65), true}};
    runner_.step(entries);
  }
  for (int i = 0; i < 2; ++i) {
    const auto row = runner_.logits(i);
    expect_near({row.begin(), row.end()}, alone[i], "sequence " + std::to_string(i));
  }
}

// A prompt in pieces, with a row of another sequence between any two launches.
TEST_F(PageBorders, StepsBetweenTheLaunchesOfAPieceTouchNothingOfIt) {
  const Ids prompt = some_tokens(300, 14), answer = some_tokens(600, 15);
  runtime::SequenceMemory whole = runner_.new_sequence();
  const std::vector<float> logits = read(whole, prompt, 300), pages = stored(whole, 300);
  runtime::SequenceMemory one = runner_.new_sequence();
  size_t n_steps = 0;
  std::vector<float> last;
  {
    runtime::SequenceMemory other = runner_.new_sequence();
    for (size_t at = 0; at < prompt.size(); at += 60) {
      const runtime::StepEntry piece{&one, std::span(prompt).subspan(at, 60), true};
      ASSERT_LE(piece.tokens.size(), runner_.piece_rows());
      runner_.begin_piece({&piece, 1});
      while (!runner_.run_piece(0)) {
        EXPECT_EQ(one.computed(), at);
        ASSERT_LT(n_steps, answer.size());
        last = read(other, std::span(answer).subspan(n_steps++, 1), 1);
      }
      EXPECT_EQ(one.computed(), at + 60);
    }
    const auto row = runner_.logits(0);
    expect_near({row.begin(), row.end()}, logits, "a piece's logits");
    expect_near(stored(one, 300), pages, "a piece's pages");
  }
  ASSERT_GT(n_steps, 100u);
  runtime::SequenceMemory alone = runner_.new_sequence();
  EXPECT_EQ(read(alone, std::span(answer).first(n_steps), 1), last);
}

TEST(Forward, RefusesTokensThatCannotBeRead) {
  const auto model = prepared(true, 256, 1, 64, /*all_logits=*/true);
  runtime::StepRunner runner(model, {{1, choose_isa("")}, {}, true});
  const auto refusal = [&](const Ids& tokens) -> std::string {
    try {
      runtime::forward(runner, model, tokens, 64);
    } catch (const Error& e) {
      EXPECT_EQ(code_name(e.code()), code_name(Code::kUsage));
      return e.message();
    }
    return "no error";
  };
  EXPECT_NE(refusal({}).find("none given"), std::string::npos);
  EXPECT_NE(refusal({5, 2048}).find("2048 is outside 0..2047"), std::string::npos);
  EXPECT_NE(refusal(Ids(257, 1)).find("257 given, the context holds 256"), std::string::npos);
  EXPECT_EQ(runtime::forward(runner, model, Ids(256, 1), 1000).logits.size(), 256u * 2048);
}

runtime::Request request(Ids prompt, uint32_t max_tokens, float temperature, uint64_t seed = 0,
                         uint32_t choice = 0) {
  runtime::Request r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  r.sampling.temperature = temperature;
  r.sampling.seed = seed;
  r.sampling.choice = choice;
  r.ignore_stop_ids = true;
  return r;
}

runtime::EngineOptions engine_options(uint32_t chunk = 0) {
  runtime::EngineOptions options{{2, choose_isa("")}, {}, 300, chunk};
  options.pending_timeout = {};  // a machine may be slow
  return options;
}

void expect_nothing_left(runtime::Engine& engine) {
  EXPECT_TRUE(engine.drain(std::chrono::steady_clock::now() + std::chrono::minutes(2)));
  EXPECT_EQ(engine.stats().pages_used, 0u);
  EXPECT_EQ(engine.stats().running + engine.stats().waiting, 0u);
}

TEST(Serving, TheSameSeedGivesTheSameTokensAloneAndInABatch) {
  // Exact arithmetic: a row's bits do not depend on its neighbours by more than the last place, far
  // from any boundary that these draws meet.
  runtime::Engine engine(prepared(true, 512, 8, 64), engine_options());
  for (const float temperature : {0.0f, 1.0f}) {
    const auto one = [&](size_t i) {
      return request(some_tokens(20 + 17 * i, static_cast<uint32_t>(i)), 16, temperature, 11 * i);
    };
    std::vector<Ids> alone;
    for (size_t i = 0; i < 6; ++i) alone.push_back(test::collect(engine, one(i)).tokens);
    std::vector<test::Pending> batch;
    for (size_t i = 0; i < 6; ++i) batch.emplace_back(engine, one(i));
    for (size_t i = 0; i < 6; ++i)
      EXPECT_EQ(batch[i].wait().tokens, alone[i]) << i << " at temperature " << temperature;
  }
  expect_nothing_left(engine);
}

TEST(Serving, ChoicesOverOnePromptDrawDifferently) {
  runtime::Engine engine(prepared(false, 256, 4, 64), engine_options());
  std::vector<test::Pending> pending;
  for (uint32_t c = 0; c < 4; ++c)
    pending.emplace_back(engine, request(some_tokens(10, 3), 32, 1.5f, 99, c));
  std::vector<Ids> answers;
  for (test::Pending& p : pending) answers.push_back(p.wait().tokens);
  for (size_t a = 0; a < 4; ++a)
    for (size_t b = 0; b < a; ++b) EXPECT_NE(answers[a], answers[b]);
  expect_nothing_left(engine);
}

// Legal ids are the even ones.
class EvenIds final : public runtime::Constraint {
 public:
  bool fill_mask(std::span<uint32_t> mask) override {
    std::ranges::fill(mask, 0x55555555u);
    return true;
  }
  void advance(int32_t token) override { EXPECT_EQ(token % 2, 0); }
  void rollback(int) override {}
};

TEST(Serving, AConstraintHoldsForItsRequestOnly) {
  runtime::Engine engine(prepared(false, 256, 4, 64), engine_options());
  const Ids free_answer = test::collect(engine, request(some_tokens(12, 4), 20, 1.0f, 5)).tokens;
  auto r = request(some_tokens(12, 4), 20, 1.0f, 5);
  r.constraint = std::make_unique<EvenIds>();
  test::Pending constrained(engine, std::move(r));
  test::Pending beside(engine, request(some_tokens(12, 4), 20, 1.0f, 5));
  for (int32_t id : constrained.wait().tokens) EXPECT_EQ(id % 2, 0);
  EXPECT_TRUE(std::ranges::any_of(beside.wait().tokens, [](int32_t id) { return id % 2 == 1; }));
  EXPECT_EQ(free_answer.size(), 20u);
  expect_nothing_left(engine);
}

TEST(Serving, TheContextFillsUpAcrossPages) {
  runtime::Engine engine(prepared(false, 160, 2, 64), engine_options());
  for (const size_t n_prompt : {120u, 127u, 128u, 159u}) {
    auto r = request(some_tokens(n_prompt, 1), UINT32_MAX, 0);
    const test::Answer answer = test::collect(engine, std::move(r));
    EXPECT_EQ(answer.finished, runtime::FinishReason::kContext);
    EXPECT_EQ(answer.tokens.size(), 160 - n_prompt);
  }
  expect_nothing_left(engine);
}

TEST(Serving, ManyShortRequestsAllFinish) {
  runtime::Engine engine(prepared(false, 256, 8, 64), engine_options());
  std::vector<test::Pending> pending;
  for (uint32_t i = 0; i < 200; ++i)
    pending.emplace_back(engine, request(some_tokens(1 + i % 30, i), 1 + i % 8, 0.5f, i));
  for (uint32_t i = 0; i < 200; ++i) {
    const test::Answer answer = pending[i].wait();
    EXPECT_EQ(answer.finished, runtime::FinishReason::kLength) << answer.error;
    EXPECT_EQ(answer.tokens.size(), 1 + i % 8);
  }
  expect_nothing_left(engine);
}

// A model with recurrent state: after an edit no more is read than from the snapshot before it.
TEST(Serving, B016_B078_AnEditReadsTheChangedTailAndOneSnapshotIntervalAtMost) {
  constexpr uint32_t kInterval = 64, kLeastStep = 8;
  runtime::EngineOptions options = engine_options();
  options.memory.snapshots = 64;
  options.snapshot_interval = kInterval;
  runtime::Engine engine(prepared(true, 512, 2, 64), options);
  options.prefix_reuse = false;
  runtime::Engine cold(prepared(true, 512, 2, 64), options);
  Ids prompt = some_tokens(200, 21);
  const auto same_as_cold = [&](const Ids& ids) {
    const test::Answer answer = test::collect(engine, request(ids, 40, 0));
    EXPECT_EQ(answer.tokens, test::collect(cold, request(ids, 40, 0)).tokens);
    return answer;
  };
  uint32_t known = 0;
  for (int turn = 0; turn < 3; ++turn) {
    const test::Answer answer = same_as_cold(prompt);
    EXPECT_EQ(answer.usage.cached_tokens, known) << "turn " << turn;
    prompt.insert(prompt.end(), answer.tokens.begin(), answer.tokens.end());
    known = static_cast<uint32_t>(prompt.size()) - 1;
    for (int32_t id : some_tokens(11, 30)) prompt.push_back(id);
  }
  for (const uint32_t at : {300u, 255u, 217u, 130u, 70u}) {
    Ids edited = prompt;
    edited[at] = (edited[at] + 1) % 2000;
    const test::Answer answer = same_as_cold(edited);
    EXPECT_GE(answer.usage.cached_tokens + kInterval + kLeastStep, at);
    EXPECT_LE(answer.usage.cached_tokens, at);
  }
  expect_nothing_left(engine);
}

// Against the logits of the parity tool's way through the model, which has no engine.
TEST(Serving, LogprobsOfAPromptAreTheSoftmaxOfItsRows) {
  const Ids prompt = some_tokens(150, 50);
  const auto whole = prepared(true, 256, 1, 150, /*all_logits=*/true);
  runtime::StepRunner runner(whole, {{2, choose_isa("")}, {}, true});
  const std::vector<float> logits = runtime::forward(runner, whole, prompt, 150).logits;
  const size_t vocabulary = logits.size() / prompt.size();
  prepare::PrepareOptions options;
  options.exact = true;
  options.max_context = 256;
  options.max_concurrency = 3;
  options.prefill_chunk = 128;
  options.prompt_logits = 40;
  runtime::Engine engine(prepare::prepare(prepare::open_source(kNano, "", 2), options),
                         engine_options());
  test::Pending beside(engine, request(some_tokens(60, 51), 30, 0));
  auto asked = request(prompt, 4, 0);
  asked.sampling.prompt_logprobs = 5;
  const test::Answer answer = test::collect(engine, std::move(asked));
  EXPECT_EQ(beside.wait().tokens.size(), 30u);
  EXPECT_EQ(answer.tokens.size(), 4u);
  ASSERT_EQ(answer.prompt_logprobs.size(), prompt.size() - 1);
  for (size_t i = 0; i + 1 < prompt.size(); ++i) {
    const std::span<const float> row(logits.data() + i * vocabulary, vocabulary);
    double sum = 0;
    for (const float l : row) sum += std::exp(static_cast<double>(l));
    const auto logprob = [&](int32_t id) { return row[static_cast<size_t>(id)] - std::log(sum); };
    const runtime::TokenLogprobs& record = answer.prompt_logprobs[i];
    EXPECT_EQ(record.id, prompt[i + 1]);
    // Chunks of other lengths: see kChunkRms.
    EXPECT_NEAR(record.logprob, logprob(record.id), 1e-3) << i;
    ASSERT_EQ(record.top.size(), 5u);
    EXPECT_NEAR(record.top[0].second, *std::ranges::max_element(row) - std::log(sum), 1e-3) << i;
    for (const auto& [id, value] : record.top) EXPECT_NEAR(value, logprob(id), 1e-3) << i;
  }
  expect_nothing_left(engine);
}

// A folder's model with keys and values, kernels and activations as they are served.
package::PreparedModel served(const fs::path& folder, uint32_t max_concurrency,
                              uint32_t prefill_chunk) {
  prepare::PrepareOptions options;
  options.max_context = 448;
  options.max_concurrency = max_concurrency;
  options.prefill_chunk = prefill_chunk;
  return prepare::prepare(prepare::open_source(folder, "", 2), options);
}

runtime::EngineOptions deterministic(bool prefix_reuse) {
  runtime::EngineOptions options = engine_options();
  options.deterministic = true;
  options.prefix_reuse = prefix_reuse;
  options.memory.snapshots = prefix_reuse ? 64 : 0;
  options.snapshot_interval = 100;
  return options;
}

// Log-probabilities to the bit: a token alone would hide most of what differs.
class Deterministic : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!fs::exists(folder())) GTEST_SKIP() << folder() << " is absent";
  }
  static fs::path folder() { return fs::path(FLARE_SOURCE_DIR) / GetParam(); }

  struct Asked {
    Ids prompt;
    float temperature = 0;
    uint64_t seed = 0;
  };
  static runtime::Request request_of(const Asked& asked) {
    runtime::Request r = request(asked.prompt, 20, asked.temperature, asked.seed);
    r.sampling.top_logprobs = 0;
    return r;
  }
  static void expect_same(const test::Answer& got, const test::Answer& want,
                          const std::string& what) {
    EXPECT_EQ(got.tokens, want.tokens) << what;
    EXPECT_EQ(got.logprobs, want.logprobs) << what;
  }
};

TEST_P(Deterministic, B041_AnswersAreTheSameColdWarmAloneAndInABatch) {
  runtime::Engine cold(served(folder(), 1, 256), deterministic(false));
  const auto vocabulary = static_cast<int32_t>(cold.model().vocab_size);
  Ids base = some_tokens(300, 40);
  for (int32_t& id : base) id %= vocabulary;
  std::vector<Asked> asked;
  for (const size_t n : {5u, 20u, 63u, 64u, 65u, 100u, 128u, 130u, 193u, 257u, 300u}) {
    Asked a{Ids(base.begin(), base.begin() + static_cast<ptrdiff_t>(n)), 0, n};
    if (n % 3 == 1) a.prompt.back() = (a.prompt.back() + 1) % vocabulary;
    if (n % 2 == 1) a.temperature = 0.7f;
    asked.push_back(std::move(a));
  }
  std::vector<test::Answer> want;
  for (const Asked& a : asked) want.push_back(test::collect(cold, request_of(a)));
  // The next turns of some of them.
  for (size_t i = 2; i < 9; i += 2) {
    Asked next = asked[i];
    next.prompt.insert(next.prompt.end(), want[i].tokens.begin(), want[i].tokens.end());
    for (int32_t id : some_tokens(30, static_cast<uint32_t>(i)))
      next.prompt.push_back(id % vocabulary);
    want.push_back(test::collect(cold, request_of(next)));
    asked.push_back(std::move(next));
  }
  std::mt19937 random(41);
  for (const uint32_t chunk : {64u, 192u}) {
    runtime::Engine warm(served(folder(), 5, chunk), deterministic(true));
    uint64_t reused = 0;
    for (int round = 0; round < 3; ++round) {
      std::vector<size_t> order(asked.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::ranges::shuffle(order, random);
      std::vector<std::pair<size_t, test::Pending>> pending;
      for (size_t i : order) pending.emplace_back(i, test::Pending(warm, request_of(asked[i])));
      for (auto& [i, p] : pending) {
        const test::Answer got = p.wait();
        reused += got.usage.cached_tokens;
        expect_same(got, want[i],
                    fmt::format("chunk {} round {} request {} of {} tokens, {} cached", chunk,
                                round, i, asked[i].prompt.size(), got.usage.cached_tokens));
      }
    }
    EXPECT_GT(reused, 1000u);
    expect_nothing_left(warm);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Deterministic,
                         testing::Values("models/nano", "../shared/data/goldens/models/qwen3_5",
                                         "../shared/data/goldens/models/qwen3"));

// A recurrent model whose pages run out: who gives way is computed again, from a snapshot of its
// state or from the first token, and answers as if it had been alone.
TEST(Serving, FewPagesChangeNoAnswer) {
  const auto model = [] { return prepared(true, 384, 6, 64); };
  const auto one = [](size_t i) {
    return request(some_tokens(10 + 15 * i, static_cast<uint32_t>(i)), 260,
                   i % 2 == 0 ? 0.0f : 1.0f, 11 * i);
  };
  constexpr size_t kRequests = 6;
  std::vector<Ids> alone;
  runtime::MemoryPlan plan;
  {
    runtime::Engine engine(model(), engine_options());
    plan = engine.memory_plan();
    for (size_t i = 0; i < kRequests; ++i) alone.push_back(test::collect(engine, one(i)).tokens);
    EXPECT_EQ(engine.stats().preemptions, 0u);
  }
  plan.pages = 4;
  for (const uint32_t snapshots : {0u, 3u}) {
    runtime::EngineOptions options = engine_options();
    plan.snapshots = snapshots;
    options.plan = plan;
    options.audit = true;
    runtime::Engine engine(model(), options);
    std::vector<test::Pending> batch;
    for (size_t i = 0; i < kRequests; ++i) batch.emplace_back(engine, one(i));
    for (size_t i = 0; i < kRequests; ++i)
      EXPECT_EQ(batch[i].wait().tokens, alone[i]) << i << " with " << snapshots << " snapshots";
    expect_nothing_left(engine);
    EXPECT_GT(engine.stats().preemptions, 0u);
  }
}

TEST(Serving, ChoicesForkPagesAndRecurrentState) {
  for (const uint32_t snapshots : {0u, 3u}) {
    runtime::EngineOptions options = engine_options();
    options.memory.snapshots = snapshots;
    options.audit = true;
    runtime::Engine engine(prepared(true, 384, 4, 64), options);
    const Ids prompt = some_tokens(200, 3);
    const auto one = [&prompt](uint32_t c) { return request(prompt, 32, 1.0f, 99, c); };
    std::vector<Ids> answers(4);
    std::latch ended(4);
    std::vector<runtime::Request> group;
    for (uint32_t c = 0; c < 4; ++c) {
      group.push_back(one(c));
      group.back().on_event = [&answers, &ended, c](const runtime::Event& event) {
        answers[c].insert(answers[c].end(), event.tokens.begin(), event.tokens.end());
        if (event.finished) ended.count_down();
      };
    }
    EXPECT_EQ(engine.submit(std::move(group), nullptr), runtime::Admission::kAccepted);
    ended.wait();
    EXPECT_EQ(engine.stats().prompt_tokens, 200u);
    runtime::Engine other(prepared(true, 384, 4, 64), engine_options());
    for (uint32_t c = 0; c < 4; ++c)
      EXPECT_EQ(test::collect(other, one(c)).tokens, answers[c]) << c;
  }
}

}  // namespace
}  // namespace flare
