// Promises of the output parser beyond the corpus: pace of deltas, big and hostile output, tokens.
#include "frontend/output/parser.h"

#include <gtest/gtest.h>

#include "base/case_sample_fixture.h"
#include "frontend/output/output_corpus_fixture.h"

namespace flare::frontend {
namespace {

const ToolSet& tools() {
  static const ToolSet set = ToolSet::from_json(corpus_tools());
  return set;
}

OutputParserSettings settings(std::string_view format, std::string_view tail = {}) {
  return {.format = find_format(format),
          .reasoning = find_reasoning_format(implied_reasoning_format(format).empty()
                                                 ? "think"
                                                 : implied_reasoning_format(format)),
          .tools = &tools(),
          .prompt_tail = tail};
}

Output parse(const OutputParserSettings& settings, std::string_view text, size_t piece = 4) {
  OutputParser parser(settings);
  Output output;
  std::vector<OutputEvent> events;
  for (size_t at = 0; at < text.size(); at += piece)
    parser.push(text.substr(at, piece), false, &events);
  parser.finish(OutputEnd::kNatural, &events);
  for (const OutputEvent& event : events) append_event(event, &output);
  return output;
}

// A call of write_file whose value goes between the halves.
struct CallText {
  std::string_view format, before, after;
};
constexpr CallText kCalls[] = {
    {"hermes", R"(<tool_call>{"name":"write_file","arguments":{"content":")", R"("}}</tool_call>)"},
    {"qwen_xml", "<tool_call>\n<function=write_file>\n<parameter=content>\n",
     "\n</parameter>\n</function>\n</tool_call>"},
    {"dsml",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"write_file\">\n<｜DSML｜parameter "
     "name=\"content\" string=\"true\">",
     "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"},
    {"xtml",
     "<|open|>tools<|sep|><|open|>call tool=\"write_file\" index=\"1\"<|sep|><|open|>argument "
     "key=\"content\" type=\"string\"<|sep|>",
     "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"},
    {"kimi",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.write_file:0<|tool_call_argument_"
     "begin|>{\"content\":\"",
     "\"}<|tool_call_end|><|tool_calls_section_end|>"},
    {"llama3", R"({"name":"write_file","parameters":{"content":")", R"("}})"},
    {"mistral", R"([TOOL_CALLS]write_file[ARGS]{"content":")", R"("})"},
    {"harmony",
     "<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>{\"content\":\"",
     "\"}<|call|>"},
    {"gemma", "<|tool_call>call:write_file{content:<|\"|>", "<|\"|>}<tool_call|>"},
    {"glm", "<tool_call>write_file<arg_key>content</arg_key><arg_value>",
     "</arg_value></tool_call>"},
    {"minimax",
     "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"write_file\">]<]minimax[>[<content>",
     "]<]minimax[>[</content>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>"},
    {"atem",
     " to=write_file<|message|><atem:function_calls>\n<atem:invoke name=\"write_file\">\n"
     "<atem:parameter name=\"content\">",
     "</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|>"},
};

// A call whose closer is missing ends where the next begins; of two only the declared one is a
// call, the other is content to the byte.
TEST(OutputParser, UnclosedCallsBesideUndeclaredOnesKeepTheirArgumentsAndText) {
  struct Calls {
    std::string_view format, open, declared, undeclared, call_close, close;
  };
  constexpr Calls kForms[] = {
      {"minimax", "]<]minimax[>[<tool_call>",
       "]<]minimax[>[<invoke name=\"set\">]<]minimax[>[<code>x]<]minimax[>[</code>",
       "]<]minimax[>[<invoke name=\"launch\">]<]minimax[>[<a>1]<]minimax[>[</a>",
       "]<]minimax[>[</invoke>", "]<]minimax[>[</tool_call>"},
      {"qwen_xml", "<tool_call>", "<function=set><parameter=code>x</parameter>",
       "<function=launch><parameter=a>1</parameter>", "</function>", "</tool_call>"},
      {"dsml", "<｜DSML｜tool_calls>",
       "<｜DSML｜invoke name=\"set\"><｜DSML｜parameter name=\"code\" "
       "string=\"true\">x</｜DSML｜parameter>",
       "<｜DSML｜invoke name=\"launch\"><｜DSML｜parameter name=\"a\" "
       "string=\"true\">1</｜DSML｜parameter>",
       "</｜DSML｜invoke>", "</｜DSML｜tool_calls>"}};
  for (const Calls& form : kForms)
    for (const size_t piece : {1, 4, 1000}) {
      SCOPED_TRACE(form.format);
      const auto text = [](std::initializer_list<std::string_view> parts) {
        std::string out;
        for (const std::string_view part : parts) out += part;
        return out;
      };
      const auto parsed = [&](const std::string& output) {
        return parse(settings(form.format), output, piece);
      };
      const Output behind =
          parsed(text({form.open, form.undeclared, form.declared, form.call_close, form.close}));
      EXPECT_EQ(behind.content, text({form.open, form.undeclared}));
      ASSERT_EQ(behind.calls.size(), 1u);
      EXPECT_EQ(behind.calls[0].arguments, R"({"code":"x"})");
      const Output before =
          parsed(text({form.open, form.declared, form.undeclared, form.call_close}));
      EXPECT_EQ(before.content, text({form.undeclared, form.call_close}));
      ASSERT_EQ(before.calls.size(), 1u);
      EXPECT_EQ(before.calls[0].arguments, R"({"code":"x"})");
      const Output both = parsed(text({form.open, form.declared, form.declared, form.call_close}));
      EXPECT_EQ(both.content, "");
      ASSERT_EQ(both.calls.size(), 2u);
      EXPECT_EQ(both.calls[1].arguments, R"({"code":"x"})");
      for (const std::string_view cut : {"<", "</", "]<]mini", "<｜D"}) {
        const Output unfinished = parsed(text({form.open, form.declared, cut}));
        ASSERT_EQ(unfinished.calls.size(), 1u);
        EXPECT_EQ(unfinished.calls[0].arguments, R"({"code":"x"})") << cut;
      }
    }
}

TEST(OutputParser, ArgumentsComeAtLeastOncePer64Characters) {
  for (const CallText& call : kCalls) {
    OutputParser parser(settings(call.format));
    std::vector<OutputEvent> events;
    parser.push(call.before, false, &events);
    size_t since = 0;
    for (int i = 0; i < 1000; ++i) {
      events.clear();
      parser.push(std::string(1, "abc de <]\n\r"[i % 7]), false, &events);
      ++since;
      for (const OutputEvent& event : events)
        if (event.kind == OutputEvent::Kind::kArguments) since = 0;
      ASSERT_LE(since, 64u) << call.format << " at " << i;
    }
  }
}

TEST(OutputParser, TypedValuesStreamToo) {
  for (const std::string& value : {std::string("[1"), std::string("{\"a\": [1")}) {
    OutputParser parser(settings("qwen_xml"));
    std::vector<OutputEvent> events;
    parser.push("<tool_call>\n<function=set>\n<parameter=list>\n" + value, false, &events);
    size_t since = 0;
    for (int i = 0; i < 1000; ++i) {
      events.clear();
      parser.push(i % 2 ? "2" : ",", false, &events);
      since = events.empty() ? since + 1 : 0;
      ASSERT_LE(since, 66u) << i;
    }
  }
}

TEST(OutputParser, AMegabyteInOneValuePassesWhole) {
  std::string value;
  for (int i = 0; value.size() < (size_t{1} << 20); ++i)
    value += "line " + std::to_string(i) + " <a> [b] {c} ]<] | end ";
  SampledCases formats(3);
  for (const CallText& call : kCalls) {
    if (!formats.next()) continue;
    const Output got =
        parse(settings(call.format), std::string(call.before) + value + std::string(call.after));
    ASSERT_EQ(got.calls.size(), 1u) << call.format;
    EXPECT_EQ(parse_large_json(got.calls[0].arguments, "x").at("content").as_string(), value)
        << call.format;
    EXPECT_EQ(got.content, "") << call.format;
  }
}

// What repeats could cost quadratic time if anything were read twice.
TEST(OutputParser, HostileRepetitionIsContentOrCalls) {
  SampledCases units(6);
  for (const CallText& call : kCalls) {
    const std::string before(call.before);
    for (const std::string& unit :
         {std::string(find_format(call.format)->spellings[0].open),
          before.substr(0, before.size() / 2), before.substr(0, before.size() - 1), before,
          std::string("<think>"), std::string("</think>"), std::string("{\"name\":"),
          std::string("\n"), std::string("<")}) {
      if (unit.empty() || !units.next()) continue;
      std::string text;
      while (text.size() < 50'000) text += unit;
      for (const std::string_view tail : {"", "<think>"}) {
        const Output whole = parse(settings(call.format, tail), text, text.size());
        EXPECT_TRUE(same_output(parse(settings(call.format, tail), text, 7), whole))
            << call.format << ": " << unit;
      }
    }
  }
}

TEST(OutputParser, LongWhiteSpaceIsReadOnce) {
  const std::string space(100'000, ' ');
  SampledCases formats(3);
  for (const CallText& call : kCalls) {
    if (!formats.next()) continue;
    const std::string before(call.before);
    for (const std::string& text :
         {space, before + space, before.substr(0, before.size() - 1) + space,
          std::string(find_format(call.format)->spellings[0].open) + space})
      EXPECT_TRUE(same_output(parse(settings(call.format), text, text.size()),
                              parse(settings(call.format), text, 1001)))
          << call.format;
  }
  const std::string element =
      "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"set\">"
      "]<]minimax[>[<undeclared>";
  EXPECT_EQ(parse(settings("minimax"), element + space).calls.size(), 1u);
}

TEST(OutputParser, DeepNestingEndsWithoutHarm) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += open;
    const Output got =
        parse(settings("hermes"), R"(<tool_call>{"name":"set","arguments":{"x":)" + deep);
    ASSERT_EQ(got.calls.size(), 1u);
    EXPECT_TRUE(parse_json(got.calls[0].arguments, "x", {.max_depth = 256}).is_object());
  }
  std::string elements = "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"set\">";
  for (int i = 0; i < 10'000; ++i) elements += "]<]minimax[>[<e>";
  const Output got = parse(settings("minimax"), elements);
  ASSERT_EQ(got.calls.size(), 1u);
  EXPECT_TRUE(parse_json(got.calls[0].arguments, "x", {.max_depth = 256}).is_object());
}

TEST(OutputParser, BrokenUtf8BecomesReplacementCharacters) {
  Output got = parse(settings("hermes"), "a\xff\xe2\x82 b\xf0\x9f", 1);
  EXPECT_EQ(got.content, "a\xef\xbf\xbd\xef\xbf\xbd b\xef\xbf\xbd");
  got = parse(settings("hermes"),
              "<tool_call>{\"name\":\"search\",\"arguments\":{\"query\":\"\xc3\"}}</tool_call>", 1);
  ASSERT_EQ(got.calls.size(), 1u);
  EXPECT_EQ(got.calls[0].arguments, "{\"query\":\"\xef\xbf\xbd\"}");
}

TEST(OutputParser, CharactersSplitOverTokensStayWhole) {
  OutputParser parser(settings("hermes"));
  std::vector<OutputEvent> events;
  parser.push("x\xf0\x9f", false, &events);
  EXPECT_EQ(events.back().text, "x");
  parser.push("\xa6\x8a", false, &events);
  EXPECT_EQ(events.back().text, "x\xf0\x9f\xa6\x8a");
}

TEST(OutputParser, SpecialTokensOutsideTheFormatAreHidden) {
  OutputParser parser(settings("gemma"));
  std::vector<OutputEvent> events;
  parser.push("Hi", false, &events);
  parser.push("<eos>", true, &events);
  parser.push("<turn|>", true, &events);
  parser.push("<|tool_call>", true, &events);
  for (const char* text : {"call:now", "{}"}) parser.push(text, false, &events);
  parser.push("<tool_call|>", true, &events);
  parser.finish(OutputEnd::kNatural, &events);
  Output output;
  for (const OutputEvent& event : events) append_event(event, &output);
  EXPECT_EQ(output.content, "Hi");
  ASSERT_EQ(output.calls.size(), 1u);
  EXPECT_EQ(output.calls[0], (OutputCall{"now", "{}", true}));
}

TEST(OutputParser, ReasoningTokensAreThoseThatBeginInTheBlock) {
  OutputParser parser(settings("hermes", "<think>\n"));
  std::vector<OutputEvent> events;
  for (const char* token : {"a", " b", "</think>", "\n\n", "c"}) parser.push(token, false, &events);
  EXPECT_EQ(parser.reasoning_tokens(), 3u);
  EXPECT_FALSE(parser.in_reasoning());
}

TEST(OutputParser, TokensOfACallInAnOpenBlockAreNoReasoning) {
  OutputParser parser(settings("hermes", "<think>\n"));
  std::vector<OutputEvent> events;
  for (const char* token : {"a", "\n", "<tool_call>", "{\"name\":", "\"now\"}", "</tool_call>"})
    parser.push(token, false, &events);
  EXPECT_EQ(parser.reasoning_tokens(), 6u);
  parser.finish(OutputEnd::kNatural, &events);
  EXPECT_TRUE(parser.has_complete_call());
  EXPECT_EQ(parser.reasoning_tokens(), 2u);
}

TEST(OutputParser, ContinuedReasoningNeedsNoMarkerInThePrompt) {
  OutputParserSettings s = settings("hermes", "<think>\nI had thought");
  s.continues_reasoning = true;
  const Output got = parse(s, " more</think>yes");
  EXPECT_EQ(got.reasoning, " more");
  EXPECT_EQ(got.content, "yes");
}

TEST(CompleteMembers, KeepWhatIsCertain) {
  EXPECT_EQ(complete_members(""), "{}");
  EXPECT_EQ(complete_members("{"), "{}");
  EXPECT_EQ(complete_members(R"({"a": 1)"), "{}");  // 1 may become 12
  EXPECT_EQ(complete_members(R"({"a": 1,)"), R"({"a": 1})");
  EXPECT_EQ(complete_members(R"({"a":"x)"), "{}");
  EXPECT_EQ(complete_members(R"({"a":"x","b":[1,{"c":2}],"d":{"e":1)"),
            R"({"a":"x","b":[1,{"c":2}]})");
  EXPECT_EQ(complete_members(R"({"a":true})"), R"({"a":true})");
}

}  // namespace
}  // namespace flare::frontend
