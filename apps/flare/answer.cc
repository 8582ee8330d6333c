// The event queue over a semaphore, which a signal handler may post, and the lines about an answer.
#include "flare/answer.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "base/error.h"

namespace flare::app {
namespace {

// A handler can reach nothing else.
std::atomic<int> interrupts{0};
std::atomic<sem_t*> reader{nullptr};

void on_interrupt(int) {
  const int saved = errno;
  interrupts.fetch_add(1);
  if (sem_t* waiting = reader.load()) sem_post(waiting);
  errno = saved;
}

}  // namespace

AnswerQueue::AnswerQueue() {
  sem_init(&ready_, 0, 0);
  reader = &ready_;
}

AnswerQueue::~AnswerQueue() {
  reader = nullptr;
  sem_destroy(&ready_);
}

void AnswerQueue::push(server::TextEvent event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  sem_post(&ready_);
}

std::optional<server::TextEvent> AnswerQueue::next() {
  while (true) {
    if (take_interrupt()) return std::nullopt;
    {
      const std::lock_guard lock(mutex_);
      if (!events_.empty()) {
        server::TextEvent event = std::move(events_.front());
        events_.pop_front();
        return event;
      }
    }
    sem_wait(&ready_);
  }
}

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  // Without SA_RESTART: a read at the prompt has to notice.
  ::sigaction(SIGINT, &action, nullptr);
}

bool pending_interrupt() { return interrupts.load() > 0; }

bool take_interrupt() {
  int n = interrupts.load();
  while (n > 0 && !interrupts.compare_exchange_weak(n, n - 1)) {
  }
  return n > 0;
}

AnswerPrinter::AnswerPrinter(bool shows_reasoning)
    : shows_reasoning_(shows_reasoning), dims_(::isatty(STDERR_FILENO) != 0) {}

void AnswerPrinter::print(const server::TextEvent& event) {
  for (const frontend::OutputEvent& delta : event.deltas) print(delta);
  if (event.finished) end_reasoning();
  std::fflush(stdout);
}

void AnswerPrinter::print(const frontend::OutputEvent& delta) {
  using Kind = frontend::OutputEvent::Kind;
  if (delta.kind == Kind::kReasoning) {
    if (!shows_reasoning_) return;
    if (!in_reasoning_ && dims_) fmt::print(stderr, "\033[2m");
    in_reasoning_ = true;
    fmt::print(stderr, "{}", delta.text);
    return;
  }
  end_reasoning();
  std::string text = delta.text;
  if (delta.kind == Kind::kCallStart)
    text = fmt::format("{}{{\"name\": {}, \"arguments\": ", in_line_ ? "\n" : "",
                       Json(delta.text).to_text());
  if (delta.kind == Kind::kCallEnd) text = "}\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!text.empty()) in_line_ = text.back() != '\n';
}

void AnswerPrinter::end_reasoning() {
  if (!std::exchange(in_reasoning_, false)) return;
  fmt::print(stderr, "{}\n", dims_ ? "\033[0m" : "");
}

std::string timing_line(const server::TextEvent& last) {
  const runtime::Usage& usage = last.usage;
  const runtime::Timings& t = last.timings;
  const auto rate = [](double n, double ms) { return ms > 0 ? n * 1000 / ms : 0.0; };
  std::string line =
      fmt::format("{} tokens in {:.2f} s · prefill {} tokens, {:.1f} tok/s", usage.generated_tokens,
                  (t.prefill_ms + t.decode_ms) / 1000, usage.prompt_tokens - usage.cached_tokens,
                  rate(usage.prompt_tokens - usage.cached_tokens, t.prefill_ms));
  if (usage.generated_tokens > 1)
    line += fmt::format(" · decode {:.1f} tok/s", rate(usage.generated_tokens - 1, t.decode_ms));
  return line;
}

void check_finished(const server::TextEvent& last) {
  if (last.finished == runtime::FinishReason::kFailed)
    throw Error(Code::kInternal, "the engine failed: {}", last.error);
}

}  // namespace flare::app
