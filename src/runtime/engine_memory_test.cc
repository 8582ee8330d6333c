// The engine over the toy model where memory is short: pauses, shared prompts, cached prefixes.
#include <gtest/gtest.h>

#include <cstdio>
#include <latch>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/test_support.h"
#include "runtime/engine_fixture.h"

namespace flare::runtime {
namespace {

using namespace test;

TEST(Engine, FewPagesMakeRequestsGiveWayAndLaterGoOn) {
  for (const bool reuse : {true, false})
    for (const uint32_t snapshots : {0u, 3u})
      for (const uint32_t n_pages : {8u, 11u, 17u}) {
        FewPages few(n_pages, snapshots, reuse);
        std::vector<Recorder> answers;
        std::atomic<uint32_t> most{0};
        for (int i = 0; i < 24; ++i)
          answers.push_back(start(
              few.engine, greedy({static_cast<int32_t>(i)}, UINT32_MAX), nullptr,
              [&](const Event&) { most = std::max(most.load(), few.engine.stats().pages_used); }));
        for (int i = 0; i < 24; ++i) {
          EXPECT_EQ(answers[static_cast<size_t>(i)].tokens(), successors(i, 63));
          EXPECT_EQ(answers[static_cast<size_t>(i)].reason(), FinishReason::kContext);
        }
        expect_nothing_left(few.engine);
        EXPECT_GT(most, n_pages / 2);
        EXPECT_LE(most, n_pages);
        const EngineStats stats = few.engine.stats();
        EXPECT_GT(stats.preemptions, 0u);
        EXPECT_GT(stats.replayed_tokens, 0u);
        EXPECT_EQ(stats.prompt_tokens + stats.cached_prompt_tokens, 24u);
        EXPECT_EQ(stats.generated_tokens, 24u * 63u);
      }
}

// What a pause must not touch: the draws, the constraint, the gate, the events.
TEST(Engine, APausedRequestGoesOnAsIfNothingHadBeen) {
  const auto request = [](int i, Ids* advanced, std::vector<std::string>* log) {
    Request r = random_draws(successors(i, 5 + i), 40, 1000 + static_cast<uint64_t>(i));
    r.sampling.repetition_penalty = 1.3F;
    r.sampling.repeat_last_n = -1;
    r.constraint =
        std::make_unique<ScriptedConstraint>([](int32_t id) { return id % 3 != 0; }, 100, advanced);
    r.gate = std::make_unique<ScriptedGate>(-1, log);
    return r;
  };
  std::vector<Ids> alone;
  {
    Engine engine(toy_model({.sharpness = 1}), kOptions);
    for (int i = 0; i < 12; ++i) {
      Ids advanced;
      std::vector<std::string> log;
      alone.push_back(start(engine, request(i, &advanced, &log)).tokens());
    }
  }
  for (const uint32_t snapshots : {0u, 4u}) {
    EngineOptions options = FewPages::options(12, snapshots, true);
    ToyShape shape = FewPages::kShape;
    shape.sharpness = 1;
    std::vector<Ids> advanced(12);
    std::vector<std::vector<std::string>> logs(12);
    std::vector<std::atomic<int>> admitted(12);
    Engine engine(toy_model(shape), options);
    std::vector<Recorder> answers;
    for (size_t i = 0; i < 12; ++i)
      answers.push_back(start(engine, request(static_cast<int>(i), &advanced[i], &logs[i]), nullptr,
                              [&admitted, i](const Event& e) { admitted[i] += e.admitted; }));
    for (size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(answers[i].tokens(), alone[i]) << i;
      EXPECT_EQ(answers[i].wait().usage.generated_tokens, 40u);
      EXPECT_EQ(answers[i].wait().usage.prompt_tokens, 5 + i);
    }
    expect_nothing_left(engine);
    EXPECT_GT(engine.stats().preemptions, 0u);
    for (size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(admitted[i], 1) << i;
      EXPECT_EQ(advanced[i], alone[i]) << i;
      EXPECT_EQ(logs[i].size(), 80u) << i;
    }
  }
}

TEST(Engine, LowPrioritiesGiveWayFirst) {
  FewPages few(12);
  Held held(few.engine);  // so that all are there before anyone runs
  std::vector<Recorder> answers;
  std::vector<int> order;
  std::mutex mutex;
  for (const int priority : {-5, 5, 0, 10})
    answers.push_back([&] {
      Request r = greedy({20 + priority}, UINT32_MAX);
      r.priority = priority;
      return start(few.engine, std::move(r), nullptr, [&, priority](const Event& e) {
        const std::lock_guard lock(mutex);
        if (e.finished) order.push_back(priority);
      });
    }());
  held.let_go();
  for (Recorder& a : answers) a.wait();
  expect_nothing_left(few.engine);
  EXPECT_GT(few.engine.stats().preemptions, 0u);
  EXPECT_EQ(order, (std::vector<int>{10, 5, 0, -5}));
}

TEST(Engine, CancelsAndEndsPausedRequestsToo) {
  FewPages few(9);
  std::vector<Ticket> tickets(6);
  std::vector<Recorder> answers;
  // The first to end cancels who was paused meanwhile.
  for (size_t i = 0; i < 6; ++i)
    answers.push_back(start(few.engine, greedy({static_cast<int32_t>(i)}, UINT32_MAX), &tickets[i],
                            [&](const Event& e) {
                              if (!e.finished || few.engine.stats().preemptions == 0) return;
                              for (const Ticket& ticket : tickets) ticket.cancel();
                            }));
  for (Recorder& a : answers) a.wait();
  expect_nothing_left(few.engine);
  EXPECT_GT(few.engine.stats().preemptions, 0u);
  size_t cancelled = 0;
  for (size_t i = 0; i < 6; ++i) {
    const Ids all = successors(static_cast<int32_t>(i), 63), got = answers[i].tokens();
    ASSERT_LE(got.size(), all.size());
    EXPECT_TRUE(std::equal(got.begin(), got.end(), all.begin())) << i;
    cancelled += answers[i].reason() == FinishReason::kCancelled;
  }
  EXPECT_GE(cancelled, 1u);
}

// Choices over one prompt: as many requests as asked one by one would give.
std::vector<Request> choices(const Ids& prompt, uint32_t n, uint32_t max_tokens) {
  std::vector<Request> group;
  for (uint32_t c = 0; c < n; ++c)
    group.push_back(random_draws(c == 0 ? prompt : Ids{}, max_tokens, 77, c));
  return group;
}

TEST(Engine, ChoicesReadTheirPromptOnce) {
  for (const bool reuse : {true, false})
    for (const int n_prompt : {1, 2, 8, 9, 30, 33}) {
      const Ids prompt = successors(5, n_prompt);
      std::vector<Ids> alone;
      {
        Engine engine(toy_model({.sharpness = 1}), kOptions);
        for (uint32_t c = 0; c < 4; ++c)
          alone.push_back(start(engine, random_draws(prompt, 20, 77, c)).tokens());
      }
      EngineOptions options = kOptions;
      options.prefix_reuse = reuse;
      options.audit = true;
      Engine engine(toy_model({.sharpness = 1}), options);
      std::vector<Recorder> answers(4);
      auto group = choices(prompt, 4, 20);
      for (size_t c = 0; c < 4; ++c) group[c].on_event = answers[c].sink();
      EXPECT_EQ(engine.submit(std::move(group), nullptr), Admission::kAccepted);
      for (size_t c = 0; c < 4; ++c) {
        EXPECT_EQ(answers[c].tokens(), alone[c]) << c << " of " << n_prompt;
        EXPECT_EQ(answers[c].wait().usage.prompt_tokens, static_cast<uint32_t>(n_prompt));
        EXPECT_EQ(answers[c].wait().usage.cached_tokens, 0u);
      }
      expect_nothing_left(engine);
      EXPECT_EQ(engine.stats().prompt_tokens, static_cast<uint64_t>(n_prompt));
      EXPECT_EQ(engine.stats().cached_prompt_tokens, 0u);
      EXPECT_EQ(engine.stats().replayed_tokens, 3u);
    }
}

TEST(Engine, ChoicesWithoutAPlaceComeLaterAndStillAgree) {
  const Ids prompt = successors(5, 30);
  std::vector<Ids> alone;
  {
    Engine engine(toy_model({.sharpness = 1}), kOptions);
    for (uint32_t c = 0; c < 8; ++c)
      alone.push_back(start(engine, random_draws(prompt, 20, 77, c)).tokens());
  }
  for (const bool reuse : {true, false}) {
    EngineOptions options = kOptions;
    options.prefix_reuse = reuse;
    options.audit = true;
    Engine engine(toy_model({.max_concurrency = 3, .sharpness = 1}), options);
    std::vector<Recorder> answers(8);
    auto group = choices(prompt, 8, 20);
    for (size_t c = 0; c < 8; ++c) group[c].on_event = answers[c].sink();
    EXPECT_EQ(engine.submit(std::move(group), nullptr), Admission::kAccepted);
    for (size_t c = 0; c < 8; ++c) EXPECT_EQ(answers[c].tokens(), alone[c]) << c;
    expect_nothing_left(engine);
    EXPECT_EQ(engine.stats().prompt_tokens, reuse ? 30u + 5 * 6 : 30u * 6);
  }
}

TEST(Engine, ChoicesAreTakenAllOrNoneAndCancelledTogether) {
  EngineOptions options = kOptions;
  options.max_pending = 2;
  Engine engine(toy_model({.max_concurrency = 2}), options);
  Held held(engine, 3);
  const auto submit = [&engine](uint32_t n, std::vector<Recorder>* answers, Ticket* ticket) {
    *answers = std::vector<Recorder>(n);
    auto group = choices({1, 2, 3}, n, 40);
    for (size_t c = 0; c < n; ++c) group[c].on_event = (*answers)[c].sink();
    return engine.submit(std::move(group), ticket);
  };
  std::vector<Recorder> refused, taken;
  Ticket ticket;
  EXPECT_EQ(submit(4, &refused, nullptr), Admission::kQueueFull);
  EXPECT_EQ(engine.stats().waiting, 0u);
  EXPECT_EQ(submit(3, &taken, &ticket), Admission::kAccepted);
  EXPECT_EQ(engine.stats().waiting, 3u);
  ticket.cancel();
  held.let_go();
  for (Recorder& answer : taken) EXPECT_EQ(answer.reason(), FinishReason::kCancelled);
  EXPECT_EQ(held.recorder().tokens(), successors(2, 3));
  expect_nothing_left(engine);
  for (Recorder& answer : refused) EXPECT_EQ(answer.n_finishes(), 0u);
}

// The first choice ends before it has read the prompt: the others read it themselves.
TEST(Engine, ChoicesOutliveTheirLeader) {
  EngineOptions options = kOptions;
  options.audit = true;
  options.prefill_chunk = 4;
  for (const bool at_admission : {true, false}) {
    Engine engine(toy_model(), options);
    std::vector<Recorder> answers(3);
    auto group = choices(successors(5, 30), 3, 20);
    for (size_t c = 0; c < 3; ++c) {
      group[c].sampling.temperature = 0;
      group[c].on_event = answers[c].sink([&, c](const Event& e) {
        if (c == 0 && (e.admitted == at_admission) && !e.finished)
          throw std::runtime_error("sink broke");
      });
    }
    EXPECT_EQ(engine.submit(std::move(group), nullptr), Admission::kAccepted);
    EXPECT_EQ(answers[0].reason(), FinishReason::kFailed);
    for (size_t c = 1; c < 3; ++c) EXPECT_EQ(answers[c].tokens(), successors(35, 20));
    expect_nothing_left(engine);
  }
}

TEST(Engine, ChoicesUnderMemoryPressureAgreeWithChoicesAlone) {
  const Ids prompt = successors(5, 20);
  std::vector<Ids> alone;
  ToyShape shape = FewPages::kShape;
  shape.sharpness = 1;
  {
    Engine engine(toy_model(shape), kOptions);
    for (uint32_t c = 0; c < 8; ++c)
      alone.push_back(start(engine, random_draws(prompt, 44, 77, c)).tokens());
  }
  for (const uint32_t n_pages : {8u, 13u}) {
    Engine engine(toy_model(shape), FewPages::options(n_pages, 2, true));
    std::vector<Recorder> answers(8);
    auto group = choices(prompt, 8, 44);
    for (size_t c = 0; c < 8; ++c) group[c].on_event = answers[c].sink();
    EXPECT_EQ(engine.submit(std::move(group), nullptr), Admission::kAccepted);
    for (size_t c = 0; c < 8; ++c) EXPECT_EQ(answers[c].tokens(), alone[c]) << c;
    expect_nothing_left(engine);
    EXPECT_GT(engine.stats().preemptions, 0u);
  }
}

TEST(Engine, WhatWasReadOnceIsNotReadAgain) {
  Engine engine(test::toy_model(), kOptions);
  const Ids prompt = successors(5, 30);
  const auto usage = [&engine](const Ids& ids) {
    return start(engine, greedy(ids, 3)).wait().usage;
  };
  EXPECT_EQ(usage(prompt).cached_tokens, 0u);
  const Usage again = usage(prompt);
  EXPECT_EQ(again.cached_tokens, 24u) << "three pages of eight tokens";
  EXPECT_EQ(start(engine, greedy(prompt, 3)).tokens(), successors(35, 3));

  Ids edited = prompt;
  edited[20] = 99;
  const Usage part = usage(edited);
  EXPECT_EQ(part.cached_tokens, 16u);
  EXPECT_EQ(part.miss, PrefixMiss::kDiverged);
  EXPECT_EQ(part.known_tokens, 20u);
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.cached_prompt_tokens, 24u + 24u + 16u);
  EXPECT_EQ(stats.prompt_tokens + stats.cached_prompt_tokens, 4u * 30u);

  Request salted = greedy(prompt, 3);
  salted.cache_salt = "another";
  EXPECT_EQ(start(engine, std::move(salted)).wait().usage.cached_tokens, 0u);
  expect_nothing_left(engine);
}

TEST(Engine, B016_ShortTurnsHitWhatWasSaidBefore) {
  EngineOptions options = kOptions;
  options.memory.snapshots = 16;
  Engine engine(test::toy_model(), options);
  Ids prompt = successors(5, 9);
  uint32_t known = 0;
  for (int turn = 0; turn < 6; ++turn) {
    Request request = greedy(prompt, 3);
    request.session = "chat";
    auto answer = start(engine, std::move(request));
    EXPECT_EQ(answer.wait().usage.cached_tokens, known) << "turn " << turn;
    for (int32_t id : answer.tokens()) prompt.push_back(id);
    known = static_cast<uint32_t>(prompt.size()) - 1;  // the last token drawn was not read
    for (int32_t id : {70, 71}) prompt.push_back(id);
  }
  expect_nothing_left(engine);
}

// A step passes the nearest frontier of a prompt and ends at the one behind that.
TEST(Engine, AFrontierCostsNoStepOfItsOwn) {
  EngineOptions options = kOptions;
  options.audit = true;
  options.memory.snapshots = 16;
  const Ids prompt = successors(5, 30);
  for (const Ids& frontiers : {Ids{}, Ids{9}, Ids{16}, Ids{29}, Ids{9, 20}, Ids{9, 20, 29}}) {
    Engine engine(test::toy_model({.prefill_chunk = 32}), options);
    Request request = greedy(prompt, 3);
    request.frontiers.assign(frontiers.begin(), frontiers.end());
    start(engine, std::move(request)).wait();
    const uint64_t of_prompt = 1 + frontiers.size() / 2, of_answer = 2;
    EXPECT_EQ(engine.stats().steps, of_prompt + of_answer) << frontiers.size();
    for (const int32_t frontier : frontiers) {
      Ids other(prompt.begin(), prompt.begin() + frontier);
      other.insert(other.end(), {99, 98});
      auto answer = start(engine, greedy(other, 3));
      EXPECT_EQ(answer.wait().usage.cached_tokens, static_cast<uint32_t>(frontier));
      EXPECT_EQ(answer.tokens(), successors(98, 3));
    }
    expect_nothing_left(engine);
  }
}

TEST(Engine, TellsWhatItsPagesRowsAndStepsAreFor) {
  Engine engine(test::toy_model(), kOptions);
  const Ids prompt = successors(5, 30);
  start(engine, greedy(prompt, 3)).wait();
  const EngineStats idle = engine.stats();
  EXPECT_EQ(idle.pages_active, 0u);
  EXPECT_EQ(idle.pages_cached, idle.prefixes.pages);
  EXPECT_GE(idle.pages_cached, 3u);
  EXPECT_EQ(idle.rows_active, 0u);
  EXPECT_TRUE(engine.running_rows().empty());

  std::vector<RunningRow> rows;
  EngineStats during;
  Recorder second = start(engine, greedy(prompt, 3), nullptr, [&](const Event& event) {
    if (event.tokens.empty() || !rows.empty()) return;
    rows = engine.running_rows();
    during = engine.stats();
  });
  second.wait();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].number, 2u);
  EXPECT_EQ(rows[0].prompt_tokens, 30u);
  EXPECT_EQ(rows[0].cached_tokens, 24u);
  EXPECT_EQ(rows[0].read_tokens, 30u);
  EXPECT_EQ(rows[0].max_tokens, 3u);
  EXPECT_EQ(during.pages_active, during.pages_used)
      << "one sequence shares with nobody but the tree";
  EXPECT_EQ(during.rows_active, 1u);
  EXPECT_LE(during.pages_active + during.pages_cached, during.pages_total);

  const EngineStats after = engine.stats();
  EXPECT_EQ(after.queried_prompt_tokens, 60u);
  uint64_t steps = 0;
  for (const Histogram& h : after.step_seconds) steps += h.count();
  EXPECT_EQ(steps, after.steps);
  // Each answer's first token comes with its prompt, and the two others with steps of their own.
  EXPECT_EQ(after.step_seconds[static_cast<size_t>(StepKind::kDecode)].count(), 4u);
  EXPECT_EQ(after.step_seconds[static_cast<size_t>(StepKind::kMixed)].count(), 0u);
}

TEST(Engine, WhatOneEngineReadTheNextFindsOnDisk) {
  const TemporaryFolder folder;
  EngineOptions options = kOptions;
  options.memory.snapshots = 16;
  options.disk = {folder / "cache", 1 << 20};
  const Ids prompt = successors(5, 30);
  for (int round = 0; round < 3; ++round) {
    const uint32_t known = round == 0 ? 0 : 29;
    Engine engine(toy_model(), options);
    std::vector<Recorder> answers;
    for (int i = 0; i < 3; ++i) answers.push_back(start(engine, greedy(prompt, 3)));
    for (Recorder& answer : answers) {
      EXPECT_EQ(answer.tokens(), successors(35, 3));
      EXPECT_GE(answer.wait().usage.cached_tokens, known);
    }
    Request salted = greedy(prompt, 3);
    salted.cache_salt = "of round " + std::to_string(round);
    EXPECT_EQ(start(engine, std::move(salted)).wait().usage.cached_tokens, 0u);
    expect_nothing_left(engine);
    engine.stop();
    EXPECT_FALSE(engine.stats().disk->off);
    EXPECT_GT(engine.stats().disk->pages, 0u);
  }
  // Another model has entries of its own.
  Engine other(toy_model({.sharpness = 7}), options);
  EXPECT_EQ(start(other, greedy(prompt, 3)).wait().usage.cached_tokens, 0u);
}

TEST(Engine, KeepsNoPrefixesWhereItShallNot) {
  EngineOptions options = kOptions;
  options.prefix_reuse = false;
  Engine engine(test::toy_model(), options);
  for (int i = 0; i < 2; ++i) {
    const Usage usage = start(engine, greedy(successors(5, 30), 3)).wait().usage;
    EXPECT_EQ(usage.cached_tokens, 0u);
    EXPECT_EQ(usage.miss, PrefixMiss::kDisabled);
  }
}

// A disk that hangs, as far as the tier can tell: what it reads comes once let_go() was called.
struct HungDisk {
  // A prompt that some engine before has put there.
  explicit HungDisk(const EngineOptions& engine_options) : options(engine_options) {
    options.disk = DiskTierOptions{folder / "cache", 1 << 24};
    Engine engine(toy_model(FewPages::kShape), options);
    EXPECT_EQ(start(engine, greedy(prompt, 1)).tokens(), successors(41, 1));
    engine.stop();
    EXPECT_EQ(engine.stats().disk->pages, 5u);
    options.disk->before_load = [this] {
      inside.count_down();
      go.wait();
    };
  }
  void let_go() { go.count_down(); }

  const TemporaryFolder folder;
  const Ids prompt = successors(0, 41);
  EngineOptions options;
  std::latch inside{1}, go{1};
};

// Starts one that needs the pages which the disk's load has, and returns when it cannot go on.
Recorder start_beside_load(Engine& engine, HungDisk& disk, Recorder* loading, Ticket* ticket) {
  auto stuck = std::make_shared<std::latch>(1);
  auto n_tokens = std::make_shared<int>(0);
  Recorder answer = start(engine, greedy({50}, UINT32_MAX), ticket,
                          [&engine, &disk, loading, stuck, n_tokens](const Event& e) {
                            if (e.tokens.empty()) return;
                            if (++*n_tokens == 1) *loading = start(engine, greedy(disk.prompt, 1));
                            // 4 of the 9 pages are left, so 39 tokens are kept and one more known.
                            if (*n_tokens == 39) stuck->count_down();
                          });
  stuck->wait();
  disk.inside.wait();
  return answer;
}

TEST(Engine, AHungDiskKeepsNobodyFromLeaving) {
  HungDisk disk(FewPages::options(9, 0, true));
  disk.options.disk->patience = std::chrono::hours(1);
  Engine engine(toy_model(FewPages::kShape), disk.options);
  Ticket ticket;
  Recorder loading;
  Recorder answer = start_beside_load(engine, disk, &loading, &ticket);
  ticket.cancel();
  EXPECT_EQ(answer.reason(), FinishReason::kCancelled);
  EXPECT_EQ(answer.tokens(), successors(50, 39));
  EXPECT_EQ(loading.n_finishes(), 0u);
  // Told before the engine's own view follows.
  const auto end = soon();
  while (engine.stats().pages_active != 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_EQ(engine.stats().pages_active, 0u);
  disk.let_go();
  EXPECT_EQ(loading.tokens(), successors(41, 1));
  EXPECT_EQ(loading.wait().usage.cached_tokens, 40u);
  expect_nothing_left(engine);
}

TEST(Engine, AnEngineStopsAlthoughItsDiskHangs) {
  HungDisk disk(FewPages::options(9, 0, true));
  disk.options.disk->patience = std::chrono::hours(1);
  Engine engine(toy_model(FewPages::kShape), disk.options);
  Recorder loading;
  Recorder answer = start_beside_load(engine, disk, &loading, nullptr);
  std::thread stop([&engine] { engine.stop(); });
  EXPECT_EQ(answer.reason(), FinishReason::kCancelled);
  EXPECT_EQ(loading.reason(), FinishReason::kCancelled);
  disk.let_go();  // its thread is waited for
  stop.join();
}

TEST(Engine, WhatTheDiskDoesNotGiveIsComputed) {
  HungDisk disk(FewPages::options(24, 0, true));
  disk.options.disk->patience = {};
  Engine engine(toy_model(FewPages::kShape), disk.options);
  Recorder answer = start(engine, greedy(disk.prompt, 1));
  EXPECT_EQ(answer.tokens(), successors(41, 1));
  EXPECT_EQ(answer.wait().usage.cached_tokens, 0u);
  EXPECT_EQ(start(engine, greedy(successors(60, 20), 2)).tokens(), successors(80, 2));
  disk.let_go();
  expect_nothing_left(engine);
}

// What is not free is in the tree or on its way to it once nobody runs any more.
void expect_idle(const Engine& engine) {
  const auto end = soon();
  // The disk gives back what it has written when it is done.
  EngineStats stats = engine.stats();
  for (; stats.pages_active > 0 && std::chrono::steady_clock::now() < end; stats = engine.stats())
    std::this_thread::yield();
  EXPECT_EQ(stats.pages_active, 0u);
  EXPECT_EQ(stats.rows_active, 0u);
  EXPECT_EQ(stats.pages_used, 0u);
  EXPECT_EQ(stats.pages_cached, stats.prefixes.pages);
}

// Clients as they come: choices, priorities, salts, prompts in common, and who leaves at any time.
// The engine looks after every step whether something is lost.
void attack(Engine& engine, std::mt19937& random) {
  const auto below = [&random](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  std::vector<Recorder> answers;
  std::vector<Ticket> tickets(40);
  for (Ticket& ticket : tickets) {
    const auto beginning = static_cast<int32_t>(below(6) * 10);
    const uint32_t n = 1 + (below(4) == 0 ? below(3) : 0);
    std::vector<Request> group;
    const uint32_t leaves_at = below(3) == 0 ? below(30) : UINT32_MAX;
    for (uint32_t c = 0; c < n; ++c) {
      Request r =
          random_draws(c == 0 ? successors(beginning, 1 + static_cast<int>(below(40))) : Ids{},
                       below(50), random(), c);
      if (below(5) == 0) r.cache_salt = "salt";
      if (below(3) == 0) r.session = std::to_string(below(3));
      r.priority = static_cast<int>(below(3));
      r.on_event = answers.emplace_back().sink(
          [ticket = &ticket, leaves_at, n_events = uint32_t{0}](const Event&) mutable {
            if (n_events++ == leaves_at) ticket->cancel();
          });
      group.push_back(std::move(r));
    }
    for (Request& r : group) r.cache_salt = group.front().cache_salt;
    EXPECT_EQ(engine.submit(std::move(group), &ticket), Admission::kAccepted);
    if (below(6) == 0) tickets[below(40)].cancel();
  }
  for (Recorder& answer : answers) answer.wait();
}

TEST(Engine, NothingIsLostWhoeverLeavesWhenever) {
  const uint32_t seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  uint64_t pauses = 0;
  for (const bool disk : {false, true})
    for (const uint32_t snapshots : {0u, 5u}) {
      const TemporaryFolder folder;
      EngineOptions options = FewPages::options(20, snapshots, true);
      options.max_pending = 1000;
      if (disk) options.disk = DiskTierOptions{folder / "cache", 1 << 24};
      Engine engine(toy_model(FewPages::kShape), options);
      for (int round = 0; round < 6; ++round) {
        attack(engine, random);
        expect_idle(engine);
      }
      pauses += engine.stats().preemptions;
      expect_nothing_left(engine);
    }
  EXPECT_GT(pauses, 0u);
}

}  // namespace
}  // namespace flare::runtime
