// Tests of MarkedText: origins survive appending and cutting.
#include "frontend/marked_text.h"

#include <gtest/gtest.h>

namespace flare::frontend {
namespace {

using Runs = std::vector<MarkedText::Run>;

TEST(MarkedText, MergesNeighboursOfOneOriginAndDropsEmptyText) {
  MarkedText text;
  text.append("ab", Origin::kTemplate);
  text.append("", Origin::kCaller);
  text.append("c", Origin::kTemplate);
  text.append("de", Origin::kCaller);
  text.append(MarkedText("f", Origin::kCaller));
  EXPECT_EQ(text.text(), "abcdef");
  EXPECT_EQ(text.runs(), (Runs{{3, Origin::kTemplate}, {6, Origin::kCaller}}));
  EXPECT_TRUE(MarkedText("", Origin::kCaller).runs().empty());
}

TEST(MarkedText, AppendsItself) {
  MarkedText text("a", Origin::kTemplate);
  text.append("b", Origin::kCaller);
  text.append(text);
  EXPECT_EQ(text.text(), "abab");
  EXPECT_EQ(text.runs().size(), 4u);
}

TEST(MarkedText, SlicesKeepOriginsOfEveryByte) {
  MarkedText text("ab", Origin::kTemplate);
  text.append("cd", Origin::kCaller);
  text.append("ef", Origin::kTemplate);
  for (size_t begin = 0; begin <= text.size(); ++begin) {
    for (size_t end = begin; end <= text.size(); ++end) {
      const MarkedText part = text.slice(begin, end);
      EXPECT_EQ(part.text(), text.text().substr(begin, end - begin));
      for (size_t i = begin; i < end; ++i)
        EXPECT_EQ(part.all_template(i - begin, i - begin + 1), text.all_template(i, i + 1));
    }
  }
}

TEST(MarkedText, AllTemplateNeedsEveryByte) {
  MarkedText text("ab", Origin::kTemplate);
  text.append("c", Origin::kCaller);
  text.append("d", Origin::kTemplate);
  EXPECT_TRUE(text.all_template(0, 2));
  EXPECT_TRUE(text.all_template(3, 4));
  EXPECT_TRUE(text.all_template(2, 2));
  EXPECT_FALSE(text.all_template(0, 3));
  EXPECT_FALSE(text.all_template(1, 4));
  EXPECT_FALSE(text.all_template(2, 3));
}

}  // namespace
}  // namespace flare::frontend
