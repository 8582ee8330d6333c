// Free inside the block, the answer's grammar behind it, and back again.
#include "server/service/reasoning_constraint.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"

namespace flare::server {
namespace {

using Start = ReasoningConstraint::Start;

const frontend::Tokenizer& nano() {
  static const frontend::Tokenizer tokenizer = [] {
    const std::string path = FLARE_SOURCE_DIR "/models/nano/tokenizer.json";
    return frontend::Tokenizer::from_json(read_text_file(path), path);
  }();
  return tokenizer;
}

int32_t id_of(std::string_view text) {
  const std::vector<int32_t> ids = nano().encode(text, {false, true});
  EXPECT_EQ(ids.size(), 1U) << text;
  return ids.at(0);
}

// Answers are "yes" or "no".
class Reasoned {
 public:
  explicit Reasoned(Start start, std::string_view format = "think",
                    std::optional<ReasoningConstraint::Budget> budget = std::nullopt)
      : end_(id_of("<|im_end|>")),
        vocabulary_(make_vocabulary(nano(), {&end_, 1})),
        constraint_(nano(), *frontend::find_reasoning_format(format), start,
                    std::make_unique<GrammarConstraint>(frontend::grammar::compile(
                        frontend::grammar::choice_grammar(words_), vocabulary_)),
                    std::move(budget)) {}

  // "free", or the legal tokens.
  std::string legal() {
    std::vector<uint32_t> mask(vocabulary_->mask_words(), 0);
    if (!constraint_.fill_mask(mask)) return "free";
    std::string list;
    for (int32_t id = 0; id < nano().id_limit(); ++id)
      if (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1)
        list += (list.empty() ? "" : " ") + nano().token_bytes(id);
    return list;
  }
  int write(std::string_view text) {
    const std::vector<int32_t> ids = nano().encode(text, {false, true});
    for (const int32_t id : ids) constraint_.advance(id);
    return static_cast<int>(ids.size());
  }
  void take(int32_t id) { constraint_.advance(id); }
  void rollback(int n) { constraint_.rollback(n); }

 private:
  const std::vector<std::string> words_ = {"yes", "no"};
  int32_t end_;
  std::shared_ptr<const frontend::grammar::Vocabulary> vocabulary_;
  ReasoningConstraint constraint_;
};

TEST(ReasoningConstraint, TheBlockIsFreeAndTheAnswerIsNot) {
  Reasoned answer(Start::kInside);
  EXPECT_EQ(answer.legal(), "free");
  answer.write("no <tool_call> or < /think> yet");
  EXPECT_EQ(answer.legal(), "free");
  answer.write("</think>");
  const std::string start = answer.legal();
  EXPECT_NE(start.find('n'), std::string::npos);
  EXPECT_EQ(start.find("<think>"), std::string::npos);
  answer.write("no");
  EXPECT_EQ(answer.legal(), "<|im_end|>");
}

TEST(ReasoningConstraint, AnAnswerMayBeginWithABlockOrWithoutOne) {
  Reasoned answer(Start::kMayOpen);
  const std::string start = answer.legal();
  EXPECT_NE(start.find("<think>"), std::string::npos);
  EXPECT_NE((" " + start + " ").find(" n "), std::string::npos);
  int n = answer.write("<think>why");
  EXPECT_EQ(answer.legal(), "free");
  answer.rollback(n);
  EXPECT_EQ(answer.legal(), start);
  n = answer.write("no");
  EXPECT_EQ(answer.legal(), "<|im_end|>");
  answer.rollback(n);
  EXPECT_EQ(answer.legal(), start);
}

TEST(ReasoningConstraint, DraftsAcrossTheEndOfTheBlockAreUndone) {
  // A closing text of several tokens, with the first letters of the answer in its last one or not.
  for (const std::string_view format : {"think", "think_seed"}) {
    Reasoned answer(Start::kInside, format);
    const std::string close(frontend::find_reasoning_format(format)->close);
    answer.write("so");
    for (int round = 0; round < 2; ++round) {
      const int closing = answer.write(close);
      const std::string start = answer.legal();
      EXPECT_NE(start, "free");
      const int word = answer.write("no");
      EXPECT_EQ(answer.legal(), "<|im_end|>");
      const int illegal = answer.write("no");
      EXPECT_EQ(answer.legal(), "");
      answer.rollback(illegal);
      EXPECT_EQ(answer.legal(), "<|im_end|>");
      answer.rollback(word);
      EXPECT_EQ(answer.legal(), start);
      answer.rollback(closing);
      EXPECT_EQ(answer.legal(), "free");
    }
    const int all = answer.write(close + "no");
    EXPECT_EQ(answer.legal(), "<|im_end|>");
    answer.rollback(all - 1);
    EXPECT_EQ(answer.legal() == "free", format == "think_seed");
  }
}

// Closing text as templates write it: a newline, the marker, two newlines.
ReasoningConstraint::Budget budget_of(uint32_t tokens) {
  return {tokens, nano().encode("\n</think>\n\n", {false, true})};
}

TEST(ReasoningConstraint, AUsedBudgetClosesTheBlockAndTheAnswerFollows) {
  for (const uint32_t budget : {0U, 1U, 3U}) {
    const auto closing = budget_of(budget).closing;
    Reasoned answer(Start::kInside, "think", budget_of(budget));
    for (uint32_t i = 0; i < budget; ++i) {
      EXPECT_EQ(answer.legal(), "free");
      EXPECT_EQ(answer.write("a"), 1);
    }
    for (const int32_t id : closing) {
      EXPECT_EQ(answer.legal(), nano().token_bytes(id));
      answer.take(id);
    }
    const std::string start = answer.legal();
    EXPECT_NE(start, "free");
    answer.write("no");
    EXPECT_EQ(answer.legal(), "<|im_end|>");
  }
}

TEST(ReasoningConstraint, ABlockThatClosesEarlierKeepsItsBudget) {
  Reasoned answer(Start::kInside, "think", budget_of(50));
  answer.write("so</think>");
  EXPECT_NE(answer.legal(), "free");
  answer.write("yes");
  EXPECT_EQ(answer.legal(), "<|im_end|>");
}

TEST(ReasoningConstraint, ABudgetCountsFromWhereTheModelOpensTheBlock) {
  Reasoned answer(Start::kMayOpen, "think", budget_of(2));
  EXPECT_NE(answer.legal(), "free");
  answer.write("<think>");
  EXPECT_EQ(answer.legal(), "free");
  answer.write("aa");
  EXPECT_EQ(answer.legal(), nano().token_bytes(budget_of(2).closing[0]));
}

TEST(ReasoningConstraint, DraftsAcrossTheBudgetAreUndone) {
  Reasoned answer(Start::kInside, "think", budget_of(2));
  const auto closing = budget_of(2).closing;
  for (int round = 0; round < 2; ++round) {
    answer.write("a");
    answer.write("b");
    for (const int32_t id : closing) answer.take(id);
    const int word = answer.write("no");
    EXPECT_EQ(answer.legal(), "<|im_end|>");
    answer.rollback(word + 1);
    EXPECT_EQ(answer.legal(), nano().token_bytes(closing.back()));
    answer.rollback(static_cast<int>(closing.size()));
    EXPECT_EQ(answer.legal(), "free");
    answer.rollback(1);
  }
}

TEST(ReasoningConstraint, WithoutAnAnswersConstraintTheAnswerIsFree) {
  ReasoningConstraint constraint(nano(), *frontend::find_reasoning_format("think"), Start::kInside,
                                 nullptr, budget_of(1));
  std::vector<uint32_t> mask(static_cast<size_t>(nano().id_limit()) / 32 + 1, 0);
  EXPECT_FALSE(constraint.fill_mask(mask));
  constraint.advance(id_of("a"));
  EXPECT_TRUE(constraint.fill_mask(mask));
  for (const int32_t id : budget_of(1).closing) constraint.advance(id);
  EXPECT_FALSE(constraint.fill_mask(mask));
  constraint.rollback(2);
  std::ranges::fill(mask, 0);
  EXPECT_TRUE(constraint.fill_mask(mask));
}

}  // namespace
}  // namespace flare::server
