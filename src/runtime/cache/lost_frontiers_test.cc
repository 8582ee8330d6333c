// What was evicted is known again, within the limit.
#include "runtime/cache/lost_frontiers.h"

#include <gtest/gtest.h>

#include <vector>

namespace flare::runtime {
namespace {

uint64_t hash(std::string_view salt, std::vector<int32_t> tokens) {
  return prefix_hash(prefix_hash(salt), tokens);
}

TEST(LostFrontiers, AreFoundBehindWhatIsThere) {
  LostFrontiers lost(10);
  const std::vector<int32_t> tokens = {5, 6, 7, 8};
  EXPECT_FALSE(lost.any_behind("s", tokens, 0));
  lost.add(hash("s", {5, 6, 7}));
  EXPECT_TRUE(lost.any_behind("s", tokens, 0));
  EXPECT_TRUE(lost.any_behind("s", tokens, 2));
  EXPECT_FALSE(lost.any_behind("s", tokens, 3)) << "that much is there";
  EXPECT_FALSE(lost.any_behind("t", tokens, 0));
  EXPECT_FALSE(lost.any_behind("s", std::vector<int32_t>{5, 6}, 0));
  EXPECT_FALSE(lost.any_behind("s", std::vector<int32_t>{5, 7, 6, 8}, 0));
}

TEST(LostFrontiers, TheOldestAreForgotten) {
  LostFrontiers lost(2);
  for (int32_t i = 0; i < 3; ++i) lost.add(hash("", {i}));
  lost.add(hash("", {2}));  // known already
  EXPECT_EQ(lost.size(), 2u);
  EXPECT_FALSE(lost.any_behind("", std::vector<int32_t>{0}, 0));
  EXPECT_TRUE(lost.any_behind("", std::vector<int32_t>{1}, 0));
  EXPECT_TRUE(lost.any_behind("", std::vector<int32_t>{2}, 0));
}

}  // namespace
}  // namespace flare::runtime
