// Message normalisation: S4.1 to S4.6, S4.9.
#include "frontend/messages/messages.h"

#include <gtest/gtest.h>

namespace flare::frontend {
namespace {

Json normalised(std::string_view messages, ConversationRules rules = {}) {
  return normalise_messages(parse_json(messages, "test"), rules);
}

void expect_same(const Json& got, std::string_view expected) {
  EXPECT_EQ(got.to_text(), parse_json(expected, "expected").to_text());
}

MessageError refusal(std::string_view messages) {
  try {
    normalised(messages);
  } catch (const MessageError& error) {
    return error;
  }
  return {};
}

TEST(Messages, DeveloperIsSystemAndLeadingOnesMerge) {
  expect_same(normalised(R"([{"role":"system","content":"a"},{"role":"developer","content":"b"},
                             {"role":"user","content":"u"}])"),
              R"([{"role":"system","content":"a\n\nb"},{"role":"user","content":"u"}])");
}

TEST(Messages, EmptyContentIsAnEmptyString) {
  for (const char* content : {R"(,"content":null)", "", R"(,"content":[])"})
    expect_same(normalised(std::string(R"([{"role":"user")") + content + "}]"),
                R"([{"role":"user","content":""}])");
}

TEST(Messages, TextPartsAreConcatenated) {
  expect_same(normalised(R"([{"role":"user","content":[{"type":"text","text":"a"},
                             {"type":"text","text":"b"}]}])"),
              R"([{"role":"user","content":"ab"}])");
}

TEST(Messages, OtherPartsAreRefusedByName) {
  EXPECT_EQ(refusal(R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])").code,
            "vision_unavailable");
  const MessageError audio =
      refusal(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"input_audio"}]}])");
  EXPECT_EQ(audio.code, "unsupported_content_part");
  EXPECT_EQ(audio.param, "messages[0].content[1]");
}

TEST(Messages, ToolResultsSayThatAnImageWasThere) {
  expect_same(normalised(R"([{"role":"tool","tool_call_id":"x","content":
                             [{"type":"text","text":"a "},{"type":"image_url"}]}])"),
              R"([{"role":"tool","content":"a [image omitted: no vision]","tool_call_id":"x"}])");
}

TEST(Messages, ReplayedArgumentsBecomeObjectsInTheirOrder) {
  const auto with = [](std::string_view arguments) {
    return fmt::format(R"([{{"role":"user","content":"u"}},{{"role":"assistant","tool_calls":[
        {{"id":"c","type":"function","function":{{"name":"f","arguments":{}}}}}]}}])",
                       arguments);
  };
  const auto decoded = [&](std::string_view arguments) {
    const Json out = normalised(with(arguments));
    return out.as_array()[1]
        .at("tool_calls")
        .as_array()[0]
        .at("function")
        .at("arguments")
        .to_text();
  };
  EXPECT_EQ(decoded(R"("{\"z\":1,\"a\":[2]}")"), R"({"z":1,"a":[2]})");
  EXPECT_EQ(decoded(R"({"z":1,"a":2})"), R"({"z":1,"a":2})");
  EXPECT_EQ(decoded(R"("")"), "{}");
  EXPECT_EQ(decoded("null"), "{}");
  EXPECT_EQ(decoded(R"("null")"), "{}");
  for (const char* bad : {R"("[1]")", R"("{")", "5", R"("x")"}) {
    const MessageError error = refusal(with(bad));
    EXPECT_EQ(error.code, "invalid_tool_history") << bad;
    EXPECT_EQ(error.param, "messages[1].tool_calls[0].function.arguments") << bad;
  }
}

TEST(Messages, ToolResultsComeInCallOrder) {
  const Json out = normalised(R"([{"role":"user","content":"u"},
      {"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f"}},
                                        {"id":"2","function":{"name":"g"}}]},
      {"role":"tool","tool_call_id":"2","content":"second"},
      {"role":"tool","tool_call_id":"1","content":"first"}])");
  EXPECT_EQ(out.as_array()[2].at("content"), Json("first"));
  EXPECT_EQ(out.as_array()[3].at("content"), Json("second"));
}

TEST(Messages, LaterSystemTextStaysWhereTheTemplateTakesIt) {
  constexpr std::string_view kGiven = R"([{"role":"user","content":"u"},
      {"role":"system","content":"s"},{"role":"assistant","content":"a"},
      {"role":"system","content":"t"},{"role":"user","content":"v"}])";
  expect_same(normalised(kGiven), R"([{"role":"user","content":"u"},
      {"role":"system","content":"s"},{"role":"assistant","content":"a"},
      {"role":"system","content":"t"},{"role":"user","content":"v"}])");
  expect_same(normalised(kGiven, {.late_system = false, .adjacent_users = true}),
              R"([{"role":"user","content":"u"},{"role":"user","content":"[system]\ns"},
      {"role":"assistant","content":"a"},{"role":"user","content":"[system]\nt"},
      {"role":"user","content":"v"}])");
  expect_same(normalised(kGiven, {.late_system = false, .adjacent_users = false}),
              R"([{"role":"user","content":"u\n\n[system]\ns"},
      {"role":"assistant","content":"a"},{"role":"user","content":"[system]\nt\n\nv"}])");
}

TEST(Messages, ALastAssistantThatSaysNothingIsDropped) {
  expect_same(normalised(R"([{"role":"user","content":"u"},{"role":"assistant","content":""}])"),
              R"([{"role":"user","content":"u"}])");
}

TEST(Messages, CallIdsAreHashedWhereTheTemplateRestrictsThem) {
  constexpr std::string_view kGiven = R"([{"role":"user","content":"u"},
      {"role":"assistant","tool_calls":[{"id":"call_42","function":{"name":"f"}},
                                        {"id":"abcDEF123","function":{"name":"g"}}]},
      {"role":"tool","tool_call_id":"abcDEF123","content":"second"},
      {"role":"tool","tool_call_id":"call_42","content":"first"}])";
  EXPECT_EQ(normalised(kGiven).as_array()[2].at("tool_call_id"), Json("call_42"));
  const Json out = normalised(kGiven, {.short_call_ids = true});
  const Json::Array& calls = out.as_array()[1].at("tool_calls").as_array();
  const std::string id = calls[0].at("id").as_string();
  EXPECT_EQ(id.size(), 9u);
  EXPECT_EQ(id, short_call_id("call_42"));
  EXPECT_EQ(id, out.as_array()[2].at("tool_call_id").as_string());
  EXPECT_EQ(calls[1].at("id"), Json("abcDEF123"));  // it fits already
  EXPECT_EQ(out.as_array()[3].at("content"), Json("second"));
  // Stable from one request, and one build, to the next.
  EXPECT_EQ(short_call_id("call_42"), "pD3tRGvL8");
  EXPECT_NE(short_call_id("call_43"), short_call_id("call_42"));
  EXPECT_EQ(short_call_id("").size(), 9u);
}

TEST(Messages, TheBillingHeaderGoesOnlyWhereItStandsFirst) {
  const auto after = [](std::string_view blocks, bool dropped) {
    Json list = parse_json(blocks, "blocks");
    EXPECT_EQ(drop_billing_header(&list.mutable_array()), dropped) << blocks;
    return list.to_text();
  };
  EXPECT_EQ(after(R"([{"type":"text","text":"x-anthropic-billing-header: v; cch=aaaaa;"},
                      {"type":"text","text":"You are"}])",
                  true),
            R"([{"type":"text","text":"You are"}])");
  for (const char* kept : {R"([{"type":"text","text":"see x-anthropic-billing-header: v"}])",
                           R"([{"type":"text","text":"a"},{"text":"x-anthropic-billing-header:"}])",
                           "[]", R"([{"type":"image"}])", R"([{"text":5}])"})
    after(kept, false);
}

TEST(Messages, WrongShapesAreNamed) {
  EXPECT_EQ(refusal("[]").code, "empty_prompt");
  EXPECT_EQ(refusal(R"({"role":"user"})").code, "invalid_type");
  EXPECT_EQ(refusal(R"(["hello"])").code, "invalid_type");
  EXPECT_EQ(refusal(R"([{"content":"x"}])").code, "missing_field");
  EXPECT_EQ(refusal(R"([{"role":7}])").code, "invalid_type");
  EXPECT_EQ(refusal(R"([{"role":"robot","content":"x"}])").code, "invalid_messages");
  EXPECT_EQ(refusal(R"([{"role":"user","content":7}])").code, "invalid_type");
  EXPECT_EQ(refusal(R"([{"role":"user","content":[{"type":"text"}]}])").code, "missing_field");
  EXPECT_EQ(refusal(R"([{"role":"user","content":[{"type":5}]}])").code, "invalid_type");
  EXPECT_EQ(refusal(R"([{"role":"user","content":[{"type":null}]}])").code, "missing_field");
  EXPECT_EQ(refusal(R"([{"role":"assistant","tool_calls":[{}]}])").code, "invalid_tool_history");
  std::string many = "[";
  for (int i = 0; i < 4097; ++i) many += std::string(i ? "," : "") + R"({"role":"user"})";
  EXPECT_EQ(refusal(many + "]").code, "invalid_value");
}

}  // namespace
}  // namespace flare::frontend
