// The adapter between grammars and the engine.
#include "server/service/grammar_constraint.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace flare::server {
namespace {

using namespace frontend::grammar;

TEST(GrammarConstraint, MasksRollBackAndEndWithTheModelsTokens) {
  const std::string path = std::string(FLARE_SOURCE_DIR) + "/models/nano/tokenizer.json";
  const auto tokenizer = frontend::Tokenizer::from_json(read_text_file(path), path);
  int32_t end = -1;
  for (int32_t id = 0; id < tokenizer.id_limit(); ++id)
    if (tokenizer.is_special(id)) end = id;
  ASSERT_GE(end, 0);
  const auto vocabulary = make_vocabulary(tokenizer, {&end, 1});
  const std::vector<std::string> words = {"yes", "no"};
  GrammarConstraint constraint(compile(choice_grammar(words), vocabulary));
  const auto legal = [&] {
    std::vector<uint32_t> mask(vocabulary->mask_words() + 3, 0);
    EXPECT_TRUE(constraint.fill_mask(mask));
    std::vector<std::string> out;
    for (int32_t id = 0; id < tokenizer.id_limit(); ++id)
      if (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1)
        out.push_back(id == end ? "END" : tokenizer.token_bytes(id));
    return out;
  };
  const auto at_start = legal();
  for (const std::string& text : at_start)
    EXPECT_TRUE(std::string("yes").starts_with(text) || std::string("no").starts_with(text))
        << text;
  EXPECT_FALSE(at_start.empty());
  const std::vector<int32_t> ids = tokenizer.encode("no", {false, false});
  for (const int32_t id : ids) constraint.advance(id);
  EXPECT_EQ(legal(), std::vector<std::string>{"END"});
  constraint.advance(ids[0]);  // an illegal draft
  EXPECT_TRUE(legal().empty());
  constraint.advance(end);
  constraint.rollback(2);
  EXPECT_EQ(legal(), std::vector<std::string>{"END"});
  constraint.advance(end);
  EXPECT_TRUE(legal().empty());
  constraint.rollback(1 + static_cast<int>(ids.size()));
  EXPECT_EQ(legal(), at_start);
}

}  // namespace
}  // namespace flare::server
