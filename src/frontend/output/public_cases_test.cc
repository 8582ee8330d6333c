// Public cases of the parser alone (serving.md S5, S6): each output cut at every byte.
#include <gtest/gtest.h>

#include <numeric>

#include "frontend/output/output_corpus_fixture.h"

namespace flare::frontend {
namespace {

OutputCase make(std::string format, std::string output, std::string tail = "assistant\n") {
  return {.name = output,
          .format = std::move(format),
          .reasoning = "think",
          .tail = std::move(tail),
          .output = std::move(output),
          .cut = false,
          .tools = ToolSet::from_json(corpus_tools()),
          .want = {}};
}

// The same for the whole, for every cut in two, and byte by byte.
Output parse_all_ways(const OutputCase& c) {
  const Output whole = parse_in_pieces(c, {});
  std::vector<size_t> bytes(c.output.size() - 1);
  std::iota(bytes.begin(), bytes.end(), size_t{1});
  EXPECT_TRUE(same_output(parse_in_pieces(c, bytes), whole)) << c.name;
  for (const size_t cut : bytes)
    EXPECT_TRUE(same_output(parse_in_pieces(c, {cut}), whole)) << c.name << " cut at " << cut;
  return whole;
}

std::string arguments(const Output& output) {
  EXPECT_EQ(output.calls.size(), 1u);
  return output.calls.empty() ? "" : output.calls[0].arguments;
}

std::string xml(const std::string& name, const std::string& parameters) {
  return "<tool_call>\n<function=" + name + ">\n" + parameters + "</function>\n</tool_call>";
}

std::string parameter(const std::string& key, const std::string& text) {
  return "<parameter=" + key + ">\n" + text + "\n</parameter>\n";
}

// All events of an output that comes in pieces.
std::vector<std::vector<OutputEvent>> events_of(const OutputCase& c,
                                                const std::vector<std::string>& pieces,
                                                OutputEnd end = OutputEnd::kNatural) {
  OutputParser parser(settings_of(c));
  std::vector<std::vector<OutputEvent>> all;
  for (const std::string& piece : pieces) parser.push(piece, false, &all.emplace_back());
  parser.finish(end, &all.emplace_back());
  return all;
}

TEST(PublicCase, B009_OnlyOneNewlineOnEachSideOfAValueIsMarkup) {
  const Output got =
      parse_all_ways(make("qwen_xml", xml("write_file",
                                          "<parameter=content>\n    if x:\n        return 1\n\n"
                                          "</parameter>\n")));
  EXPECT_EQ(arguments(got), R"({"content":"    if x:\n        return 1\n"})");
}

TEST(PublicCase, B015_ParallelCallsAreNumbered) {
  const std::string one = R"(<tool_call>{"name":"search","arguments":{"query":"a"}}</tool_call>)";
  const std::string two = R"(<tool_call>{"name":"search","arguments":{"query":"b"}}</tool_call>)";
  for (const std::vector<std::string>& pieces :
       {std::vector<std::string>{one, two}, {one + "\n" + two}}) {
    int next = 0;
    std::string joined[2];
    for (const auto& events : events_of(make("hermes", one), pieces))
      for (const OutputEvent& event : events) {
        if (event.kind == OutputEvent::Kind::kCallStart) {
          EXPECT_EQ(event.call, next++);
          EXPECT_EQ(event.text, "search");
        }
        if (event.kind == OutputEvent::Kind::kArguments) joined[event.call] += event.text;
      }
    EXPECT_EQ(next, 2);
    EXPECT_EQ(joined[0], R"({"query":"a"})");
    EXPECT_EQ(joined[1], R"({"query":"b"})");
  }
}

TEST(PublicCase, B023_TheStartStateIsReadOffThePrompt) {
  const OutputCase c = make("none", "plan</think>\n\nanswer", "<|im_start|>assistant\n<think>\n");
  const Output got = parse_all_ways(c);
  EXPECT_EQ(got.reasoning, "plan");
  EXPECT_EQ(got.content, "answer");
  const auto split = events_of(c, {"plan</thi", "nk>\n\nanswer"});
  EXPECT_EQ(split[0],
            (std::vector<OutputEvent>{{.kind = OutputEvent::Kind::kReasoning, .text = "plan"}}));
}

TEST(PublicCase, B028_ClosingTokensThatArriveTogetherLoseNoBrace) {
  const OutputCase c = make("hermes", R"(<tool_call>{"name":"set","arguments":{"id": 42}})"
                                      "\n</tool_call>");
  EXPECT_EQ(arguments(parse_all_ways(c)), R"({"id": 42})");
}

TEST(PublicCase, B036_ValuesAreTypedByTheSchema) {
  const auto typed = [](const std::string& key, const std::string& text) {
    return arguments(parse_all_ways(make("qwen_xml", xml("set", parameter(key, text)))));
  };
  EXPECT_EQ(typed("timeout", "30"), R"({"timeout":30})");
  EXPECT_EQ(typed("verbose", "True"), R"({"verbose":true})");
  EXPECT_EQ(typed("code", "null"), R"({"code":"null"})");
  EXPECT_EQ(typed("note", "null"), R"({"note":null})");
  EXPECT_EQ(typed("code", "007"), R"({"code":"007"})");
  EXPECT_EQ(typed("undeclared", "5"), R"({"undeclared":"5"})");
}

TEST(PublicCase, B037_ACutCallDeliversTheCharactersSoFar) {
  OutputCase c =
      make("hermes", R"(<tool_call>{"name":"write_file","arguments":{"path": "r.md", "cont)");
  c.cut = true;
  const Output got = parse_all_ways(c);
  EXPECT_EQ(arguments(got), R"({"path": "r.md", "cont)");
  EXPECT_FALSE(got.calls[0].complete);
  EXPECT_EQ(complete_members(got.calls[0].arguments), R"({"path": "r.md"})");
}

TEST(PublicCase, B044_UnclosedReasoningStaysReasoning) {
  const OutputCase c = make("hermes", "Paris.", "<think>\n");
  const Output got = parse_all_ways(c);
  EXPECT_EQ(got.reasoning, "Paris.");
  EXPECT_EQ(got.content, "");
  OutputParser parser(settings_of(c));
  std::vector<OutputEvent> events;
  for (const char* token : {"Par", "is", "."}) parser.push(token, false, &events);
  EXPECT_EQ(parser.reasoning_tokens(), 3u);
}

TEST(PublicCase, B045_MarkupWithinReasoningIsNotRun) {
  const std::string call = R"(<tool_call>{"name":"now","arguments":{}}</tool_call>)";
  const Output closed =
      parse_all_ways(make("hermes", "I could write " + call + "</think>" + call, "<think>"));
  EXPECT_EQ(closed.calls.size(), 1u);
  EXPECT_EQ(closed.reasoning, "I could write " + call);
  OutputCase open = make("hermes", "I call.\n" + call, "<think>");
  const Output natural = parse_all_ways(open);
  EXPECT_EQ(natural.calls.size(), 1u);
  EXPECT_EQ(natural.reasoning, "I call.\n");
  open.cut = true;
  const Output cut = parse_all_ways(open);
  EXPECT_EQ(cut.calls.size(), 0u);
  EXPECT_EQ(cut.reasoning, "I call.\n" + call);
}

TEST(PublicCase, B046_SlightlyMalformedCallsAreCalls) {
  const Output stray = parse_all_ways(make("hermes", "Paris.<think>"));
  EXPECT_EQ(stray.content, "Paris.");
  EXPECT_EQ(stray.reasoning, "");
  EXPECT_EQ(arguments(parse_all_ways(
                make("qwen_xml", xml("set", parameter("code", "x") + "</parameter>\n")))),
            R"({"code":"x"})");
  const Output typed = parse_all_ways(
      make("hermes", R"(<tool_call>{"type":"function","name":"now","arguments":{}}</tool_call>)"));
  EXPECT_EQ(arguments(typed), "{}");
  const std::string no_call = "a <tool_call>nothing</tool_call> b";
  EXPECT_EQ(parse_all_ways(make("hermes", no_call)).content, no_call);
}

TEST(PublicCase, B060_ACompleteCallIsKnownAsOne) {
  const OutputCase c = make("hermes", R"(<tool_call>{"name":"now","arguments":{}}</tool_call>)");
  OutputParser parser(settings_of(c));
  std::vector<OutputEvent> events;
  parser.push(c.output, false, &events);
  parser.finish(OutputEnd::kNatural, &events);
  EXPECT_TRUE(parser.has_complete_call());
  EXPECT_EQ(events.back().kind, OutputEvent::Kind::kCallEnd);
  EXPECT_TRUE(events.back().complete);
}

TEST(PublicCase, B070_StringsUnderAnyOfHaveNoQuotesOfTheirOwn) {
  EXPECT_EQ(arguments(parse_all_ways(make("qwen_xml", xml("set", parameter("mode", "edit"))))),
            R"({"mode":"edit"})");
}

TEST(PublicCase, B071_NoParametersAreAnEmptyObject) {
  const char* json = R"(<tool_call>{"name":"now","arguments":{}}</tool_call>)";
  EXPECT_EQ(arguments(parse_all_ways(make("hermes", json))), "{}");
  EXPECT_EQ(arguments(parse_all_ways(make("qwen_xml", xml("now", "")))), "{}");
  EXPECT_EQ(
      arguments(parse_all_ways(make("qwen_xml", xml("set", parameter("code", "mkdir -p t/{a,b"))))),
      R"({"code":"mkdir -p t/{a,b"})");
}

TEST(PublicCase, B072_TextBeforeTheFirstCallIsContent) {
  const Output got =
      parse_all_ways(make("qwen_xml", "I will look.\n\n" + xml("search", parameter("query", "a"))));
  EXPECT_EQ(got.content, "I will look.");
  EXPECT_EQ(arguments(got), R"({"query":"a"})");
}

TEST(PublicCase, B073_LongStringsStreamBeforeTheirCloser) {
  std::vector<std::string> pieces = {"<tool_call>\n<function=write_file>\n<parameter=content>\n"};
  for (int i = 0; i < 200; ++i) pieces.push_back("0123456789");
  for (const char* closer : {"\n</par", "ameter>\n", "</function>\n</tool_call>"})
    pieces.push_back(closer);
  const auto all = events_of(make("qwen_xml", "-"), pieces);
  std::string joined;
  int deltas_before_closer = 0;
  for (size_t i = 0; i < all.size(); ++i)
    for (const OutputEvent& event : all[i])
      if (event.kind == OutputEvent::Kind::kArguments) {
        deltas_before_closer += i <= 200 ? 1 : 0;
        joined += event.text;
      }
  EXPECT_GE(deltas_before_closer, 200);
  std::string value;
  for (int i = 0; i < 200; ++i) value += "0123456789";
  EXPECT_EQ(joined, R"({"content":")" + value + R"("})");
}

TEST(PublicCase, B094_ASecondCallInTheSameDeltaIsDelivered) {
  const std::string calls = R"(<tool_call>{"name":"now","arguments":{}}</tool_call>)"
                            R"(<tool_call>{"name":"search","arguments":{"query":"a"}}</tool_call>)";
  const Output got = parse_all_ways(make("hermes", calls));
  ASSERT_EQ(got.calls.size(), 2u);
  EXPECT_EQ(got.calls[1].name, "search");
  EXPECT_TRUE(got.calls[1].complete);
}

TEST(PublicCase, B111_ReasoningIsSeparatedInStreamsToo) {
  const Output got = parse_all_ways(
      make("qwen_xml", "Plan.\n</think>\n\nText.\n\n" + xml("now", ""), "<think>\n"));
  EXPECT_EQ(got.reasoning, "Plan.");
  EXPECT_EQ(got.content, "Text.");
  EXPECT_EQ(got.calls.size(), 1u);
}

TEST(PublicCase, B112_AClosingTagEndsAValueOnlyAtTheStartOfItsLine) {
  const Output got = parse_all_ways(
      make("qwen_xml", xml("write_file",
                           "<parameter=content>\nUse </parameter> and </tool_call>.\n</parameter>\n"
                           "more\n</parameter>\n")));
  EXPECT_EQ(arguments(got), R"({"content":"Use </parameter> and </tool_call>."})");
}

}  // namespace
}  // namespace flare::frontend
