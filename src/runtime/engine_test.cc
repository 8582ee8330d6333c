// The engine over the toy model: every way an answer ends, and what happens around it.
#include "runtime/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "base/error.h"
#include "runtime/engine_fixture.h"

namespace flare::runtime {
namespace {

using namespace test;

TEST(Engine, AnswersUntilMaxTokens) {
  Engine engine(toy_model(), kOptions);
  auto answer = start(engine, greedy({40, 7, 3}, 5));
  EXPECT_EQ(answer.tokens(), successors(3, 5));
  EXPECT_EQ(answer.reason(), FinishReason::kLength);
  EXPECT_EQ(answer.wait().usage.prompt_tokens, 3u);
  EXPECT_EQ(answer.wait().usage.generated_tokens, 5u);
  EXPECT_GE(answer.wait().timings.queue_ms, 0);
  EXPECT_GE(answer.wait().timings.prefill_ms, 0);
  EXPECT_GE(answer.wait().timings.decode_ms, 0);
  expect_nothing_left(engine);
  EXPECT_EQ(engine.stats().prompt_tokens, 3u);
  EXPECT_EQ(engine.stats().generated_tokens, 5u);
}

TEST(Engine, AnAnswerOfNothingReadsItsPrompt) {
  Engine engine(toy_model(), kOptions);
  // In pieces, in one, and as long as the context.
  for (const size_t n : {40u, 1u, 64u}) {
    auto answer = start(engine, greedy(Ids(n, 3), 0));
    EXPECT_EQ(answer.reason(), FinishReason::kLength);
    EXPECT_EQ(answer.tokens(), Ids{});
    EXPECT_EQ(answer.wait().usage.prompt_tokens, n);
    EXPECT_EQ(answer.wait().usage.generated_tokens, 0u);
    EXPECT_EQ(answer.wait().timings.decode_ms, 0);
  }
  expect_nothing_left(engine);
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.prompt_tokens + stats.cached_prompt_tokens, 105u);
  EXPECT_EQ(stats.generated_tokens, 0u);
  EXPECT_THROW(engine.submit(greedy(Ids(65, 3), 0), nullptr), Error);
}

// Later requests find what such a request has read.
TEST(Engine, AnAnswerOfNothingWarmsTheCache) {
  Engine engine(toy_model(), kOptions);
  const Ids prompt = successors(0, 50);
  start(engine, greedy(prompt, 0)).wait();
  auto answer = start(engine, greedy(prompt, 3));
  EXPECT_EQ(answer.tokens(), successors(50, 3));
  EXPECT_GE(answer.wait().usage.cached_tokens, 48u);
}

TEST(Engine, RulesOverSingleIdsActOnTheirAnswerAlone) {
  Engine engine(toy_model(), kOptions);
  TokenRules rules;
  rules.banned = {5};
  rules.bad_words = {{4, 0}, {4, 0, 1}};
  Request r = greedy({3}, 4);
  r.sampling.rules = std::make_shared<const TokenRules>(rules);
  // 4, then neither 5 (banned) nor 0 (behind 4), so 1; then on as ever.
  auto ruled = start(engine, std::move(r));
  auto free = start(engine, greedy({3}, 4));
  EXPECT_EQ(ruled.tokens(), (Ids{4, 1, 2, 3}));
  EXPECT_EQ(free.tokens(), successors(3, 4));
  r = greedy({3}, 3);
  rules = {};
  rules.bias = {{70, 9}};
  r.sampling.rules = std::make_shared<const TokenRules>(rules);
  EXPECT_EQ(start(engine, std::move(r)).tokens(), (Ids{70, 70, 70}));
  r = greedy({3}, 3);
  rules = {};
  rules.allowed = {4, 8, 9};
  r.sampling.rules = std::make_shared<const TokenRules>(rules);
  EXPECT_EQ(start(engine, std::move(r)).tokens(), (Ids{4, 4, 4}));
  r = greedy({3}, 20);
  r.stop_ids = {5};
  r.sampling.min_tokens = 3;
  // Not 5 as the second token; the third may be.
  auto longer = start(engine, std::move(r));
  EXPECT_EQ(longer.tokens(), (Ids{4, 0, 1, 2, 3, 4}));
  EXPECT_EQ(longer.wait().stop_id, 5);
}

// The toy's rows are known: one logit of 8, the others 0.
TEST(Engine, RecordsTheLogprobsOfEveryToken) {
  Engine engine(toy_model(), kOptions);
  const auto likely = static_cast<float>(8 - std::log(std::exp(8.0) + 99));
  const auto unlikely = static_cast<float>(0 - std::log(std::exp(8.0) + 99));
  for (int32_t top : {-1, 0, 3}) {
    Request r = greedy({3}, 20);
    r.sampling.top_logprobs = top;
    r.stop_ids = {8};
    std::vector<TokenLogprobs> records;
    auto answer = start(engine, std::move(r), nullptr, [&](const Event& e) {
      EXPECT_EQ(e.logprobs.size(), top < 0 ? 0 : e.tokens.size());
      for (size_t i = 0; i < e.logprobs.size(); ++i) EXPECT_EQ(e.logprobs[i].id, e.tokens[i]);
      records.insert(records.end(), e.logprobs.begin(), e.logprobs.end());
    });
    EXPECT_EQ(answer.tokens(), (Ids{4, 5, 6, 7}));
    ASSERT_EQ(records.size(), top < 0 ? 0u : 4u);
    for (const TokenLogprobs& record : records) {
      EXPECT_NEAR(record.logprob, likely, 1e-5);
      ASSERT_EQ(record.top.size(), static_cast<size_t>(top));
      if (top == 0) continue;
      EXPECT_EQ(record.top[0].first, record.id);
      EXPECT_EQ(record.top[1].first, 0);
      EXPECT_EQ(record.top[2].first, 1);
      EXPECT_EQ(record.top[0].second, record.logprob);
      EXPECT_NEAR(record.top[1].second, unlikely, 1e-5);
    }
  }
}

// Of the prompt 3 4 9 10 11 … all but 9 follow their predecessor.
TEST(Engine, RecordsTheLogprobsOfThePrompt) {
  const auto likely = static_cast<float>(8 - std::log(std::exp(8.0) + 99));
  const auto unlikely = static_cast<float>(0 - std::log(std::exp(8.0) + 99));
  Ids prompt = {3, 4};
  for (int32_t id : successors(8, 38)) prompt.push_back(id);
  for (const uint32_t rows : {1u, 5u, 100u}) {
    Engine engine(toy_model({.prompt_logits = rows}), kOptions);
    EXPECT_TRUE(engine.has_prompt_logprobs());
    for (const uint32_t max_tokens : {0u, 3u}) {
      for (int others = 0; others < 3; ++others) {  // the later ones find the prompt cached
        std::vector<TokenLogprobs> records;
        int n_events = 0;
        Request r = greedy(prompt, max_tokens);
        r.sampling.prompt_logprobs = 2;
        auto beside = start(engine, greedy({50}, 40));
        auto answer = start(engine, std::move(r), nullptr, [&](const Event& e) {
          n_events += !e.prompt_logprobs.empty();
          EXPECT_TRUE(e.prompt_logprobs.empty() || (e.tokens.empty() && !e.finished));
          if (!e.prompt_logprobs.empty()) records = e.prompt_logprobs;
          EXPECT_TRUE(e.logprobs.empty());
        });
        EXPECT_EQ(answer.tokens(), successors(46, static_cast<int>(max_tokens)));
        EXPECT_EQ(answer.wait().usage.cached_tokens, 0u);
        EXPECT_EQ(answer.wait().usage.generated_tokens, max_tokens);
        EXPECT_EQ(n_events, 1);
        EXPECT_EQ(beside.tokens(), successors(50, 40));
        ASSERT_EQ(records.size(), prompt.size() - 1);
        for (size_t i = 0; i < records.size(); ++i) {
          EXPECT_EQ(records[i].id, prompt[i + 1]);
          EXPECT_NEAR(records[i].logprob, i == 1 ? unlikely : likely, 1e-5) << i;
          ASSERT_EQ(records[i].top.size(), 2u);
          EXPECT_EQ(records[i].top[0].first, prompt[i] + 1);
        }
      }
    }
    expect_nothing_left(engine);
    EXPECT_EQ(engine.stats().generated_tokens, 3 * (3u + 2 * 40u));
  }
}

TEST(Engine, RefusesLogprobsOfPromptsThatItHasNoRowsFor) {
  Engine engine(toy_model(), kOptions);
  EXPECT_FALSE(engine.has_prompt_logprobs());
  Request r = greedy({3}, 1);
  r.sampling.prompt_logprobs = 0;
  EXPECT_THROW(engine.submit(std::move(r), nullptr), Error);
}

TEST(Engine, EndsAtAStopIdWithoutShowingIt) {
  Engine engine(toy_model(), kOptions);
  Request r = greedy({3}, 20);
  r.stop_ids = {99, 6};
  auto answer = start(engine, std::move(r));
  EXPECT_EQ(answer.tokens(), (Ids{4, 5}));
  EXPECT_EQ(answer.reason(), FinishReason::kStopId);
  EXPECT_EQ(answer.wait().stop_id, 6);
  EXPECT_EQ(answer.wait().usage.generated_tokens, 3u);
  r = greedy({3}, 20);
  r.stop_ids = {6};
  r.ignore_stop_ids = true;
  EXPECT_EQ(start(engine, std::move(r)).tokens(), successors(3, 20));
}

TEST(Engine, SaysWhenTheContextIsFull) {
  Engine engine(toy_model(), kOptions);
  for (int n_prompt : {1, 7, 8, 9, 62, 63}) {
    const Ids prompt(static_cast<size_t>(n_prompt), 5);
    auto answer = start(engine, greedy(prompt, UINT32_MAX));
    EXPECT_EQ(answer.reason(), FinishReason::kContext) << n_prompt;
    EXPECT_EQ(answer.tokens(), successors(5, 64 - n_prompt)) << n_prompt;
  }
  expect_nothing_left(engine);
}

TEST(Engine, RefusesPromptsThatCannotRunAndNamesTheNumbers) {
  Engine engine(toy_model(), kOptions);
  const auto refusal = [&](Ids prompt) -> std::string {
    try {
      engine.submit(greedy(std::move(prompt), 1), nullptr);
    } catch (const Error& e) {
      EXPECT_EQ(code_name(e.code()), code_name(Code::kInvalid));
      return e.message();
    }
    return "no error";
  };
  EXPECT_NE(refusal({}).find("empty"), std::string::npos);
  EXPECT_NE(refusal({1, 100}).find("100 is outside 0..99"), std::string::npos) << refusal({100});
  EXPECT_NE(refusal({-1}).find("-1 is outside 0..99"), std::string::npos) << refusal({-1});
  const std::string text = refusal(Ids(64, 1));
  EXPECT_NE(text.find("64 tokens"), std::string::npos) << text;
  EXPECT_NE(text.find("context of 64"), std::string::npos) << text;
  EXPECT_NE(refusal(Ids(1000, 1)).find("1000"), std::string::npos);
  expect_nothing_left(engine);
}

TEST(Engine, TheGateEndsAnAnswer) {
  std::vector<std::string> log;
  {
    Engine engine(toy_model(), kOptions);
    Request r = greedy({3}, 20);
    r.gate = std::make_unique<ScriptedGate>(6, &log);
    auto answer = start(engine, std::move(r));
    EXPECT_EQ(answer.tokens(), (Ids{4, 5}));
    EXPECT_EQ(answer.reason(), FinishReason::kStopped);
    expect_nothing_left(engine);
  }
  EXPECT_EQ(log, (std::vector<std::string>{"preview 4", "commit 1", "preview 5", "commit 1",
                                           "preview 6", "commit 0"}));
}

TEST(Engine, DrawsOnlyWhatTheConstraintAllows) {
  Ids seen_greedy, seen_random;
  Engine engine(toy_model(), kOptions);
  Request r = greedy({3}, 5);
  r.constraint = std::make_unique<ScriptedConstraint>([](int32_t id) { return id % 2 == 0; }, 100,
                                                      &seen_greedy);
  // 4 is the best; then every legal id has logit 0 and the lowest wins.
  EXPECT_EQ(start(engine, std::move(r)).tokens(), (Ids{4, 0, 0, 0, 0}));
  r = random_draws({3}, 40, 7);
  r.constraint = std::make_unique<ScriptedConstraint>([](int32_t id) { return id % 2 == 0; }, 100,
                                                      &seen_random);
  const Ids drawn = start(engine, std::move(r)).tokens();
  EXPECT_EQ(drawn.size(), 40u);
  EXPECT_TRUE(std::ranges::all_of(drawn, [](int32_t id) { return id % 2 == 0; }));
  expect_nothing_left(engine);
  engine.stop();
  EXPECT_EQ(seen_greedy, (Ids{4, 0, 0, 0, 0}));
  EXPECT_EQ(seen_random, drawn);
}

TEST(Engine, ADeadEndEndsTheAnswer) {
  Ids seen;
  Engine engine(toy_model(), kOptions);
  Request r = greedy({3}, 20);
  r.constraint = std::make_unique<ScriptedConstraint>([](int32_t) { return true; }, 2, &seen);
  auto answer = start(engine, std::move(r));
  EXPECT_EQ(answer.tokens(), (Ids{4, 5}));
  EXPECT_EQ(answer.reason(), FinishReason::kDeadEnd);
  EXPECT_EQ(answer.wait().usage.generated_tokens, 2u);
  expect_nothing_left(engine);
  EXPECT_EQ(engine.stats().generated_tokens, 2u);
}

class ThrowingGate final : public OutputGate {
 public:
  Verdict preview(std::span<const int32_t>) override { throw std::runtime_error("gate broke"); }
  void commit(int) override {}
};
class ThrowingConstraint final : public Constraint {
 public:
  bool fill_mask(std::span<uint32_t>) override { throw std::runtime_error("constraint broke"); }
  void advance(int32_t) override {}
  void rollback(int) override {}
};

TEST(Engine, ARequestWhoseGateConstraintOrSinkThrowsEndsAlone) {
  Engine engine(toy_model(), kOptions);
  Held held(engine, 20);
  Request gate = greedy({3}, 5), constraint = greedy({3}, 5);
  gate.gate = std::make_unique<ThrowingGate>();
  constraint.constraint = std::make_unique<ThrowingConstraint>();
  auto first = start(engine, std::move(gate));
  auto second = start(engine, std::move(constraint));
  auto third = start(engine, greedy({3}, 5), nullptr, [](const Event& e) {
    if (!e.finished && !e.admitted) throw std::runtime_error("sink broke");
  });
  auto good = start(engine, greedy({3}, 5));
  held.let_go();
  EXPECT_EQ(first.reason(), FinishReason::kFailed);
  EXPECT_EQ(first.wait().error, "gate broke");
  EXPECT_EQ(second.reason(), FinishReason::kFailed);
  EXPECT_EQ(second.wait().error, "constraint broke");
  EXPECT_EQ(third.reason(), FinishReason::kFailed);
  EXPECT_EQ(third.wait().error, "sink broke");
  EXPECT_EQ(good.tokens(), successors(3, 5));
  EXPECT_EQ(held.recorder().tokens(), successors(2, 20));
  expect_nothing_left(engine);
}

TEST(Engine, CancelsARunningRequest) {
  Engine engine(toy_model(), kOptions);
  Held held(engine, 50);
  held.ticket().cancel();
  held.let_go();
  EXPECT_EQ(held.recorder().reason(), FinishReason::kCancelled);
  EXPECT_EQ(held.recorder().tokens(), successors(2, 1));
  held.ticket().cancel();  // has ended already
  expect_nothing_left(engine);
}

TEST(Engine, CancelsAWaitingRequest) {
  Engine engine(toy_model({.max_concurrency = 1}), kOptions);
  Held held(engine, 3);
  Ticket ticket;
  auto waiting = start(engine, greedy({9}, 3), &ticket);
  auto behind = start(engine, greedy({20}, 3));
  ticket.cancel();
  held.let_go();
  EXPECT_EQ(waiting.reason(), FinishReason::kCancelled);
  EXPECT_EQ(waiting.tokens(), Ids{});
  EXPECT_EQ(behind.tokens(), successors(20, 3));
  expect_nothing_left(engine);
}

TEST(Engine, SaysOnceThatARequestIsAdmittedBeforeAnythingElse) {
  Engine engine(toy_model(), kOptions);
  std::mutex mutex;
  std::vector<std::pair<bool, size_t>> seen;
  for (int i = 0; i < 2; ++i) {
    const auto note = [&](const Event& e) {
      const std::lock_guard lock(mutex);
      seen.emplace_back(e.admitted, e.tokens.size());
      if (!e.admitted) return;
      EXPECT_EQ(e.usage.prompt_tokens, 30u);
      EXPECT_EQ(e.usage.cached_tokens, i == 0 ? 0u : 24u);
    };
    start(engine, greedy(successors(5, 30), 2), nullptr, note).wait();
  }
  const std::vector<std::pair<bool, size_t>> once{{true, 0}, {false, 1}, {false, 1}, {false, 0}};
  std::vector<std::pair<bool, size_t>> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  expect_nothing_left(engine);
  EXPECT_EQ(seen, twice);
}

TEST(Engine, TellsHowFarAPromptIsReadIfAsked) {
  Engine engine(toy_model(), kOptions);
  const Ids prompt = successors(5, 40);
  for (const bool asked : {false, true, true}) {
    std::vector<uint32_t> told;
    uint32_t cached = 0;
    size_t n_tokens = 0;
    Request request = greedy(prompt, 2);
    request.tells_progress = asked;
    start(engine, std::move(request), nullptr, [&](const Event& e) {
      cached = e.usage.cached_tokens;
      n_tokens += e.tokens.size();
      if (!e.progress) return;
      EXPECT_EQ(n_tokens, 0u);
      EXPECT_EQ(e.admitted, told.empty());
      EXPECT_GE(e.progress->ms, 0);
      told.push_back(e.progress->processed);
    }).wait();
    if (!asked) {
      EXPECT_TRUE(told.empty());
      continue;
    }
    ASSERT_GE(told.size(), 2u);
    EXPECT_EQ(told.front(), cached);
    EXPECT_EQ(told.back(), 40u);
    EXPECT_EQ(std::ranges::adjacent_find(told, std::greater_equal<>()), told.end());
  }
  std::mutex mutex;
  uint32_t n_told = 0;  // ends of the prompt
  std::vector<Recorder> answers(3);
  std::vector<Request> group;
  for (uint32_t c = 0; c < 3; ++c) {
    group.push_back(random_draws(c == 0 ? successors(9, 40) : Ids{}, 2, 77, c));
    group[c].tells_progress = true;
    group[c].on_event = answers[c].sink([&](const Event& e) {
      const std::lock_guard lock(mutex);
      n_told += e.progress && e.progress->processed == 40 ? 1 : 0;
    });
  }
  EXPECT_EQ(engine.submit(std::move(group), nullptr), Admission::kAccepted);
  for (Recorder& answer : answers) answer.wait();
  expect_nothing_left(engine);
  EXPECT_EQ(n_told, 1u);
}

// Prompts that come together are read before the first answer among them goes on; one that comes
// later is read beside answers, and so are all where answers may not wait.
TEST(Engine, WhoComesInACrowdWaitsForItsPromptsAlone) {
  for (const double slowdown : {1.0, 1000.0})
    for (const bool together : {false, true}) {
      EngineOptions options = kOptions;
      options.prefill_slowdown = slowdown;
      options.audit = true;
      Engine engine(toy_model({.prefill_chunk = 8}), options);
      std::mutex mutex;
      std::string order;
      const auto note = [&](char who) {
        return [&, who](const Event& e) {
          const std::lock_guard lock(mutex);
          if (!e.tokens.empty()) order += who;
        };
      };
      Recorder first, second;
      {
        std::optional<Held> held;
        if (together) held.emplace(engine, 1);
        std::latch begun(1);
        first = start(engine, greedy(successors(9, 4), 30), nullptr,
                      [&, noted = note('a'), told = false](const Event& e) mutable {
                        noted(e);
                        if (!e.tokens.empty() && !std::exchange(told, true)) begun.count_down();
                      });
        if (!together) begun.wait();
        second = start(engine, greedy(successors(50, 40), 3), nullptr, note('b'));
        if (together) {
          held->let_go();
          begun.wait();
        }
      }
      EXPECT_EQ(first.tokens(), successors(13, 30));
      EXPECT_EQ(second.tokens(), successors(90, 3));
      EXPECT_EQ(order.starts_with("ab"), together && slowdown > 1) << order;
      expect_nothing_left(engine);
    }
}

TEST(Engine, StepsOfSeveralPromptsAreNoLongerThanTheyNeedToBe) {
  Engine engine(toy_model({.max_context = 400, .prefill_chunk = 320}), kOptions);
  for (int i = 0; i < 4; ++i) start(engine, greedy(successors(10 * i, 300), 1)).wait();
  const uint64_t before = engine.stats().steps;
  {
    Recorder alone = start(engine, greedy(successors(50, 320), 1));
    alone.wait();
    EXPECT_EQ(engine.stats().steps, before + 1) << "what a step may take is known by now";
  }
  Held held(engine, 1);
  std::vector<Recorder> crowd;
  for (int i = 0; i < 3; ++i) crowd.push_back(start(engine, greedy(successors(60 + i, 100), 1)));
  held.let_go();
  for (Recorder& one : crowd) one.wait();
  EXPECT_EQ(engine.stats().steps, before + 1 + 1 + 3);
  expect_nothing_left(engine);
}

TEST(Engine, AdmitsByPriorityThenArrival) {
  Engine engine(toy_model({.max_concurrency = 1}), kOptions);
  std::mutex mutex;
  std::vector<int> order;
  Held held(engine);
  std::vector<Recorder> answers;
  for (const int priority : {0, -10, 10, 0, 10, -10, 1}) {
    const int name = static_cast<int>(answers.size());
    Request r = greedy({3}, 2);
    r.priority = priority;
    answers.push_back(start(engine, std::move(r), nullptr, [&, name](const Event& e) {
      const std::lock_guard lock(mutex);
      if (e.admitted) order.push_back(name);
    }));
  }
  held.let_go();
  for (Recorder& a : answers) a.wait();
  expect_nothing_left(engine);
  EXPECT_EQ(order, (std::vector<int>{2, 4, 6, 0, 3, 1, 5}));
}

void spin_until(std::chrono::steady_clock::time_point then) {
  while (std::chrono::steady_clock::now() < then) std::this_thread::yield();
}

TEST(Engine, ADeadlineEndsAWaitingRequestWithoutStartingIt) {
  Engine engine(toy_model({.max_concurrency = 1}), kOptions);
  Held held(engine, 3);
  Request late = greedy({9}, 3);
  late.deadline = std::chrono::steady_clock::now();
  std::atomic<bool> admitted{false};
  auto waiting =
      start(engine, std::move(late), nullptr, [&](const Event& e) { admitted = e.admitted; });
  Request in_time = greedy({20}, 3);
  in_time.deadline = soon();
  auto behind = start(engine, std::move(in_time));
  held.let_go();
  EXPECT_EQ(waiting.reason(), FinishReason::kDeadline);
  EXPECT_EQ(waiting.tokens(), Ids{});
  EXPECT_FALSE(admitted);
  EXPECT_EQ(behind.tokens(), successors(20, 3));
  EXPECT_EQ(held.recorder().tokens(), successors(2, 3));
  expect_nothing_left(engine);
}

// The machine decides how long a deadline must be to lie behind the first token.
TEST(Engine, ADeadlineEndsARunningRequestBehindWhatItHas) {
  Engine engine(toy_model(), kOptions);
  for (auto wait = std::chrono::milliseconds(1);; wait *= 2) {
    Request r = greedy({9}, 50);
    const auto deadline = std::chrono::steady_clock::now() + wait;
    r.deadline = deadline;
    auto answer = start(engine, std::move(r), nullptr, [&](const Event& e) {
      if (!e.tokens.empty()) spin_until(deadline);
    });
    EXPECT_EQ(answer.reason(), FinishReason::kDeadline);
    if (answer.tokens().empty()) continue;
    EXPECT_EQ(answer.tokens(), successors(9, 1));
    break;
  }
  expect_nothing_left(engine);
}

TEST(Engine, WhoWaitsTooLongIsSentAway) {
  for (auto wait = std::chrono::milliseconds(1);; wait *= 2) {
    EngineOptions options = kOptions;
    options.pending_timeout = wait;
    Engine engine(toy_model({.max_concurrency = 1}), options);
    std::latch both{2};
    auto first = start(engine, greedy({9}, 20), nullptr, [&](const Event& e) {
      if (!e.admitted) return;
      both.arrive_and_wait();
      spin_until(std::chrono::steady_clock::now() + wait);
    });
    auto second = start(engine, greedy({9}, 20));
    both.count_down();
    if (first.reason() == FinishReason::kQueueTimeout) continue;  // the machine was slower
    EXPECT_EQ(second.reason(), FinishReason::kQueueTimeout);
    EXPECT_EQ(second.tokens(), Ids{});
    EXPECT_EQ(first.tokens(), successors(9, 20)) << "who runs does not wait";
    expect_nothing_left(engine);
    break;
  }
}

TEST(Engine, ATicketOutlivesItsEngine) {
  Ticket ticket, copy, unused;
  {
    Engine engine(toy_model(), kOptions);
    auto answer = start(engine, greedy({1}, 2), &ticket);
    copy = ticket;
    answer.wait();
  }
  ticket.cancel();
  copy.cancel();
  unused.cancel();
}

TEST(Engine, BoundsItsQueue) {
  EngineOptions options = kOptions;
  options.max_pending = 2;
  Engine engine(toy_model({.max_concurrency = 2}), options);
  Held held(engine);
  // One runs; one more may, and two may wait.
  std::vector<Recorder> accepted;
  for (int i = 0; i < 3; ++i) {
    accepted.push_back(start(engine, greedy({30}, 2)));
    EXPECT_EQ(engine.stats().waiting, static_cast<uint32_t>(i + 1));
    EXPECT_EQ(engine.stats().queue_full, i == 2);
    EXPECT_EQ(engine.has_place(), i != 2);  // told while the engine's thread is held
  }
  EXPECT_EQ(engine.stats().running, 1u);
  EXPECT_TRUE(engine.stats().queue_full);
  Recorder refused;
  Request r = greedy({1}, 1);
  r.on_event = refused.sink();
  EXPECT_EQ(engine.submit(std::move(r), nullptr), Admission::kQueueFull);
  EXPECT_EQ(engine.stats().waiting, 3u);
  held.let_go();
  for (Recorder& a : accepted) EXPECT_EQ(a.tokens(), (Ids{31, 32}));
  EXPECT_EQ(refused.n_finishes(), 0u);
  EXPECT_FALSE(engine.stats().queue_full);
  EXPECT_TRUE(engine.has_place());
  start(engine, greedy({1}, 1)).wait();
  expect_nothing_left(engine);
}

TEST(Engine, APlaceIsFreeOnceTheLastEventWasSeen) {
  EngineOptions options = kOptions;
  options.max_pending = 0;
  Engine engine(toy_model({.max_concurrency = 1}), options);
  for (int i = 0; i < 100; ++i) start(engine, greedy({1}, 2)).wait();
  expect_nothing_left(engine);
}

TEST(Engine, DrainsWhatRunsAndTakesNothingNew) {
  Engine engine(toy_model({.max_concurrency = 1}), kOptions);
  Held held(engine, 10);
  auto waiting = start(engine, greedy({50}, 10));
  EXPECT_FALSE(engine.drain(std::chrono::steady_clock::now()));
  EXPECT_EQ(engine.submit(greedy({1}, 1), nullptr), Admission::kStopping);
  held.let_go();
  EXPECT_TRUE(engine.drain(soon()));
  EXPECT_EQ(held.recorder().n_finishes(), 1u);
  EXPECT_EQ(held.recorder().tokens(), successors(2, 10));
  EXPECT_EQ(waiting.n_finishes(), 1u);
  EXPECT_EQ(waiting.reason(), FinishReason::kCancelled) << "it had not begun";
  EXPECT_EQ(waiting.tokens(), Ids{});
  EXPECT_EQ(engine.stats().pages_used, 0u);
}

TEST(Engine, StoppingCancelsEverythingOnceAndTakesNothingNew) {
  Engine engine(toy_model({.max_concurrency = 2}), kOptions);
  std::vector<Recorder> answers;
  for (int i = 0; i < 10; ++i) answers.push_back(start(engine, greedy({1}, UINT32_MAX)));
  std::thread other([&] { engine.stop(); });
  engine.stop();
  other.join();
  for (Recorder& a : answers) {
    EXPECT_EQ(a.n_finishes(), 1u);
    EXPECT_TRUE(a.reason() == FinishReason::kCancelled || a.reason() == FinishReason::kContext);
  }
  EXPECT_EQ(engine.stats().running, 0u);
  EXPECT_EQ(engine.stats().waiting, 0u);
  EXPECT_EQ(engine.stats().pages_used, 0u);
  Recorder late;
  Request r = greedy({1}, 1);
  r.on_event = late.sink();
  EXPECT_EQ(engine.submit(std::move(r), nullptr), Admission::kStopping);
  EXPECT_TRUE(engine.drain(soon()));
  EXPECT_EQ(late.n_finishes(), 0u);
}

TEST(Engine, EveryCutOfThePromptGivesTheSameAnswer) {
  for (uint32_t chunk : {1u, 3u, 8u, 16u, 1000u}) {
    EngineOptions options = kOptions;
    options.prefill_chunk = chunk;
    Engine engine(toy_model(), options);
    Ids prompt(37, 1);
    prompt.back() = 70;
    EXPECT_EQ(start(engine, greedy(prompt, 9)).tokens(), successors(70, 9)) << chunk;
  }
}

TEST(Engine, TheSameSeedGivesTheSameTokensAloneAndInABatch) {
  const auto request = [](int i) {
    return random_draws({static_cast<int32_t>(i)}, 30, 1000 + static_cast<uint64_t>(i));
  };
  std::vector<Ids> alone;
  {
    Engine engine(toy_model({.sharpness = 1}), kOptions);
    for (int i = 0; i < 6; ++i) alone.push_back(start(engine, request(i)).tokens());
  }
  for (uint32_t chunk : {1u, 16u}) {
    EngineOptions options = kOptions;
    options.prefill_chunk = chunk;
    Engine engine(toy_model({.sharpness = 1}), options);
    std::vector<Recorder> batch;
    for (int i = 0; i < 6; ++i) batch.push_back(start(engine, request(i)));
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(batch[i].tokens(), alone[i]) << i;
  }
  EXPECT_NE(alone[0], alone[1]);
}

TEST(Engine, ChoicesOverOnePromptDrawDifferently) {
  Engine engine(toy_model({.sharpness = 1}), kOptions);
  std::vector<Recorder> choices;
  for (uint32_t c = 0; c < 4; ++c) choices.push_back(start(engine, random_draws({5}, 30, 77, c)));
  for (size_t a = 0; a < 4; ++a)
    for (size_t b = 0; b < a; ++b) EXPECT_NE(choices[a].tokens(), choices[b].tokens());
  EXPECT_EQ(start(engine, random_draws({5}, 30, 77, 2)).tokens(), choices[2].tokens());
}

TEST(Engine, TwoEnginesWorkAtOnce) {
  Engine one(toy_model(), kOptions), two(toy_model({.vocab = 50}), kOptions);
  std::vector<Recorder> ones, twos;
  for (int i = 0; i < 20; ++i) {
    ones.push_back(start(one, greedy({48}, 4)));
    twos.push_back(start(two, greedy({48}, 4)));
  }
  for (Recorder& a : ones) EXPECT_EQ(a.tokens(), (Ids{49, 50, 51, 52}));
  for (Recorder& a : twos) EXPECT_EQ(a.tokens(), (Ids{49, 0, 1, 2}));
  expect_nothing_left(one);
  expect_nothing_left(two);
}

TEST(Engine, ManyShortRequestsAllFinish) {
  EngineOptions options = kOptions;
  options.max_pending = 200;
  Engine engine(toy_model({.max_concurrency = 8}), options);
  std::vector<Recorder> answers;
  for (int i = 0; i < 200; ++i)
    answers.push_back(start(engine, greedy(Ids(static_cast<size_t>(1 + i % 40), i % 100),
                                           static_cast<uint32_t>(1 + i % 23))));
  for (int i = 0; i < 200; ++i)
    ASSERT_EQ(answers[static_cast<size_t>(i)].tokens(), successors(i % 100, 1 + i % 23)) << i;
  expect_nothing_left(engine);
}

TEST(Engine, AFailureEndsEveryRequestAndIsToldOnce) {
  std::atomic<bool> broken{false};
  std::atomic<int> told{0};
  EngineOptions options = kOptions;
  options.before_step = [&broken] {
    if (broken) throw std::runtime_error("a step broke");
  };
  options.on_failure = [&told] { ++told; };
  Engine engine(toy_model({.max_concurrency = 2}), options);
  Held held(engine, 20);
  std::vector<Recorder> answers;
  for (int i = 0; i < 4; ++i) answers.push_back(start(engine, greedy({3}, 20)));
  broken = true;
  held.let_go();
  EXPECT_EQ(held.recorder().reason(), FinishReason::kFailed);
  EXPECT_EQ(held.recorder().wait().error, "a step broke");
  for (Recorder& a : answers) EXPECT_EQ(a.reason(), FinishReason::kFailed);
  EXPECT_EQ(engine.submit(greedy({1}, 1), nullptr), Admission::kFailed);
  EXPECT_TRUE(engine.drain(soon()));
  EXPECT_TRUE(engine.stats().failed);
  EXPECT_TRUE(engine.has_failed());
  EXPECT_EQ(engine.stats().running, 0u);
  EXPECT_EQ(engine.stats().waiting, 0u);
  engine.stop();
  EXPECT_EQ(told, 1);
}

TEST(Engine, AModelWithoutPagedStateServesLongAnswers) {
  Engine engine(toy_model({.page_bytes = 0}), kOptions);
  EXPECT_EQ(engine.memory_plan().pages, 0u);
  EXPECT_EQ(start(engine, greedy({1}, 60)).tokens(), successors(1, 60));
  expect_nothing_left(engine);
}

TEST(Engine, AnEventMaySubmitTheNextRequest) {
  Recorder last;
  std::atomic<int> round{0};
  std::function<void(const Event&)> again;
  Engine engine(toy_model({.max_concurrency = 1}), kOptions);
  again = [&](const Event& e) {
    if (!e.finished) return;
    Request r = greedy({1}, 2);
    r.on_event = ++round < 10 ? again : last.sink();
    EXPECT_EQ(engine.submit(std::move(r), nullptr), Admission::kAccepted);
  };
  Request r = greedy({1}, 2);
  r.on_event = again;
  EXPECT_EQ(engine.submit(std::move(r), nullptr), Admission::kAccepted);
  EXPECT_EQ(last.tokens(), (Ids{2, 3}));
  EXPECT_EQ(round, 10);
  expect_nothing_left(engine);
}

TEST(Engine, ManyThreadsSubmitAndCancelAtOnce) {
  EngineOptions options = kOptions;
  options.max_pending = 1000;
  Engine engine(toy_model({.max_concurrency = 8}), options);
  std::vector<std::thread> threads;
  std::atomic<int> finished{0}, accepted{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        Ticket ticket;
        Request r = greedy({static_cast<int32_t>(t)}, 12);
        r.on_event = [&](const Event& e) { finished += e.finished.has_value(); };
        if (engine.submit(std::move(r), &ticket) == Admission::kAccepted) ++accepted;
        if (i % 3 == 0) ticket.cancel();
        engine.stats();
      }
    });
  for (std::thread& t : threads) t.join();
  expect_nothing_left(engine);
  EXPECT_EQ(accepted, 160);
  EXPECT_EQ(finished, 160);
}

TEST(Engine, RefusesCapacitiesThatCannotServe) {
  const auto refused = [](auto change, const std::string& word) {
    package::PreparedModel model = toy_model();
    change(model);
    try {
      Engine engine(std::move(model), kOptions);
      ADD_FAILURE() << "taken: " << word;
    } catch (const Error& e) {
      EXPECT_EQ(code_name(e.code()), code_name(Code::kInvalid)) << e.message();
      EXPECT_NE(e.message().find(word), std::string::npos) << e.message();
    }
  };
  refused([](auto& m) { m.capacity.max_concurrency = 0; }, "0 requests");
  refused([](auto& m) { m.capacity.prefill_chunk = 0; }, "0 prompt rows");
  refused([](auto& m) { m.capacity.max_rows = 4; }, "4 rows a step");
  refused([](auto& m) { m.capacity.max_context = 1; }, "1 tokens of context");
  refused([](auto& m) { m.capacity.max_rows = 21; }, "takes 20 rows");
  refused([](auto& m) { m.ranks[0].catalog[0].plan.capacity.sequences = 3; }, "3 sequences");
  refused([](auto& m) { m.ranks[0].catalog[0].plan.capacity.logits = 3; }, "3 logits rows");
}

TEST(Engine, StartsAndStopsWithoutWork) {
  for (int i = 0; i < 20; ++i) Engine(toy_model(), kOptions).stop();
}

}  // namespace
}  // namespace flare::runtime
