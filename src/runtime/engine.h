// The engine: one thread that owns all mutable runtime state and turns requests into tokens.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "package/prepared.h"
#include "runtime/active.h"
#include "runtime/cache/prefix_store.h"
#include "runtime/engine_stats.h"
#include "runtime/request.h"
#include "runtime/scheduler.h"
#include "runtime/step.h"
#include "runtime/waiting_queue.h"

namespace flare::runtime {

struct EngineOptions {
  kernel::CpuOptions cpu;
  MemoryWishes memory;
  uint32_t max_pending = 64;
  uint32_t prefill_chunk = 0;         // 0: the model's
  double prefill_slowdown = 2;        // of running answers while a prompt is read, at most
  bool prefix_reuse = true;           // keep what was computed for later requests
  uint32_t snapshot_interval = 1024;  // prompt tokens between snapshots of recurrent state
  // Answers do not depend on what else runs or on what the cache holds (serving.md S8.5).
  bool deterministic = false;
  std::chrono::milliseconds pending_timeout{30'000};  // 0: a request may wait for ever
  std::optional<DiskTierOptions> disk;                // where prefixes outlive the engine
  std::optional<MemoryPlan> plan;  // made by plan_before_loading; absent: made now
};

enum class Admission { kAccepted, kQueueFull, kStopping, kFailed };

// What tickets share with their engine: where its thread sleeps.
struct WakeSignal {
  std::mutex mutex;
  std::condition_variable changed;
  bool nudged = false;  // guarded by mutex: a ticket was cancelled
};

// Handle of a submitted request. Any thread; may outlive its engine.
class Ticket {
 public:
  Ticket() = default;
  // The request ends with kCancelled at the next step boundary, unless it has ended already.
  void cancel() const;

 private:
  friend class Engine;
  std::shared_ptr<std::atomic<bool>> cancelled_;
  std::shared_ptr<WakeSignal> wake_;
};

// Two engines live in one process without sharing anything. Public functions: any thread, from
// inside on_event too, but for stop() and drain(), which wait for the engine thread.
class Engine {
 public:
  // Prepares back end, pools and plans, then starts the engine thread. Errors: kDoesNotFit,
  // kInvalid (plans, capacities that cannot serve), those of DiskTier.
  Engine(package::PreparedModel model, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const package::PreparedModel& model() const { return model_; }
  const MemoryPlan& memory_plan() const { return runner_.memory_plan(); }
  uint32_t max_pending() const { return options_.max_pending; }
  uint32_t max_context() const { return runner_.memory_plan().max_context; }
  // Whether requests may ask for the log-probabilities of their prompt's tokens.
  bool has_prompt_logprobs() const { return prompt_logits_ > 0; }
  bool keeps_prefixes() const { return options_.prefix_reuse; }
  std::string_view device_name() { return runner_.backend().name(); }

  // Queues a request; kQueueFull beyond max_pending waiting ones and max_concurrency running ones.
  // Errors: kInvalid (empty prompt, id outside the vocabulary, prompt that fills the context: both
  // numbers in the text). Events follow only after kAccepted: one with `admitted` unless the
  // request ends before, then its tokens, the last one exactly once.
  Admission submit(Request request, Ticket* ticket);
  EngineStats stats() const;
  // As of the last step boundary, in order of admission.
  std::vector<RunningRow> running_rows() const;

  // No new requests from now on; returns when every last event was delivered or the deadline
  // passes. True if everything ended by itself.
  bool drain(std::chrono::steady_clock::time_point deadline);
  // Cancels what is running and joins the engine thread; submit() answers kStopping from then on.
  void stop();

 private:
  using Clock = Active::Clock;
  void loop();
  bool collect();
  void admit();
  void admit(std::unique_ptr<Active> a);
  void drop_ended();
  void end_waiting(FinishReason reason, const std::string& error = {});
  std::optional<FinishReason> ended(const Active& a, Clock::time_point now) const;
  void run_step();
  bool queue_full() const;
  uint32_t pages_used() const;
  void publish();
  template <typename Work>
  void guarded(Active& a, Work work);
  struct LogitsRow;
  std::vector<uint32_t> rows_of_step() const;
  std::span<const int32_t> draw(std::span<const LogitsRow> rows);
  void tell_prompt(Active& a);
  void advance(Active& a, int32_t token);
  std::unique_ptr<DiskTier> open_disk();
  void reuse_prefix(Active& a);
  void keep_prefix(Active& a);
  void keep_answer(Active& a);
  bool is_cut() const { return piece_ > 1; }
  void finish(Active& a, FinishReason reason, int32_t stop_id = -1, std::string error = {});
  void fail_all(const std::string& why);
  std::span<uint32_t> mask_of(Active& a);

  package::PreparedModel model_;
  const EngineOptions options_;
  StepRunner runner_;
  uint32_t prefill_chunk_ = 0;
  PrefillPace pace_;
  uint32_t prompt_logits_ = 0;  // rows of a step that prompts may ask for
  uint32_t piece_ = 1;          // rows that a prompt is cut by, and frontiers lie at

  // Confined to the engine thread.
  WaitingQueue waiting_;
  std::vector<std::unique_ptr<Active>> active_;
  uint32_t reserved_pages_ = 0;
  std::optional<PrefixStore> prefixes_;  // none: prefix_reuse is off

  // wake_->mutex guards what follows. No call to a request's gate, constraint or on_event is made
  // under it.
  const std::shared_ptr<WakeSignal> wake_ = std::make_shared<WakeSignal>();
  std::condition_variable idle_;
  std::deque<std::unique_ptr<Active>> inbox_;
  EngineStats stats_;
  uint64_t arrivals_ = 0;
  std::vector<RunningRow> running_rows_;
  uint64_t unfinished_ = 0;  // accepted requests whose last event is not delivered yet
  bool stopping_ = false;    // no new requests
  bool quitting_ = false;    // cancel everything and leave

  std::mutex join_mutex_;  // stop() may be called twice at once
  std::thread thread_;
};

}  // namespace flare::runtime
