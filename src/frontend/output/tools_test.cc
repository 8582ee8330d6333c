// Which types schemas allow, against answers derived from JSON Schema by hand.
#include "frontend/output/tools.h"

#include <gtest/gtest.h>

#include "frontend/output/format.h"

namespace flare::frontend {
namespace {

uint8_t types(std::string_view text) {
  const Json root = parse_json(text, "schema");
  return schema_types(root, &root);
}

TEST(SchemaTypes, FollowTypeListsAndCombinations) {
  EXPECT_EQ(types(R"({"type":"integer"})"), kNumberType);
  EXPECT_EQ(types(R"({"type":["string","null"]})"), kStringType | kNullType);
  EXPECT_EQ(types(R"({"anyOf":[{"type":"boolean"},{"type":"array"}]})"), kBoolType | kArrayType);
  EXPECT_EQ(types(R"({"oneOf":[{"type":"object"},{"const":3}]})"), kObjectType | kNumberType);
  EXPECT_EQ(types(R"({"anyOf":[{"enum":["edit","view"]},{"const":"x"}]})"), kStringType);
  EXPECT_EQ(types(R"({"enum":[1,"a",null]})"), kNumberType | kStringType | kNullType);
  EXPECT_EQ(types(R"({"allOf":[{"type":["string","number"]},{"type":["number","null"]}]})"),
            kNumberType);
  EXPECT_EQ(types(R"({"type":"number","nullable":true})"), kNumberType | kNullType);
  EXPECT_EQ(types(R"({"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"boolean"}}})"), kBoolType);
  EXPECT_EQ(types("{}"), kAnyType);
  EXPECT_EQ(types("true"), kAnyType);
}

TEST(SchemaTypes, EndlessReferencesEnd) {
  EXPECT_EQ(types(R"({"$ref":"#"})"), kAnyType);
  EXPECT_EQ(types(R"({"anyOf":[{"$ref":"#"},{"$ref":"#"},{"$ref":"#"}]})"), kAnyType);
  EXPECT_EQ(types(R"({"$ref":"#/nothing"})"), kAnyType);
  EXPECT_EQ(types(R"({"$ref":"http://elsewhere/x"})"), kAnyType);
}

TEST(SchemaTypes, FindMembersAndItems) {
  const Json root = parse_json(R"({"$ref":"#/$defs/t","$defs":{"t":{"anyOf":[{"type":"null"},)"
                               R"({"properties":{"a":{"items":{"type":"number"}}}}]}}})",
                               "schema");
  const Json* a = member_schema(root, &root, "a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(schema_types(root, item_schema(root, a)), kNumberType);
  EXPECT_EQ(member_schema(root, &root, "b"), nullptr);
}

TEST(ToolSet, ReadsBothShapesAndSkipsWhatIsNoFunction) {
  const ToolSet set = ToolSet::from_json(parse_json(
      R"([{"type":"function","function":{"name":"a","parameters":{"type":"object"},"strict":true}},
          {"type":"function","name":"b"},{"name":"c","input_schema":{"x":1}},
          {"type":"web_search"},{"type":"function","function":{"name":"a"}},7])",
      "tools"));
  ASSERT_EQ(set.tools().size(), 3u);
  EXPECT_TRUE(set.find("a")->strict);
  EXPECT_TRUE(set.find("b")->parameters.is_null());
  EXPECT_EQ(set.find("c")->parameters.to_text(), R"({"x":1})");
  EXPECT_EQ(set.find("d"), nullptr);
}

TEST(Formats, HaveTheNamesOfTheTable) {
  for (const char* name : {"none", "hermes", "qwen_xml", "dsml", "xtml", "kimi", "llama3",
                           "mistral", "harmony", "gemma", "glm", "minimax", "atem"}) {
    ASSERT_NE(find_format(name), nullptr) << name;
    EXPECT_EQ(find_format(name)->name, name);
  }
  EXPECT_EQ(format_names().size(), 13u);
  EXPECT_EQ(find_format("")->name, "none");
  EXPECT_EQ(find_format("xml"), nullptr);
  for (const std::string_view name : reasoning_format_names()) {
    EXPECT_EQ(find_reasoning_format(name)->name, name);
    EXPECT_TRUE(name == "none" || name.starts_with("think"));
  }
  EXPECT_EQ(implied_reasoning_format("harmony"), "think_harmony");
  EXPECT_EQ(implied_reasoning_format("hermes"), "");
}

}  // namespace
}  // namespace flare::frontend
