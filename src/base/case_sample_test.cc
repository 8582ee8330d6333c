// The choice of cases: one of every stretch, the same for the same seed, all when asked.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/case_sample_fixture.h"

namespace flare {
namespace {

std::vector<uint32_t> picked(const TestMatrix& matrix, int one_in, int n) {
  SampledCases cases(one_in, matrix);
  std::vector<uint32_t> out;
  for (int i = 0; i < n; ++i)
    if (cases.next()) out.push_back(cases.number());
  EXPECT_EQ(cases.n_run(), static_cast<int64_t>(out.size()));
  return out;
}

TEST(SampledCases, OneOfEveryStretchRuns) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<uint32_t> cases = picked({.seed = seed}, 8, 800);
    ASSERT_EQ(cases.size(), 100u);
    for (size_t block = 0; block < cases.size(); ++block) EXPECT_EQ((cases[block] - 1) / 8, block);
  }
}

TEST(SampledCases, ASeedRepeatsAndSeedsMeetEveryCase) {
  std::set<uint32_t> met;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<uint32_t> cases = picked({.seed = seed}, 8, 16);
    EXPECT_EQ(cases, picked({.seed = seed}, 8, 16));
    met.insert(cases.begin(), cases.end());
  }
  EXPECT_EQ(met.size(), 16u);
}

TEST(SampledCases, TheFullMatrixLeavesNothingOut) {
  EXPECT_EQ(picked({.full = true}, 8, 83).size(), 83u);
}

}  // namespace
}  // namespace flare
