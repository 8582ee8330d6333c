// Settings reach the kernel unchanged; the draw counter depends on the answer alone; rules over
// single ids apply where they should.
#include "runtime/sampler/sampler.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace flare::runtime {
namespace {

using Ids = std::vector<int32_t>;
constexpr uint32_t kVocabulary = 100;

SamplingSettings with_rules(TokenRules rules) {
  SamplingSettings s;
  s.rules = std::make_shared<const TokenRules>(std::move(rules));
  return s;
}

std::multiset<int32_t> banned(const kernel::SampleParams& p) {
  return {p.banned, p.banned + p.n_banned};
}

TEST(Sampler, CarriesEverySetting) {
  SamplingSettings s;
  s.temperature = 0.25f;
  s.top_k = 11;
  s.top_p = 0.5f;
  s.min_p = 0.125f;
  s.typical_p = 0.75f;
  s.top_n_sigma = 2.5f;
  s.xtc_probability = 0.375f;
  s.xtc_threshold = 0.0625f;
  s.repetition_penalty = 1.5f;
  s.repeat_last_n = -1;
  s.presence_penalty = 0.75f;
  s.frequency_penalty = -0.5f;
  s.seed = 0xfedcba9876543210u;
  s.choice = 3;
  s.id_limit = 90;
  Sampler sampler(s, {}, kVocabulary);
  const Ids history = {5, 6, 7, 8, 9};
  std::vector<uint32_t> mask(4);
  const kernel::SampleParams p = sampler.next(history, 2, mask);
  EXPECT_EQ(p.temperature, 0.25f);
  EXPECT_EQ(p.top_k, 11);
  EXPECT_EQ(p.top_p, 0.5f);
  EXPECT_EQ(p.min_p, 0.125f);
  EXPECT_EQ(p.typical_p, 0.75f);
  EXPECT_EQ(p.top_n_sigma, 2.5f);
  EXPECT_EQ(p.xtc_probability, 0.375f);
  EXPECT_EQ(p.xtc_threshold, 0.0625f);
  EXPECT_EQ(p.repetition_penalty, 1.5f);
  EXPECT_EQ(p.repeat_last_n, -1);
  EXPECT_EQ(p.presence_penalty, 0.75f);
  EXPECT_EQ(p.frequency_penalty, -0.5f);
  EXPECT_EQ(p.seed, 0xfedcba9876543210u);
  EXPECT_EQ(p.choice, 3u);
  EXPECT_EQ(p.id_limit, 90);
  EXPECT_EQ(p.mask, mask.data());
  EXPECT_EQ(p.history, history.data());
  EXPECT_EQ(p.n_history, 5);
  EXPECT_EQ(p.n_prompt, 2);
}

TEST(Sampler, NeutralSettingsAskForNothing) {
  Sampler sampler({}, {7}, kVocabulary);
  const kernel::SampleParams p = sampler.next(Ids{1, 2, 3}, 2, {});
  EXPECT_EQ(p.mask, nullptr);
  EXPECT_EQ(p.n_bias + p.n_banned + p.n_extra, 0);
  EXPECT_EQ(p.logprobs, nullptr);
}

TEST(Sampler, CountsDrawsFromTheStartOfTheAnswer) {
  const Ids history(40, 1);
  Sampler sampler({}, {}, kVocabulary);
  EXPECT_EQ(sampler.next(history, 40, {}).position, 0u);
  EXPECT_EQ(sampler.next(history, 3, {}).position, 37u);
}

TEST(Sampler, BiasAndBansAreThereFromTheFirstDraw) {
  Sampler sampler(with_rules({.bias = {{4, 1.5f}, {9, -2}}, .banned = {50, 51}}), {}, kVocabulary);
  for (const uint32_t n_prompt : {3u, 1u}) {
    const kernel::SampleParams p = sampler.next(Ids{50, 51, 52}, n_prompt, {});
    ASSERT_EQ(p.n_bias, 2);
    EXPECT_EQ(p.bias[0].id, 4);
    EXPECT_EQ(p.bias[0].value, 1.5f);
    EXPECT_EQ(p.bias[1].id, 9);
    EXPECT_EQ(p.bias[1].value, -2);
    EXPECT_EQ(banned(p), (std::multiset<int32_t>{50, 51}));
  }
}

TEST(Sampler, AllowedIdsNarrowTheConstraint) {
  Sampler sampler(with_rules({.allowed = {0, 31, 32, 99}}), {}, kVocabulary);
  const uint32_t* alone = sampler.next(Ids{1}, 1, {}).mask;
  EXPECT_EQ(Ids(alone, alone + 4), (Ids{static_cast<int32_t>(0x80000001u), 1, 0, 8}));
  std::vector<uint32_t> mask = {~0u << 1, 1, ~0u, 8};
  EXPECT_EQ(sampler.next(Ids{1}, 1, mask).mask, mask.data());
  EXPECT_EQ(mask, (std::vector<uint32_t>{0x80000000u, 1, 0, 8}));
}

TEST(Sampler, MinTokensKeepsStopIdsOut) {
  SamplingSettings s;
  s.min_tokens = 2;
  Sampler sampler(s, {7, 8}, kVocabulary);
  const Ids history = {1, 1, 1, 1};
  EXPECT_EQ(banned(sampler.next(history, 4, {})), (std::multiset<int32_t>{7, 8}));
  EXPECT_EQ(banned(sampler.next(history, 3, {})), (std::multiset<int32_t>{7, 8}));
  EXPECT_TRUE(banned(sampler.next(history, 2, {})).empty());
}

// The prompt does not count: what the answer says is what is forbidden.
TEST(Sampler, BadWordsLoseTheirLastIdWhereTheyWouldBecomeWhole) {
  Sampler sampler(with_rules({.bad_words = {{5}, {1, 2, 3}, {2, 4}, {1, 2, 1, 2, 6}}}), {},
                  kVocabulary);
  const Ids history = {1, 2, 1, 2, 1};
  EXPECT_EQ(banned(sampler.next(history, 5, {})), (std::multiset<int32_t>{5}));
  EXPECT_EQ(banned(sampler.next(Ids{9, 2}, 1, {})), (std::multiset<int32_t>{5, 4}));
  EXPECT_EQ(banned(sampler.next(Ids{9, 1, 2}, 2, {})), (std::multiset<int32_t>{5, 4}));
  EXPECT_EQ(banned(sampler.next(Ids{9, 1, 2}, 1, {})), (std::multiset<int32_t>{5, 3, 4}));
  EXPECT_EQ(banned(sampler.next(Ids{1, 2, 1, 2}, 0, {})), (std::multiset<int32_t>{5, 3, 4, 6}));
  EXPECT_EQ(banned(sampler.next(history, 0, {})), (std::multiset<int32_t>{5}));
}

TEST(Sampler, RefusesIdsOutsideTheVocabulary) {
  const auto refusal = [](TokenRules rules) -> std::string {
    try {
      Sampler(with_rules(std::move(rules)), {}, kVocabulary);
    } catch (const Error& e) {
      EXPECT_EQ(code_name(e.code()), code_name(Code::kInvalid));
      return e.message();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal({.bias = {{100, 1}}}), "logit_bias: token id 100 is outside 0..99");
  EXPECT_EQ(refusal({.banned = {-1}}), "logit_bias: token id -1 is outside 0..99");
  EXPECT_EQ(refusal({.allowed = {3, 200}}), "allowed_token_ids: token id 200 is outside 0..99");
  EXPECT_EQ(refusal({.bad_words = {{3, 100}}}), "bad_words: token id 100 is outside 0..99");
  EXPECT_EQ(refusal({.bad_words = {{}}}), "bad_words: a sequence of no tokens");
  EXPECT_EQ(refusal({.bias = {{99, 1}}, .banned = {0}, .allowed = {99}, .bad_words = {{99}}}),
            "accepted");
}

}  // namespace
}  // namespace flare::runtime
