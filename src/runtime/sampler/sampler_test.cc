// Settings reach the kernel unchanged; the draw counter depends on the answer alone.
#include "runtime/sampler/sampler.h"

#include <gtest/gtest.h>

namespace flare::runtime {
namespace {

TEST(SampleParams, CarryEverySetting) {
  SamplingSettings s;
  s.temperature = 0.25f;
  s.top_k = 11;
  s.top_p = 0.5f;
  s.min_p = 0.125f;
  s.repetition_penalty = 1.5f;
  s.repeat_last_n = -1;
  s.presence_penalty = 0.75f;
  s.frequency_penalty = -0.5f;
  s.seed = 0xfedcba9876543210u;
  s.choice = 3;
  s.id_limit = 90;
  const std::vector<int32_t> history = {5, 6, 7, 8, 9};
  const uint32_t mask[4] = {};
  const kernel::SampleParams p = sample_params(s, history, 2, mask);
  EXPECT_EQ(p.temperature, 0.25f);
  EXPECT_EQ(p.top_k, 11);
  EXPECT_EQ(p.top_p, 0.5f);
  EXPECT_EQ(p.min_p, 0.125f);
  EXPECT_EQ(p.repetition_penalty, 1.5f);
  EXPECT_EQ(p.repeat_last_n, -1);
  EXPECT_EQ(p.presence_penalty, 0.75f);
  EXPECT_EQ(p.frequency_penalty, -0.5f);
  EXPECT_EQ(p.seed, 0xfedcba9876543210u);
  EXPECT_EQ(p.choice, 3u);
  EXPECT_EQ(p.id_limit, 90);
  EXPECT_EQ(p.mask, mask);
  EXPECT_EQ(p.history, history.data());
  EXPECT_EQ(p.n_history, 5);
  EXPECT_EQ(p.n_prompt, 2);
}

TEST(SampleParams, CountDrawsFromTheStartOfTheAnswer) {
  const std::vector<int32_t> history(40, 1);
  EXPECT_EQ(sample_params({}, history, 40, nullptr).position, 0u);
  EXPECT_EQ(sample_params({}, history, 3, nullptr).position, 37u);
  EXPECT_EQ(sample_params({}, history, 3, nullptr).purpose, 0u);
}

}  // namespace
}  // namespace flare::runtime
