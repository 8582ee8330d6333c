// Promises of team.h: every member runs, barriers order, shares partition, failures come back.
#include "base/team.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>

#include "base/cpu.h"
#include "base/test_support.h"

namespace flare {
namespace {

// 1: no thread at all. 8: more members than most test machines have cores.
constexpr int kSizes[] = {1, 2, 3, 8};

TEST(Team, EveryMemberRunsOnceWithItsOwnIndex) {
  for (int size : kSizes) {
    Team team(size);
    EXPECT_EQ(team.size(), size);
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<int> calls(static_cast<size_t>(size), 0);
      team.run([&](Member& member) {
        EXPECT_EQ(member.count(), size);
        ++calls[static_cast<size_t>(member.index())];
      });
      EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(size), 1));
    }
  }
}

TEST(Team, CallerIsMemberZeroAndOthersHaveThreadsOfTheirOwn) {
  Team team(4);
  std::vector<std::thread::id> ids(4);
  team.run([&](Member& m) { ids[static_cast<size_t>(m.index())] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(ids.begin(), ids.end()).size(), 4u);
}

TEST(Team, BarrierShowsWhatEveryMemberWroteBefore) {
  constexpr int kRounds = 200;
  for (int size : kSizes) {
    Team team(size);
    std::vector<int> cell(static_cast<size_t>(size), 0);  // plain memory: a race would be seen
    std::vector<int> wrong(static_cast<size_t>(size), 0);
    team.run([&](Member& member) {
      const auto me = static_cast<size_t>(member.index());
      for (int round = 1; round <= kRounds; ++round) {
        cell[me] = round;
        member.barrier();
        for (int value : cell) wrong[me] += value != round;
        member.barrier();
      }
    });
    EXPECT_EQ(wrong, std::vector<int>(static_cast<size_t>(size), 0));
  }
}

TEST(Team, SharesPartitionTheRangeInMultiplesOfTheGrain) {
  for (int count : {1, 2, 3, 7, 64}) {
    for (int64_t n : {0, 1, 2, 5, 63, 64, 65, 1000, 4097}) {
      for (int64_t grain : {1, 2, 16, 100}) {
        int64_t next = 0;
        for (int i = 0; i < count; ++i) {
          const auto [begin, end] = Member(nullptr, i, count).share(n, grain);
          ASSERT_EQ(begin, next) << count << " " << n << " " << grain;
          ASSERT_LE(begin, end);
          if (end != n) {
            ASSERT_EQ(end % grain, 0);
          }
          // No member has more than one block more than its fair part.
          ASSERT_LE((end - begin + grain - 1) / grain, (n + grain - 1) / grain / count + 1);
          next = end;
        }
        ASSERT_EQ(next, n) << count << " " << grain;
      }
    }
  }
}

TEST(Team, ForRangeVisitsEveryIndexOnce) {
  for (int size : kSizes) {
    Team team(size);
    for (int64_t n : {0, 1, 7, 1000}) {
      std::vector<int> visits(static_cast<size_t>(n), 0);
      team.for_range(n, 4, [&](int64_t begin, int64_t end) {
        ASSERT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(std::accumulate(visits.begin(), visits.end(), int64_t{0}), n);
      EXPECT_TRUE(std::ranges::all_of(visits, [](int v) { return v == 1; }));
    }
  }
}

TEST(Team, ExceptionOfAnyMemberComesBackAndTheTeamStaysUsable) {
  for (int size : kSizes) {
    Team team(size);
    for (int thrower = 0; thrower < size; ++thrower) {
      try {
        team.run([&](Member& member) {
          if (member.index() == thrower) throw std::runtime_error(std::to_string(thrower));
        });
        ADD_FAILURE() << "member " << thrower << " of " << size;
      } catch (const std::runtime_error& e) {
        EXPECT_EQ(e.what(), std::to_string(thrower));
      }
      std::atomic<int> ran{0};
      team.run([&](Member&) { ++ran; });
      EXPECT_EQ(ran, size);
    }
  }
}

TEST(Team, WhenAllMembersThrowOneExceptionComesBack) {
  Team team(8);
  EXPECT_THROW(team.run([](Member&) { throw std::logic_error("all"); }), std::logic_error);
  std::atomic<int> ran{0};
  team.run([&](Member&) { ++ran; });
  EXPECT_EQ(ran, 8);
}

TEST(Team, DealsEveryItemOnceAndAnewBehindEachBarrier) {
  for (int size : kSizes) {
    Team team(size);
    constexpr int64_t kItems = 100, kPhases = 20;
    std::vector<std::atomic<int>> dealt(kItems * kPhases);
    for (int run = 1; run <= 2; ++run) {
      team.run([&](Member& member) {
        for (int64_t phase = 0; phase < kPhases; ++phase) {
          if (phase > 0) member.barrier();
          for (int64_t i = member.take(); i < kItems; i = member.take())
            ++dealt[phase * kItems + i];
        }
      });
      EXPECT_TRUE(std::ranges::all_of(dealt, [&](const auto& n) { return n == run; })) << size;
    }
  }
}

// The mask of the thread that calls it.
std::vector<int> mask_of_this_thread() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> out;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) out.push_back(i);
  return out;
}
std::vector<std::vector<int>> masks(Team& team) {
  std::vector<std::vector<int>> out(static_cast<size_t>(team.size()));
  team.run([&](Member& m) { out[static_cast<size_t>(m.index())] = mask_of_this_thread(); });
  return out;
}

TEST(Team, PinsOneMemberPerCoreOnlyWhenAsked) {
  std::jthread owner([] {  // its mask stays changed
    const std::vector<int> before = mask_of_this_thread();
    const std::vector<int> cores = own_cores();
    Team team(static_cast<int>(cores.size()));
    for (const auto& mask : masks(team)) EXPECT_EQ(mask, before);
    ASSERT_TRUE(team.pin());
    const auto pinned = masks(team);
    for (size_t i = 0; i < cores.size(); ++i) EXPECT_EQ(pinned[i], std::vector<int>{cores[i]});
  });
}

TEST(Team, OtherThanOneMemberPerCoreStaysUnpinned) {
  std::jthread owner([] {
    const std::vector<int> before = mask_of_this_thread();
    const int n = static_cast<int>(own_cores().size());
    for (const int size : {n - 1, n + 1}) {
      if (size == 0) continue;
      Team team(size);
      EXPECT_FALSE(team.pin());
      for (const auto& mask : masks(team)) EXPECT_EQ(mask, before);
    }
  });
}

// The cores that a team was built for may be taken away, and its threads moved.
TEST(Team, WorksOnWhenTheMaskShrinksBeforeOrAfterPinning) {
  std::jthread owner([] {
    const std::vector<int> cores = own_cores();
    Team team(static_cast<int>(cores.size()));
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cores.back(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    std::atomic<int> ran{0};
    team.run([&](Member&) { ++ran; });
    team.pin();
    team.run([&](Member&) { ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0); });
    for (int i = 0; i < 20; ++i)
      team.run([&](Member& m) {
        m.barrier();
        ++ran;
      });
    EXPECT_EQ(ran, 21 * team.size());
  });
}

// Stacks that no address space holds: the system refuses the first thread.
TEST(Team, AThreadThatTheSystemRefusesIsALackOfRoom) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 56), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  const Error error = error_of([] { Team team(3); });
  EXPECT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(error.code(), Code::kDoesNotFit);
  EXPECT_TRUE(error.message().starts_with("3 threads: ")) << error.message();
  EXPECT_NE(error.hint().find("--threads"), std::string::npos) << error.hint();
}

double cpu_seconds_of_process() {
  rusage use;
  EXPECT_EQ(getrusage(RUSAGE_SELF, &use), 0);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// An idle server has teams of this kind. Processor time, not time: other programs do not count.
TEST(Team, IdleWorkersUseLessThanAHundredthOfACore) {
  Team small(2), large(8);
  small.run([](Member&) {});
  large.run([](Member&) {});
  // One period longer than any polling, and the wait that is measured.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = cpu_seconds_of_process();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(cpu_seconds_of_process() - before, 0.005);
}

// Processor time that polling for as long as the others take would use is a tenth of a second each.
TEST(Team, MembersThatWaitLongAtABarrierSleep) {
  for (const int size : {2, static_cast<int>(own_cores().size()) + 2}) {
    Team team(size);
    const double before = cpu_seconds_of_process();
    team.run([](Member& member) {
      if (member.index() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      member.barrier();
    });
    EXPECT_LT(cpu_seconds_of_process() - before, 0.02);
  }
}

TEST(Team, TwoTeamsLiveSideBySide) {
  Team a(3), b(2);
  std::atomic<int> sum{0};
  for (int i = 0; i < 50; ++i) {
    a.run([&](Member&) { ++sum; });
    b.run([&](Member&) { ++sum; });
  }
  EXPECT_EQ(sum, 250);
}

TEST(Team, IdleTeamsCanBeDestroyedAtOnce) {
  for (int i = 0; i < 50; ++i) {
    Team unused(4);
    Team used(2);
    used.run([](Member&) {});
  }
}

}  // namespace
}  // namespace flare
