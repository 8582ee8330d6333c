// Runs requests on an engine and waits for their whole answers.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "runtime/engine.h"

namespace flare::test {

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;  // of the tokens, if asked for
  std::vector<runtime::TokenLogprobs> prompt_logprobs;
  runtime::FinishReason finished = runtime::FinishReason::kFailed;
  runtime::Usage usage;
  std::string error;
};

// An answer that is still being made. Movable; wait() once.
class Pending {
 public:
  // Submits `request`, whose on_event is replaced.
  Pending(runtime::Engine& engine, runtime::Request request) : state_(std::make_shared<State>()) {
    request.on_event = [state = state_](const runtime::Event& event) {
      const std::lock_guard lock(state->mutex);
      state->answer.tokens.insert(state->answer.tokens.end(), event.tokens.begin(),
                                  event.tokens.end());
      for (const runtime::TokenLogprobs& record : event.logprobs)
        state->answer.logprobs.push_back(record.logprob);
      if (!event.prompt_logprobs.empty()) state->answer.prompt_logprobs = event.prompt_logprobs;
      if (!event.finished) return;
      state->answer.finished = *event.finished;
      state->answer.usage = event.usage;
      state->answer.error = event.error;
      state->done = true;
      state->changed.notify_all();
    };
    if (engine.submit(std::move(request), &ticket) != runtime::Admission::kAccepted)
      throw std::runtime_error("request refused");
  }
  Answer wait() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->done; });
    return state_->answer;
  }
  runtime::Ticket ticket;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    Answer answer;
    bool done = false;
  };
  std::shared_ptr<State> state_;
};

inline Answer collect(runtime::Engine& engine, runtime::Request request) {
  return Pending(engine, std::move(request)).wait();
}

}  // namespace flare::test
