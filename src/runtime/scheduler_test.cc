// Rows of a step: who comes first, what is shared, and that everybody gets there.
#include "runtime/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace flare::runtime {
namespace {

using Rows = std::vector<uint32_t>;

// Each gets whole pieces, or its whole tail, or nothing.
TEST(ScheduleRows, PiecesAreNeverCut) {
  const auto rows = [](const Rows& remaining, uint32_t chunk) {
    return schedule_rows(remaining, {10000, chunk, 64});
  };
  EXPECT_EQ(rows({300}, 512), (Rows{256}));
  EXPECT_EQ(rows({44}, 512), (Rows{44}));
  EXPECT_EQ(rows({64}, 64), (Rows{64}));
  EXPECT_EQ(rows({300}, 100), (Rows{64}));
  EXPECT_EQ(rows({300, 1, 300}, 64), (Rows{64, 1, 0}));
  EXPECT_EQ(rows({300, 40, 130}, 200), (Rows{64, 40, 64}));
  EXPECT_EQ(rows({300, 50, 60}, 150), (Rows{64, 50, 0}));
  EXPECT_EQ(rows({20, 500}, 64), (Rows{20, 0}));
  EXPECT_EQ(rows({20, 500}, 84), (Rows{20, 64}));
  // Whatever is asked, the first gets on, and nobody gets a part of a piece.
  for (uint32_t a = 2; a < 200; a += 7)
    for (uint32_t b = 2; b < 200; b += 11)
      for (uint32_t chunk = 64; chunk < 300; chunk += 13) {
        const Rows got = rows({a, 1, b}, chunk);
        EXPECT_GT(got[0], 0u);
        EXPECT_LE(got[0] + got[2], chunk);
        for (const auto& [all, n] : {std::pair(a, got[0]), std::pair(b, got[2])})
          EXPECT_TRUE(all < 64 ? n == 0 || n == all : n % 64 == 0 && n <= all) << all << " " << n;
      }
}

TEST(Scheduler, RunsEveryAnswerBeforeAnyPrompt) {
  EXPECT_EQ(schedule_rows(Rows{100, 1, 50, 1}, {10, 64}), (Rows{4, 1, 4, 1}));
  EXPECT_EQ(schedule_rows(Rows{100, 1, 1, 1}, {3, 64}), (Rows{0, 1, 1, 1}));
}

TEST(Scheduler, HalfOfTheChunkBelongsToWhoCameFirstTheRestToShortPrompts) {
  EXPECT_EQ(schedule_rows(Rows{20, 40, 30}, {100, 64}), (Rows{20, 14, 30}));
  EXPECT_EQ(schedule_rows(Rows{64, 2}, {100, 64}), (Rows{62, 2}));
  EXPECT_EQ(schedule_rows(Rows{1000, 900, 10}, {100, 64}), (Rows{32, 22, 10}));
  EXPECT_EQ(schedule_rows(Rows{1000}, {100, 64}), (Rows{64}));
  EXPECT_EQ(schedule_rows(Rows{1000, 1000, 1000}, {100, 64}), (Rows{64, 0, 0}));
  EXPECT_EQ(schedule_rows(Rows{50, 1000, 60}, {100, 64}), (Rows{50, 0, 14}));
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

TEST(PrefillPace, WhereNobodyAnswersAStepEndsInTime) {
  PrefillPace pace(2);
  constexpr uint64_t kMuch = 1 << 20;
  EXPECT_LT(pace.rows_alone(kMuch, 4096), 100u) << "nothing is known of the machine yet";
  for (const double row : {1e-5, 1e-3, 5e-3, 1e-2, 1.0, 1e-4}) {
    for (int i = 0; i < 40; ++i)
      pace.record_alone(pace.rows_alone(kMuch, 2048), row * pace.rows_alone(kMuch, 2048));
    const uint32_t rows = pace.rows_alone(kMuch, 2048);
    EXPECT_TRUE(rows == 32 || rows * row <= PrefillPace::kLongestStep) << row;
    EXPECT_TRUE(rows == 2048 || rows * row >= PrefillPace::kLongestStep / 2) << row;
    EXPECT_EQ(pace.rows_alone(kMuch, 8), 8u) << "never more than the chunk";
  }
  // A machine that is busy with other things: small steps would not end sooner.
  for (int i = 0; i < 40; ++i) pace.record_alone(pace.rows_alone(kMuch, 2048), 0.2);
  EXPECT_EQ(pace.rows_alone(kMuch, 2048), 2048u);
}

// A short step behind it costs more than a somewhat longer one.
TEST(PrefillPace, AnswersWaitForACrowdBySlowdownButNeverForLong) {
  EXPECT_EQ(PrefillPace(1).hold_seconds(), 0);
  EXPECT_EQ(PrefillPace(2).hold_seconds(), 1);
  EXPECT_EQ(PrefillPace(1000).hold_seconds(), PrefillPace::kLongestHold);
}

TEST(PrefillPace, AStepTakesUpToHalfMoreWhereThatEndsAllPrompts) {
  PrefillPace pace(2);
  const uint32_t rows = pace.rows_alone(1 << 20, 2048);
  for (uint32_t left = 1; left < 3 * rows; ++left)
    EXPECT_EQ(pace.rows_alone(left, 2048), left > rows && left <= rows + rows / 2 ? left : rows);
  EXPECT_EQ(pace.rows_alone(rows + 9, rows + 3), rows + 3) << "never more than the chunk";
  // Such a step may take half as long again.
  for (int i = 0; i < 40; ++i) pace.record_alone(rows + rows / 2, 1.4 * PrefillPace::kLongestStep);
  EXPECT_EQ(pace.rows_alone(1 << 20, 2048), rows);
}

TEST(PrefillPace, PartsOfPiecesLeaveStepsOfAnswersTheTimeThatTheyMayTake) {
  for (const double slowdown : {1.0, 1.5, 2.0, 5.0}) {
    PrefillPace pace(slowdown);
    EXPECT_EQ(pace.piece_seconds(), 0) << "nothing is known of answers yet";
    // A step in five is three times as long as usual, whatever is in it.
    for (int i = 0; i < 50; ++i) pace.record_answers(i % 5 == 0 ? 0.060 : 0.020, false);
    EXPECT_LE(0.020 + pace.piece_seconds(), slowdown * 0.020) << slowdown;
    EXPECT_GE(0.020 + pace.piece_seconds(), 0.7 * slowdown * 0.020) << slowdown;
  }
}

// Answers that take `alone` by themselves and `beside` behind a part of a piece: what a token takes
// at last.
double usual_token(PrefillPace& pace, double alone, double beside) {
  for (int i = 0; i < 200; ++i) {
    const bool rests = pace.rests();
    pace.record_answers(rests ? alone : beside, !rests);
  }
  return beside + pace.piece_seconds();
}

TEST(PrefillPace, StepsThatArePiecesMakeSlowerCountAgainstThePieces) {
  PrefillPace pace(2);
  for (int i = 0; i < 20; ++i) pace.record_answers(0.020, false);
  EXPECT_NEAR(usual_token(pace, 0.020, 0.025), 0.028, 1e-3);
  EXPECT_NEAR(usual_token(pace, 0.030, 0.036), 0.042, 1e-3) << "answers have grown longer";
  EXPECT_NEAR(usual_token(pace, 0.010, 0.012), 0.014, 1e-3) << "some have ended";
  EXPECT_NEAR(usual_token(pace, 0.010, 0.030), 0.030, 1e-3) << "no room: a launch at a time";
}

TEST(PrefillPace, APieceRestsForOneStepInSixteen) {
  PrefillPace pace(2);
  int rests = 0;
  for (int i = 0; i < 160; ++i) {
    rests += pace.rests();
    pace.record_answers(0.02, !pace.rests());
  }
  EXPECT_EQ(rests, 10);
}

// Rows of pieces that a pace settles at where a launch takes seconds(rows).
template <typename Seconds>
uint32_t settle(PrefillPace& pace, uint32_t chunk, Seconds seconds) {
  for (int i = 0; i < 40; ++i) {
    const uint32_t rows = pace.piece_rows(chunk);
    EXPECT_GE(rows, 1u);
    EXPECT_LE(rows, chunk);
    pace.record_piece(rows, seconds(rows));
  }
  return pace.piece_rows(chunk);
}

TEST(PrefillPace, PiecesAreAsLargeAsLaunchesStayShort) {
  PrefillPace pace(2);
  for (int i = 0; i < 15; ++i) pace.record_answers(0.020, false);  // 8 ms for a part of a piece
  EXPECT_EQ(settle(pace, 64, [](uint32_t rows) { return 1e-6 * rows; }), 64u);
  const uint32_t rows = settle(pace, 64, [](uint32_t n) { return 2e-4 * n; });
  EXPECT_LE(2e-4 * rows, 0.5 * pace.piece_seconds());
  EXPECT_GE(rows, 16u);
  EXPECT_GE(settle(pace, 64, [](uint32_t) { return 1.0; }), 8u) << "no launch is short";
  EXPECT_EQ(settle(pace, 64, [](uint32_t n) { return 1e-6 * n; }), 64u) << "it looks again";
  EXPECT_EQ(pace.piece_rows(4), 4u) << "never more than the chunk";
}

}  // namespace
}  // namespace flare::runtime
