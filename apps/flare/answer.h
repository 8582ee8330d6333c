// One answer as a loop in the calling thread: the engine's events, and the user's Ctrl-C.
#pragma once

#include <semaphore.h>

#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "server/service/service.h"

namespace flare::app {

// A queue from the engine thread to the one that prints. SIGINT wakes the reader too, once
// catch_interrupts() has been called.
class AnswerQueue {
 public:
  AnswerQueue();
  ~AnswerQueue();
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;

  void push(server::TextEvent event);
  // The next event; nullopt if SIGINT came first.
  std::optional<server::TextEvent> next();

 private:
  sem_t ready_{};
  std::mutex mutex_;
  std::deque<server::TextEvent> events_;  // guarded by mutex_
};

// SIGINT no longer ends the program but is noted.
void catch_interrupts();
// True if a SIGINT has been noted that take_interrupt() has not returned yet.
bool pending_interrupt();
// True once per SIGINT noted.
bool take_interrupt();

// Prints an answer while it comes: content on stdout, each call there as a line of JSON, reasoning
// on stderr if `shows_reasoning`, dimmed where that is a terminal.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(bool shows_reasoning);
  void print(const server::TextEvent& event);

 private:
  void print(const frontend::OutputEvent& delta);
  void end_reasoning();

  const bool shows_reasoning_, dims_;
  bool in_reasoning_ = false;
  bool in_line_ = false;  // stdout does not stand at the start of a line
};

// "12 tokens in 0.31 s · prefill 20 tokens, 812.4 tok/s · decode 164.0 tok/s".
std::string timing_line(const server::TextEvent& last);

// Errors: kInternal if the answer did not end by itself.
void check_finished(const server::TextEvent& last);

}  // namespace flare::app
