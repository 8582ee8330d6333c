// Rows of a step: who comes first, what is shared, and that everybody gets there.
#include "runtime/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace flare::runtime {
namespace {

using Rows = std::vector<uint32_t>;

TEST(Scheduler, RunsEveryAnswerBeforeAnyPrompt) {
  EXPECT_EQ(schedule_rows(Rows{100, 1, 50, 1}, {10, 64}), (Rows{8, 1, 0, 1}));
  EXPECT_EQ(schedule_rows(Rows{100, 1, 1, 1}, {3, 64}), (Rows{0, 1, 1, 1}));
}

TEST(Scheduler, SharesTheChunkInOrderOfArrival) {
  EXPECT_EQ(schedule_rows(Rows{20, 30, 40}, {100, 64}), (Rows{20, 30, 14}));
  EXPECT_EQ(schedule_rows(Rows{64, 2}, {100, 64}), (Rows{64, 0}));
  EXPECT_EQ(schedule_rows(Rows{65, 2}, {100, 64}), (Rows{64, 0}));
}

TEST(Scheduler, KeepsBothLimits) {
  EXPECT_EQ(schedule_rows(Rows{1, 1, 1}, {2, 64}), (Rows{1, 1, 0}));
  EXPECT_EQ(schedule_rows(Rows{1, 50}, {100, 7}), (Rows{1, 7}));
  EXPECT_EQ(schedule_rows(Rows{1, 50}, {0, 7}), (Rows{0, 0}));
  EXPECT_EQ(schedule_rows(Rows{1, 50}, {100, 0}), (Rows{1, 0}));
}

TEST(Scheduler, GivesNothingToWhoNeedsNothing) {
  EXPECT_EQ(schedule_rows(Rows{}, {8, 8}), Rows{});
  EXPECT_EQ(schedule_rows(Rows{0, 5, 0}, {8, 8}), (Rows{0, 5, 0}));
}

TEST(Scheduler, EverySequenceFinishesWithinItsLimits) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](uint32_t least, uint32_t most) {
      return std::uniform_int_distribution<uint32_t>(least, most)(random);
    };
    const uint32_t n = draw(1, 12), chunk = draw(1, 40);
    const ScheduleLimits limits{n + chunk, chunk};
    Rows remaining(n);
    for (uint32_t& r : remaining) r = draw(1, 300);
    const uint64_t total = std::accumulate(remaining.begin(), remaining.end(), uint64_t{0});
    uint64_t steps = 0;
    while (std::accumulate(remaining.begin(), remaining.end(), uint64_t{0}) > 0) {
      const Rows rows = schedule_rows(remaining, limits);
      ASSERT_EQ(rows.size(), remaining.size());
      uint64_t sum = 0, prompt = 0;
      for (size_t i = 0; i < n; ++i) {
        ASSERT_LE(rows[i], remaining[i]) << "seed " << seed;
        if (remaining[i] == 1) {
          ASSERT_EQ(rows[i], 1u) << "an answer waits, seed " << seed;
        }
        sum += rows[i];
        if (remaining[i] > 1) prompt += rows[i];
        remaining[i] -= rows[i];
      }
      ASSERT_GT(sum, 0u) << "nobody moves, seed " << seed;
      ASSERT_LE(sum, limits.max_rows);
      ASSERT_LE(prompt, limits.prefill_chunk);
      ASSERT_LE(++steps, total);
    }
  }
}

}  // namespace
}  // namespace flare::runtime
