// Free inside the block, the answer's grammar behind it, and back again.
#include "server/service/reasoning_constraint.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace flare::server {
namespace {

using Start = AfterReasoning::Start;

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
  Reasoned(Start start, std::string_view format = "think")
      : end_(id_of("<|im_end|>")),
        vocabulary_(make_vocabulary(nano(), {&end_, 1})),
        constraint_(nano(), *frontend::find_reasoning_format(format), start,
                    std::make_unique<GrammarConstraint>(frontend::grammar::compile(
                        frontend::grammar::choice_grammar(words_), vocabulary_))) {}

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
  void rollback(int n) { constraint_.rollback(n); }

 private:
  const std::vector<std::string> words_ = {"yes", "no"};
  int32_t end_;
  std::shared_ptr<const frontend::grammar::Vocabulary> vocabulary_;
  AfterReasoning constraint_;
};

TEST(AfterReasoning, TheBlockIsFreeAndTheAnswerIsNot) {
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

TEST(AfterReasoning, AnAnswerMayBeginWithABlockOrWithoutOne) {
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

TEST(AfterReasoning, DraftsAcrossTheEndOfTheBlockAreUndone) {
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

}  // namespace
}  // namespace flare::server
