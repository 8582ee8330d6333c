// The text of a member for every way of cutting the object.
#include "server/api/openai/text_member.h"

#include <gtest/gtest.h>

namespace flare::server {
namespace {

TEST(TextMember, EveryCutGivesTheSameText) {
  const std::string json =
      R"( { "input" : "a \"b\" \\ \n \u00e9 \ud83d\ude00 \ud000 ž" , "other": {"input": "x"}} )";
  const std::string text = "a \"b\" \\ \n \u00e9 \U0001f600 \ud000 ž";
  for (size_t cut = 0; cut <= json.size(); ++cut) {
    if (cut < json.size() && (static_cast<unsigned char>(json[cut]) & 0xc0) == 0x80) continue;
    TextMember member("input");
    std::string got = member.push(json.substr(0, cut));
    got += member.push(json.substr(cut));
    got += member.finish(true);
    EXPECT_EQ(got, text) << cut;
    EXPECT_EQ(member.text(), text) << cut;
  }
}

TEST(TextMember, TextComesWhileItIsWritten) {
  TextMember member("input");
  EXPECT_EQ(member.push(R"({"input":)"), "");
  EXPECT_EQ(member.push(R"("one)"), "one");
  EXPECT_EQ(member.push(R"( two\)"), " two");
  EXPECT_EQ(member.push(R"(n)"), "\n");
  EXPECT_EQ(member.finish(false), "");
  EXPECT_EQ(member.text(), "one two\n");
}

TEST(TextMember, AnotherShapeIsShownAtTheEnd) {
  TextMember later("input");
  EXPECT_EQ(later.push(R"({"a": 1, "input": "x"})"), "");
  EXPECT_EQ(later.finish(true), "x");
  TextMember number("input");
  EXPECT_EQ(number.push(R"({"input": 5})"), "");
  EXPECT_EQ(number.finish(true), "5");
  TextMember none("input");
  EXPECT_EQ(none.push(R"({"a": 1})"), "");
  EXPECT_EQ(none.finish(true), R"({"a": 1})");
}

}  // namespace
}  // namespace flare::server
