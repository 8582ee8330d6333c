// What tests of the engine share: requests over the toy model, and who waits for their events.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine.h"
#include "runtime/test_support.h"

namespace flare::runtime::test {

using Ids = std::vector<int32_t>;

inline const EngineOptions kOptions = [] {
  EngineOptions options{{2, Isa::kV2}, {}, 64, 0};
  options.pending_timeout = {};  // a machine may be slow
  return options;
}();

inline std::chrono::steady_clock::time_point soon() {
  return std::chrono::steady_clock::now() + std::chrono::minutes(2);
}

// Keeps every event of one request; wait() returns after the last.
class Recorder {
 public:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    Ids tokens;
    std::vector<FinishReason> finishes;
    int32_t stop_id = -1;
    Usage usage;
    Timings timings;
    std::string error;
    bool token_after_finish = false;
  };
  // `also` runs first in every event.
  std::function<void(const Event&)> sink(std::function<void(const Event&)> also = {}) {
    return [state = state_, also = std::move(also)](const Event& e) {
      if (also) also(e);
      const std::lock_guard lock(state->mutex);
      state->token_after_finish |= !state->finishes.empty();
      state->tokens.insert(state->tokens.end(), e.tokens.begin(), e.tokens.end());
      if (!e.finished) return;
      state->finishes.push_back(*e.finished);
      state->stop_id = e.stop_id;
      state->usage = e.usage;
      state->timings = e.timings;
      state->error = e.error;
      state->changed.notify_all();
    };
  }
  const State& wait() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return !state_->finishes.empty(); });
    EXPECT_FALSE(state_->token_after_finish);
    return *state_;
  }
  FinishReason reason() { return wait().finishes.at(0); }
  Ids tokens() { return wait().tokens; }
  size_t n_finishes() {
    const std::lock_guard lock(state_->mutex);
    return state_->finishes.size();
  }

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

inline Request greedy(Ids prompt, uint32_t max_tokens) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  r.sampling.temperature = 0;
  return r;
}
inline Request random_draws(Ids prompt, uint32_t max_tokens, uint64_t seed, uint32_t choice = 0) {
  Request r = greedy(std::move(prompt), max_tokens);
  r.sampling.temperature = 1;
  r.sampling.seed = seed;
  r.sampling.choice = choice;
  return r;
}

inline Recorder start(Engine& engine, Request request, Ticket* ticket = nullptr,
                      std::function<void(const Event&)> also = {}) {
  Recorder recorder;
  request.on_event = recorder.sink(std::move(also));
  EXPECT_EQ(engine.submit(std::move(request), ticket), Admission::kAccepted);
  return recorder;
}

// n ids behind `last`, modulo the toy's vocabulary.
inline Ids successors(int32_t last, int n) {
  Ids out;
  for (int i = 1; i <= n; ++i) out.push_back((last + i) % 100);
  return out;
}

inline void expect_nothing_left(Engine& engine) {
  EXPECT_TRUE(engine.drain(soon()));
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.running, 0u);
  EXPECT_EQ(stats.waiting, 0u);
  EXPECT_EQ(stats.pages_used, 0u);
  EXPECT_FALSE(stats.failed);
}

// Holds the engine thread inside one request's first event until it is let go.
class Held {
 public:
  explicit Held(Engine& engine, uint32_t max_tokens = 2)
      : recorder_(start(engine, greedy({1, 2}, max_tokens), &ticket_, [this](const Event& e) {
          if (e.admitted || !std::exchange(first_, false)) return;
          inside_.count_down();
          go_.wait();
        })) {
    inside_.wait();
  }
  ~Held() { let_go(); }
  void let_go() {
    if (!std::exchange(released_, true)) go_.count_down();
  }
  Ticket& ticket() { return ticket_; }
  Recorder& recorder() { return recorder_; }

 private:
  std::latch inside_{1}, go_{1};
  bool first_ = true, released_ = false;  // each used by one thread
  Ticket ticket_;
  Recorder recorder_;
};

// Ends the answer before `stop_at`; writes down what it was asked.
class ScriptedGate final : public OutputGate {
 public:
  ScriptedGate(int32_t stop_at, std::vector<std::string>* log) : stop_at_(stop_at), log_(log) {}
  Verdict preview(std::span<const int32_t> offered) override {
    log_->push_back("preview " + std::to_string(offered[0]));
    return offered[0] == stop_at_ ? Verdict{0, true} : Verdict{1, false};
  }
  void commit(int kept) override { log_->push_back("commit " + std::to_string(kept)); }

 private:
  int32_t stop_at_;
  std::vector<std::string>* log_;
};

// Allows the ids that `allowed` names, for `n_tokens` tokens.
class ScriptedConstraint final : public Constraint {
 public:
  ScriptedConstraint(std::function<bool(int32_t)> allowed, size_t n_tokens, Ids* advanced)
      : allowed_(std::move(allowed)), n_tokens_(n_tokens), advanced_(advanced) {}
  bool fill_mask(std::span<uint32_t> mask) override {
    EXPECT_EQ(mask.size(), 4u);  // ceil(100 / 32)
    for (const uint32_t word : mask) EXPECT_EQ(word, 0u);
    if (advanced_->size() >= n_tokens_) return true;
    for (int32_t id = 0; id < 100; ++id)
      if (allowed_(id)) mask[static_cast<size_t>(id / 32)] |= 1u << id % 32;
    return true;
  }
  void advance(int32_t token) override { advanced_->push_back(token); }
  void rollback(int) override { FAIL() << "nothing to undo"; }

 private:
  std::function<bool(int32_t)> allowed_;
  size_t n_tokens_;
  Ids* advanced_;
};

// An engine over pages of 64 KiB, `n_pages` in all. A context is 8 pages.
struct FewPages {
  explicit FewPages(uint32_t n_pages, uint32_t snapshots = 0, bool prefix_reuse = true)
      : engine(toy_model(kShape), options(n_pages, snapshots, prefix_reuse)) {
    EXPECT_EQ(engine.memory_plan().pages, n_pages);
  }
  static EngineOptions options(uint32_t n_pages, uint32_t snapshots, bool prefix_reuse) {
    EngineOptions options = kOptions;
    options.audit = true;
    options.prefix_reuse = prefix_reuse;
    MemoryPlan plan = Engine(toy_model(kShape), options).memory_plan();
    plan.pages = n_pages;
    plan.snapshots = snapshots;
    options.plan = plan;
    return options;
  }
  static constexpr ToyShape kShape{.max_concurrency = 8, .page_bytes = 64 * 1024};
  Engine engine;
};

}  // namespace flare::runtime::test
