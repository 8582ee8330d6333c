// The engine: one thread that owns all mutable runtime state and turns requests into tokens.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "package/prepared.h"
#include "runtime/request.h"
#include "runtime/step.h"

namespace flare::runtime {

struct EngineOptions {
  kernel::CpuOptions cpu;
  MemoryWishes memory;
  uint32_t max_pending = 64;
  uint32_t prefill_chunk = 0;  // 0: the model's
};

// Counters for health, metrics and the dashboard. A snapshot.
struct EngineStats {
  uint32_t running = 0, waiting = 0;
  uint64_t steps = 0, prompt_tokens = 0, generated_tokens = 0;
  uint32_t pages_used = 0, pages_total = 0;
  bool failed = false;
};

enum class Admission { kAccepted, kQueueFull, kStopping, kFailed };

// Handle of a submitted request. Any thread.
class Ticket {
 public:
  Ticket() = default;
  // The request ends with kCancelled at the next step boundary, unless it has ended already.
  void cancel() const {
    if (cancelled_) cancelled_->store(true, std::memory_order_relaxed);
    if (wake_) wake_();
  }

 private:
  friend class Engine;
  std::shared_ptr<std::atomic<bool>> cancelled_;
  std::function<void()> wake_;
};

// Two engines live in one process without sharing anything. Public functions: any thread.
class Engine {
 public:
  // Prepares back end, pools and plans, then starts the engine thread. Errors: kDoesNotFit.
  Engine(package::PreparedModel model, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const package::PreparedModel& model() const { return model_; }
  const MemoryPlan& memory_plan() const { return runner_.memory_plan(); }
  uint32_t max_context() const { return runner_.memory_plan().max_context; }
  std::string_view device_name() { return runner_.backend().name(); }

  // Queues a request. Errors: kInvalid (empty prompt, id outside the vocabulary, prompt that fills
  // the context: both numbers in the text). Events follow only after kAccepted.
  Admission submit(Request request, Ticket* ticket);
  EngineStats stats() const;

  // No new requests from now on; returns when nothing is running any more or the deadline passes.
  // True if everything ended by itself.
  bool drain(std::chrono::steady_clock::time_point deadline);
  // Cancels what is running and joins the engine thread; submit() answers kStopping from then on.
  void stop();

 private:
  struct Active;
  using Clock = std::chrono::steady_clock;
  void loop();
  bool collect();
  void admit();
  void drop_cancelled();
  void run_step();
  void advance(Active& a, int32_t token);
  void finish(Active& a, FinishReason reason, int32_t stop_id = -1, std::string error = {});
  void fail_all(const std::string& why);
  void publish_stats();
  const uint32_t* mask_of(Active& a);

  package::PreparedModel model_;
  const EngineOptions options_;
  StepRunner runner_;
  uint32_t prefill_chunk_ = 0;

  // Confined to the engine thread.
  std::deque<std::unique_ptr<Active>> waiting_;
  std::vector<std::unique_ptr<Active>> active_;
  uint32_t reserved_pages_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  // Guarded by mutex_.
  std::deque<std::unique_ptr<Active>> inbox_;
  EngineStats stats_;
  bool stopping_ = false;  // no new requests
  bool quitting_ = false;  // cancel everything and leave
  bool nudged_ = false;    // a ticket was cancelled

  std::thread thread_;
};

}  // namespace flare::runtime
