// The engine: one thread that owns all mutable runtime state and turns requests into tokens.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
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
  // On the engine thread, after a failure of the engine has ended every request.
  std::function<void()> on_failure;
  // For tests: runs before every step; what it throws is a failure of the engine.
  std::function<void()> before_step;
  bool audit = false;  // check after every step what must hold between sequences, tree and pools
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
  // The request ends with kCancelled at the next step boundary, or between two launches of a piece
  // of its prompt, unless it has ended already.
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
  //
  // Memory is taken as it is needed. When pages run out, the request with the weakest claim (lowest
  // priority, latest arrival) gives its place up and goes on later from where it was: that shows in
  // the clock alone.
  Admission submit(Request request, Ticket* ticket);
  // Several choices over the prompt of the first one, which is read once; salt, priority and
  // deadline are the same. All or none are queued, and the ticket cancels all. At least one.
  Admission submit(std::vector<Request> choices, Ticket* ticket);
  // For probes, which wait for nobody: whether a failure has ended it, and whether submit() would
  // find a place for a request.
  bool has_failed() const { return failed_; }
  bool has_place() const { return !queue_full(1); }
  EngineStats stats() const;
  // As of the last step boundary, in order of admission.
  std::vector<RunningRow> running_rows() const;

  // No new requests from now on, and those that were not admitted yet are cancelled. Returns when
  // every last event was delivered or the deadline passes: true if everything has ended.
  bool drain(std::chrono::steady_clock::time_point deadline);
  // Cancels what is running and joins the engine thread; submit() answers kStopping from then on.
  void stop();

 private:
  using Clock = Active::Clock;
  std::unique_ptr<DiskTier> open_disk();
  std::unique_ptr<Active> make_active(Request request, std::vector<int32_t> prompt) const;
  bool queue_full(size_t n_more) const;
  uint32_t pages_used() const;
  void publish();

  // The loop.
  void loop();
  bool prepare_memory(uint32_t rows, uint32_t pages);
  bool collect();
  std::optional<FinishReason> ended(const Active& a, Clock::time_point now) const;
  void drop_ended();
  void end_all(FinishReason reason, const std::string& error = {});
  void fail_all(const std::string& why);
  void audit();

  // Places (engine_places.cc).
  void admit();
  bool take_place(Active& a);
  uint32_t loading_pages() const { return prefixes_ ? prefixes_->loading_pages() : 0; }
  uint64_t pages_wanted(const Active* candidate) const;
  void start(std::unique_ptr<Active> taken);
  void pause_last();
  uint32_t fork_at(const Active& leader) const { return (leader.n_prompt - 1) / piece_ * piece_; }
  void fork_choices();
  void stop_leading(Active& leader);
  uint32_t wanted_rows(const Active& a) const;
  void hold_answers(std::vector<uint32_t>& remaining) const;
  std::vector<uint32_t> rows_of_step() const;
  std::optional<std::vector<uint32_t>> plan_rows();
  void reuse_prefix(Active& a);
  void keep_prefix(Active& a);
  void keep_paused(Active& a);
  void keep_answer(Active& a);
  bool is_cut() const { return piece_ > 1; }

  // One step.
  //
  // A row of logits in a step, and what it is for.
  struct LogitsRow {
    Active* a;
    uint32_t next;  // place in a->tokens of the token behind the row
    bool draws;     // it; else it is known, and its log-probability wanted
  };
  // Rows that are computed together, and whose they are.
  struct Batch {
    std::vector<Active*> members;
    std::vector<StepEntry> entries;
    std::vector<LogitsRow> logits;
    uint32_t prompt_rows = 0, decode_rows = 0;
    uint64_t new_prompt_tokens = 0, replayed_tokens = 0;
  };
  void run_step();
  Batch gather(const std::vector<uint32_t>& rows, bool answers, bool prompts);
  void pass_frontiers(Batch& batch);
  bool read_on(double seconds);
  void end_readers();
  void finish_reading();
  void settle(const Batch& batch, double seconds, double beside);
  void erase_finished();
  void guarded(Active& a, const std::function<void()>& work);
  std::span<const int32_t> draw(std::span<const LogitsRow> rows);
  std::span<uint32_t> mask_of(Active& a);
  void tell_prompt(Active& a);
  void tell_progress(Active& a);
  void advance(Active& a, int32_t token);
  void finish(Active& a, FinishReason reason, int32_t stop_id = -1, std::string error = {});

  package::PreparedModel model_;
  const EngineOptions options_;
  StepRunner runner_;
  uint32_t prefill_chunk_ = 0;
  PrefillPace pace_;
  uint32_t prompt_logits_ = 0;  // rows of a step that prompts may ask for
  uint32_t piece_ = 1;          // rows that a prompt is cut by, and frontiers lie at

  // Confined to the engine thread.
  WaitingQueue waiting_;
  std::vector<std::unique_ptr<Active>> active_;  // the strongest claim first
  uint64_t releases_ = 0;                        // places given up so far
  // Who could not be taken in, and what was so then: arrival, releases_, pages on their way.
  std::optional<std::tuple<uint64_t, uint64_t, uint32_t>> refused_;
  bool draining_ = false;                // stopping_, as the loop saw it
  std::unique_ptr<Batch> reading_;       // the piece that is being computed
  double reading_seconds_ = 0;           // spent on it so far
  bool lacks_pages_ = false;             // nobody can go on before the disk gives its pages back
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
  // Written under the mutex, read without it too.
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> n_places_{0};  // taken, running or waiting
  bool stopping_ = false;              // no new requests
  bool quitting_ = false;              // cancel everything and leave

  std::mutex join_mutex_;  // stop() may be called twice at once
  std::thread thread_;
};

}  // namespace flare::runtime
