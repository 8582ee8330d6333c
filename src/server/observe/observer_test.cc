// One record a request, whatever becomes of it.
#include "server/observe/observer.h"

#include <gtest/gtest.h>

#include "server/observe/throughput.h"

namespace flare::server::observe {
namespace {

uint64_t requests(const Observer& observer, Api api, Outcome outcome) {
  return observer.metrics().counts().requests[static_cast<size_t>(api)]
                                             [static_cast<size_t>(outcome)];
}

TEST(Observation, CountsAPromptOnceAndEveryChoice) {
  Observer observer;
  {
    Observation seen(&observer, Api::kChat, "req_1");
    seen.record().n_choices = 3;
    seen.accepted();
    for (size_t choice : {0, 1, 2})
      for (int i = 0; i < 4; ++i) seen.tokens(choice, 1);
    const runtime::Usage usage{.prompt_tokens = 100, .cached_tokens = 64, .generated_tokens = 4};
    for (const bool first : {true, false, false}) seen.choice_ended(first, usage, {});
    seen.record().finish = "stop";
    seen.finish(Outcome::kCompleted);
    seen.finish(Outcome::kFailed);  // too late
  }
  const Counts counts = observer.metrics().counts();
  EXPECT_EQ(counts.prompt_tokens, 100u);
  EXPECT_EQ(counts.cached_prompt_tokens, 64u);
  EXPECT_EQ(counts.ttft.count(), 1u);
  EXPECT_EQ(counts.inter_token.count(), 9u) << "three gaps in each of three answers";
  EXPECT_EQ(requests(observer, Api::kChat, Outcome::kCompleted), 1u);
  EXPECT_EQ(requests(observer, Api::kChat, Outcome::kFailed), 0u);
  EXPECT_EQ(counts.finishes.at("stop"), 1u);
  EXPECT_TRUE(observer.recent_latency().ttft.has_value());
}

TEST(Observation, TokensThatComeTogetherShareTheirGap) {
  Observer observer;
  Observation seen(&observer, Api::kChat, "req_1");
  seen.accepted();
  seen.tokens(0, 3);
  EXPECT_EQ(observer.metrics().counts().inter_token.count(), 0u);
  seen.tokens(0, 5);
  EXPECT_EQ(observer.metrics().counts().inter_token.count(), 5u);
  seen.tokens(0, 0);
  seen.tokens(7, 1);  // there is no such choice
  EXPECT_EQ(observer.metrics().counts().inter_token.count(), 5u);
}

TEST(Observation, LeavesNoTraceUnlessAccepted) {
  Observer observer;
  {
    Observation seen(&observer, Api::kChat, "req_1");
    seen.tokens(0, 1);
    seen.finish(Outcome::kCompleted);
  }
  for (const auto& outcomes : observer.metrics().counts().requests)
    for (const uint64_t n : outcomes) EXPECT_EQ(n, 0u);
}

TEST(Observation, WhatIsDroppedIsCountedByWhoDroppedIt) {
  Observer observer;
  {
    Observation(&observer, Api::kMessages, "req_1").accepted();
  }
  EXPECT_EQ(requests(observer, Api::kMessages, Outcome::kFailed), 1u);
  {
    Observation seen(&observer, Api::kMessages, "req_2");
    seen.accepted();
    seen.client_left();
  }
  EXPECT_EQ(requests(observer, Api::kMessages, Outcome::kCancelled), 1u);
  ASSERT_EQ(observer.recent_trouble().size(), 1u) << "a client that leaves is no trouble";
}

TEST(Observation, IsNothingWithoutAnObserver) {
  Observation seen(nullptr, Api::kChat, "req_1");
  seen.accepted();
  seen.tokens(0, 1);
  seen.finish(Outcome::kCompleted);
}

TEST(Observer, RemembersTheLastTroubleOnly) {
  Observer observer;
  for (int i = 0; i < 100; ++i) {
    RequestRecord record;
    record.outcome = Outcome::kRejected;
    record.status = 400 + i;
    observer.rejected(record);
  }
  const auto trouble = observer.recent_trouble();
  ASSERT_EQ(trouble.size(), 8u);
  EXPECT_EQ(trouble.front().status, 492);
  EXPECT_EQ(trouble.back().status, 499);
  EXPECT_EQ(observer.metrics().counts().request.count(), 0u) << "nothing of them took time";
}

TEST(Throughput, IsWhatHappenedBetweenTwoLooks) {
  runtime::EngineStats before, after;
  EXPECT_FALSE(throughput_between(before, after, 10));
  after.waiting = 1;
  EXPECT_TRUE(throughput_between(before, after, 10)) << "somebody waits and nothing moves";
  before.prompt_tokens = 1000;
  after.prompt_tokens = 1500;
  after.generated_tokens = 20;
  after.running = 2;
  after.pages_active = 32;
  after.pages_total = 128;
  const auto t = throughput_between(before, after, 10);
  ASSERT_TRUE(t);
  EXPECT_DOUBLE_EQ(t->prefill_per_second, 50);
  EXPECT_DOUBLE_EQ(t->generated_per_second, 2);
  EXPECT_EQ(throughput_text(*t),
            "2 running, 1 waiting; prefill 50.0 tokens/s, decode 2.0 tokens/s; pages 25 %");
  EXPECT_EQ(throughput_json(*t).at("kv_usage").as_double(), 0.25);
}

}  // namespace
}  // namespace flare::server::observe
