// Requests that end while a piece of their prompt is computed beside an answer.
#include <gtest/gtest.h>

#include <string>

#include "runtime/engine_fixture.h"

namespace flare::runtime {
namespace {

using namespace test;

// Computes one launch of a piece beside each step of an answer; the toy's pieces have three.
// `at_launch` runs before each, with its number since the first prompt was admitted.
struct LaunchByLaunch {
  explicit LaunchByLaunch(std::function<void(int)> at_launch)
      : at_launch_(std::move(at_launch)), engine(toy_model({.prefill_chunk = 12}), options()) {}
  EngineOptions options() {
    EngineOptions options = kOptions;
    options.audit = true;
    options.prefill_slowdown = 1;
    options.memory.snapshots = 16;
    options.before_step = [this] {
      if (admitted_) at_launch_(++launch);
    };
    return options;
  }
  // A prompt that comes while the engine is held; `ended_at` gets the launch of its last event.
  Recorder read(Ids prompt, Ticket* ticket, int* ended_at) {
    return start(engine, greedy(std::move(prompt), 3), ticket, [this, ended_at](const Event& e) {
      admitted_ |= e.admitted;
      if (e.finished) *ended_at = launch;
    });
  }

 private:
  std::function<void(int)> at_launch_;
  bool admitted_ = false;  // engine thread

 public:
  int launch = 0;  // engine thread
  Engine engine;
};

TEST(Engine, WhoLeavesInsideAPieceHearsOfItBetweenTwoLaunches) {
  for (const int leaves_at : {1, 2, 3}) {
    Ticket ticket;
    LaunchByLaunch slow([&](int launch) {
      if (launch == leaves_at) ticket.cancel();
    });
    Held answer(slow.engine, 50);
    int ended_at = 0;
    auto prompt = slow.read(successors(9, 40), &ticket, &ended_at);
    answer.let_go();
    EXPECT_EQ(prompt.reason(), FinishReason::kCancelled);
    EXPECT_EQ(prompt.tokens(), Ids{});
    EXPECT_EQ(ended_at, leaves_at);
    EXPECT_EQ(answer.recorder().tokens(), successors(2, 50));
    expect_nothing_left(slow.engine);
  }
}

// Their rows are computed together, and what the others need of that is computed to its end.
TEST(Engine, WhoStaysInAPieceGoesOnWhenOthersLeave) {
  for (const std::string leaving : {"first", "second", "both", "one after the other"}) {
    Ticket first, second;
    LaunchByLaunch slow([&](int launch) {
      if (launch == 2 && leaving != "second") first.cancel();
      if (launch == 2 && (leaving == "second" || leaving == "both")) second.cancel();
      if (launch == 3 && leaving == "one after the other") second.cancel();
    });
    Held answer(slow.engine, 50);
    int first_ended = 0, second_ended = 0;
    auto one = slow.read(successors(9, 20), &first, &first_ended);
    auto other = slow.read(successors(50, 30), &second, &second_ended);
    answer.let_go();
    EXPECT_EQ(one.reason() == FinishReason::kCancelled, leaving != "second") << leaving;
    EXPECT_EQ(other.reason() == FinishReason::kCancelled, leaving != "first") << leaving;
    if (leaving == "first") {
      EXPECT_EQ(other.tokens(), successors(80, 3));
    }
    if (leaving == "second") {
      EXPECT_EQ(one.tokens(), successors(29, 3));
    }
    EXPECT_EQ(answer.recorder().tokens(), successors(2, 50)) << leaving;
    expect_nothing_left(slow.engine);
    EXPECT_TRUE(leaving == "second" || first_ended == 2) << leaving << ": " << first_ended;
    EXPECT_TRUE(!(leaving == "second" || leaving == "both") || second_ended == 2)
        << leaving << ": " << second_ended;
  }
}

// Behind 12 tokens, in the middle of a page, the second piece fills that page and begins the next.
TEST(Engine, NothingIsKeptOfAPieceThatWasGivenUp) {
  for (const bool torn : {false, true}) {
    Ticket ticket;
    LaunchByLaunch slow([&](int launch) {
      if (launch == (torn ? 5 : 3)) ticket.cancel();
    });
    const Ids prompt = successors(9, 40);
    {
      Held answer(slow.engine, 20);
      int ended_at = 0;
      auto left = slow.read(prompt, &ticket, &ended_at);
      answer.let_go();
      EXPECT_EQ(left.reason(), FinishReason::kCancelled);
      answer.recorder().wait();
    }
    auto again = start(slow.engine, greedy(prompt, 3));
    EXPECT_EQ(again.tokens(), successors(49, 3));
    // In the third launch the piece ends, and all of it is kept.
    EXPECT_EQ(again.wait().usage.cached_tokens, torn ? 8u : 12u);
    expect_nothing_left(slow.engine);
  }
}

}  // namespace
}  // namespace flare::runtime
