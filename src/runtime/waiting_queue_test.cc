// Whose turn it is: priority, arrival, and how often anyone is passed.
#include "runtime/waiting_queue.h"

#include <gtest/gtest.h>

#include <random>

namespace flare::runtime {
namespace {

std::unique_ptr<Active> waiting(uint64_t arrival, int priority = 0) {
  auto a = std::make_unique<Active>();
  a->arrival = arrival;
  a->request.priority = priority;
  return a;
}

std::vector<uint64_t> arrivals(WaitingQueue& queue) {
  std::vector<uint64_t> order;
  while (!queue.empty()) {
    const Active* const next = queue.front();
    const auto taken = queue.pop();
    EXPECT_EQ(taken.get(), next);
    order.push_back(taken->arrival);
  }
  EXPECT_EQ(queue.front(), nullptr);
  return order;
}

TEST(WaitingQueue, HigherPriorityFirstThenArrival) {
  WaitingQueue queue;
  queue.push(waiting(3, 0));
  queue.push(waiting(1, -10));
  queue.push(waiting(2, 0));
  queue.push(waiting(5, 10));
  queue.push(waiting(4, 10));
  EXPECT_EQ(arrivals(queue), (std::vector<uint64_t>{4, 5, 2, 3, 1}));
}

TEST(WaitingQueue, NobodyIsPassedByMoreThanEight) {
  WaitingQueue queue;
  queue.push(waiting(1, -10));
  queue.push(waiting(2, -5));
  for (uint64_t i = 3; i < 20; ++i) queue.push(waiting(i, 10));
  const auto order = arrivals(queue);
  // Eight pass both; then the one that came first, then the other.
  EXPECT_EQ((std::vector<uint64_t>(order.begin() + 8, order.begin() + 11)),
            (std::vector<uint64_t>{1, 2, 11}));
}

TEST(WaitingQueue, TheBoundHoldsForEveryOrderOfArrivals) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    WaitingQueue queue;
    uint64_t arrival = 0;
    for (int i = 0; i < 400; ++i) {
      if (queue.empty() || random() % 2 == 0) {
        queue.push(waiting(arrival++, static_cast<int>(random() % 21) - 10));
      } else {
        const auto taken = queue.pop();
        ASSERT_LE(taken->bypassed, kMaxBypass) << "seed " << seed;
      }
    }
    while (!queue.empty()) ASSERT_LE(queue.pop()->bypassed, kMaxBypass) << "seed " << seed;
  }
}

TEST(WaitingQueue, DropsWhoIsGone) {
  WaitingQueue queue;
  for (uint64_t i = 0; i < 6; ++i) queue.push(waiting(i));
  queue.erase_if([](const Active& a) { return a.arrival % 2 == 0; });
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(arrivals(queue), (std::vector<uint64_t>{1, 3, 5}));
}

}  // namespace
}  // namespace flare::runtime
