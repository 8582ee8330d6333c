// The constraint and the parser agree: well-formed calls pass, and what passes is calls.
#include "frontend/output/constraint.h"

#include <gtest/gtest.h>

#include <set>

#include "frontend/grammar/compiled_grammar.h"
#include "frontend/grammar/schema.h"
#include "frontend/output/output_corpus_fixture.h"

namespace flare::frontend {
namespace {

using grammar::Grammar;
using Mode = ToolChoice::Mode;

std::shared_ptr<const grammar::Vocabulary> bytes() {
  static const auto vocabulary = [] {
    std::vector<grammar::Token> tokens;
    for (int byte = 0; byte < 256; ++byte)
      tokens.push_back({.bytes = std::string(1, static_cast<char>(byte))});
    tokens.push_back({.bytes = {}, .kind = grammar::Token::Kind::kEnd});
    return std::make_shared<const grammar::Vocabulary>(std::move(tokens));
  }();
  return vocabulary;
}

// A compiled constraint over a vocabulary of bytes.
class Constraint {
 public:
  Constraint(std::string_view format, const ToolSet& tools, const ToolChoice& choice,
             const Json* text_schema = nullptr) {
    Grammar g;
    const Grammar::Expr text = text_schema ? g.json(*text_schema) : kFreeText;
    ToolConstraint made = tool_constraint(g, *find_format(format), tools, choice, text);
    g.set_root(made.answer);
    loosened = made.loosened;
    compiled_ = grammar::compile(g, bytes(), {.timeout_ms = 60'000});  // busy machines
  }
  // Bytes of `text` that may follow one another, text.size() + 1 if the answer may end there too.
  size_t accepted(std::string_view text) const {
    grammar::Matcher matcher(compiled_);
    for (size_t i = 0; i < text.size(); ++i)
      if (!matcher.advance(static_cast<unsigned char>(text[i]))) return i;
    return text.size() + (matcher.can_end() ? 1 : 0);
  }
  bool accepts(std::string_view text) const { return accepted(text) == text.size() + 1; }
  std::vector<std::string> loosened;

 private:
  std::shared_ptr<grammar::CompiledGrammar> compiled_;
};

const ToolSet& tools() {
  static const ToolSet set = ToolSet::from_json(corpus_tools());
  return set;
}

ToolSet tools_of(std::string_view text) { return ToolSet::from_json(parse_json(text, "tools")); }

class ToolConstraints : public testing::TestWithParam<std::string> {};

// What templates render, with the prompt open for text.
const std::set<std::string> kRendered = {"plain text",
                                         "one call",
                                         "text before a call",
                                         "no arguments",
                                         "two calls",
                                         "three calls with text",
                                         "name with punctuation",
                                         "unicode",
                                         "quotes and backslashes",
                                         "newlines in a value",
                                         "nested tags in a value",
                                         "number",
                                         "boolean",
                                         "enum string",
                                         "array of integers",
                                         "array of strings",
                                         "object",
                                         "V4.1: two calls",
                                         "array: two calls"};

TEST_P(ToolConstraints, WhatTemplatesRenderPassesWithFreeText) {
  const Constraint constraint(GetParam(), tools(), {});
  int n = 0;
  for (const OutputCase& c : read_cases(GetParam())) {
    if (!kRendered.contains(c.name)) continue;
    ++n;
    EXPECT_EQ(constraint.accepted(c.output), c.output.size() + 1) << c.name << ": " << c.output;
  }
  EXPECT_GE(n, 15);
}

TEST_P(ToolConstraints, RequiredCallsHaveTheirSchema) {
  const Constraint required(GetParam(), tools(), {.mode = Mode::kRequired});
  const Constraint named(GetParam(), tools(), {.mode = Mode::kNamed, .names = {"now"}});
  const Constraint single(GetParam(), tools(), {.mode = Mode::kRequired, .parallel = false});
  for (const OutputCase& c : read_cases(GetParam())) {
    if (!kRendered.contains(c.name)) continue;
    if (c.name == "plain text" || c.want.calls.empty()) {
      EXPECT_FALSE(required.accepts(c.output)) << c.name;
      EXPECT_FALSE(named.accepts(c.output)) << c.name;
      continue;
    }
    if (c.name == "text before a call" || c.name == "three calls with text") continue;
    EXPECT_EQ(required.accepted(c.output), c.output.size() + 1) << c.name << ": " << c.output;
    EXPECT_EQ(single.accepts(c.output), c.want.calls.size() == 1) << c.name;
    EXPECT_EQ(named.accepts(c.output), c.want.calls.size() == 1 && c.want.calls[0].name == "now")
        << c.name;
  }
}

TEST_P(ToolConstraints, AnUndeclaredNameCannotBeWritten) {
  const Constraint constraint(GetParam(), tools(), {});
  for (const OutputCase& c : read_cases(GetParam())) {
    if (c.name != "one call") continue;
    std::string text = c.output;
    const size_t at = text.find("search");
    text.replace(at, 6, "launch");
    EXPECT_EQ(constraint.accepted(text), at);
  }
}

// Every output of the corpus, and what becomes of it when a piece is lost or doubled.
TEST_P(ToolConstraints, WhatPassesAsCallsIsParsedAsCalls) {
  const Constraint required(GetParam(), tools(), {.mode = Mode::kRequired});
  std::mt19937 random(7);
  int n_passed = 0;
  for (OutputCase c : read_cases(GetParam())) {
    if (c.output.size() > 600) continue;
    c.tail.clear();
    c.cut = false;
    c.tools = tools();
    if (c.format == "harmony" || c.format == "atem") c.tail = "<|start|>assistant";
    const std::string original = c.output;
    for (int round = 0; round < 12; ++round) {
      c.output = original;
      if (round > 0 && !original.empty()) {
        const size_t at = random() % original.size(), size = 1 + random() % 6;
        if (round % 2)
          c.output.erase(at, size);
        else
          c.output.insert(at, original.substr(at, size));
      }
      if (!required.accepts(c.output)) continue;
      ++n_passed;
      const Output got = parse_in_pieces(c, {});
      EXPECT_GE(got.calls.size(), 1u) << c.output;
      EXPECT_EQ(got.content, "") << c.output;
      for (const OutputCall& call : got.calls) EXPECT_TRUE(call.complete) << c.output;
    }
  }
  EXPECT_GE(n_passed, 10);
}

// Wherever a keyword stands that nothing can enforce, a strict tool is refused by pointer and name,
// whatever the format makes of its arguments; another is loosened.
TEST_P(ToolConstraints, RefusedKeywordsAreNamedInEveryFormat) {
  std::vector<std::pair<std::string, std::string>> keywords;
  for (const std::string_view name : grammar::kRefusedKeywords) {
    const bool is_count = name == "minContains" || name == "maxContains";
    const bool is_text = name.ends_with("Ref");
    const bool is_map = name == "dependentSchemas";
    keywords.emplace_back(name, is_count  ? "1"
                                : is_text ? R"("#")"
                                : is_map  ? R"({"k":{}})"
                                          : R"({"type":"string"})");
  }
  keywords.emplace_back("uniqueItems", "true");
  keywords.emplace_back("format", R"("no-such-format")");
  keywords.emplace_back("$ref", R"("https://example.com/s")");
  for (const auto& [name, value] : keywords)
    for (const bool nested : {false, true}) {
      SCOPED_TRACE(name);
      const std::string bad = fmt::format("\"{}\":{}", name, value);
      const std::string inner =
          nested ? R"({"type":"object","properties":{"x":{"type":"array","items":{)" + bad + "}}}}"
                 : "{" + bad + "}";
      const std::string tool = R"("function":{"name":"f","parameters":{"type":"object",
          "properties":{"a":{"type":"string"},"p~/q":)" +
                               inner + "}}";
      const auto list = [&](std::string_view strict) {
        return tools_of(R"([{"type":"function","function":{"name":"other"}},{"type":"function",)" +
                        tool + std::string(strict) + "}}]");
      };
      const std::string pointer = std::string("tools[1].function.parameters/properties/p~0~1q") +
                                  (nested ? "/properties/x/items/" : "/") + name;
      try {
        const Constraint strict(GetParam(), list(R"(,"strict":true)"), {});
        ADD_FAILURE() << "a strict tool was taken";
      } catch (const grammar::ConstraintError& error) {
        EXPECT_EQ(error.wire_code(), kInvalidToolSchema);
        EXPECT_EQ(error.pointer(), pointer);
        EXPECT_NE(error.message().find("'f'"), std::string::npos) << error.message();
      }
      if (name == "format") continue;  // of tools that are not strict it is a note
      const Constraint loose(GetParam(), list(""), {.mode = Mode::kRequired});
      ASSERT_GE(loose.loosened.size(), 1u);
      EXPECT_NE(loose.loosened[0].find(pointer), std::string::npos) << loose.loosened[0];
    }
}

INSTANTIATE_TEST_SUITE_P(Formats, ToolConstraints,
                         testing::Values("hermes", "qwen_xml", "dsml", "xtml", "kimi", "llama3",
                                         "mistral", "harmony", "gemma", "glm", "minimax", "atem"),
                         [](const auto& info) { return info.param; });

TEST(ToolConstraint, StrictToolsHaveTheirSchemaInFreeTextToo) {
  const ToolSet strict = tools_of(R"([{"name":"f","strict":true,"parameters":{"type":"object",
      "properties":{"n":{"type":"integer","maximum":9},"s":{"enum":["a","b"]}},
      "required":["n","s"],"additionalProperties":false}}])");
  const Constraint json("hermes", strict, {});
  const auto call = [](const std::string& arguments) {
    return R"(<tool_call>{"name": "f", "arguments": )" + arguments + "}</tool_call>";
  };
  EXPECT_TRUE(json.accepts("So: " + call(R"({"n": 5, "s": "a"})")));
  EXPECT_FALSE(json.accepts(call(R"({"n": 50, "s": "a"})")));
  EXPECT_FALSE(json.accepts(call(R"({"n": 5})")));
  EXPECT_TRUE(json.accepts("no call at all"));
  const Constraint xml("qwen_xml", strict, {});
  const auto tagged = [](const std::string& n, const std::string& s) {
    return "<tool_call>\n<function=f>\n<parameter=n>\n" + n + "\n</parameter>\n<parameter=s>\n" +
           s + "\n</parameter>\n</function>\n</tool_call>";
  };
  EXPECT_TRUE(xml.accepts(tagged("5", "a")));
  EXPECT_FALSE(xml.accepts(tagged("5", "c")));
  EXPECT_FALSE(xml.accepts(tagged("50", "a")));
  EXPECT_FALSE(xml.accepts(tagged("\"5\"", "a")));
}

TEST(ToolConstraint, WhatCannotBeEnforcedIsLoosenedOrRefused) {
  const std::string tool = R"("name":"f","parameters":{"type":"object",
      "properties":{"a":{"not":{"type":"string"}}}})";
  const Constraint loose("hermes", tools_of("[{" + tool + "}]"), {.mode = Mode::kRequired});
  ASSERT_EQ(loose.loosened.size(), 1u);
  EXPECT_NE(loose.loosened[0].find("tool 'f'"), std::string::npos);
  EXPECT_TRUE(loose.accepts(R"(<tool_call>{"name": "f", "arguments": {"a": "x"}}</tool_call>)"));
  try {
    const Constraint strict("hermes", tools_of(R"([{"strict":true,)" + tool + "}]"), {});
    FAIL() << "a strict tool with 'not' was taken";
  } catch (const grammar::ConstraintError& error) {
    EXPECT_EQ(error.wire_code(), kInvalidToolSchema);
    EXPECT_EQ(error.pointer(), "tools[0].parameters/properties/a/not");
    EXPECT_NE(error.message().find("'f'"), std::string::npos);
  }
}

TEST(ToolConstraint, StrictTagsEnforceTextsAndRefuseWhatTheyCannotSay) {
  const auto strict = [](std::string_view schema) {
    return tools_of(fmt::format(R"([{{"name":"f","strict":true,"parameters":{}}}])", schema));
  };
  const auto member = [&](std::string_view schema) {
    return strict(fmt::format(
        R"({{"type":"object","properties":{{"s":{}}},"required":["s"],"$defs":{{"d":{{"maxLength":2}}}}}})",
        schema));
  };
  struct Case {
    const char *schema, *good, *bad;
  };
  for (const Case& c : {Case{R"({"type":"string","format":"date"})", "2025-01-31", "2025-01-32"},
                        Case{R"({"type":"string","pattern":"^a+$","maxLength":2})", "aa", "aaa"},
                        Case{R"({"type":"string","minLength":2})", "a\nb", "a"},
                        Case{R"({"allOf":[{"type":"string"},{"enum":["x","y"]}]})", "y", "z"},
                        Case{R"({"type":"string","$ref":"#/$defs/d"})", "ab", "abc"},
                        Case{R"({"anyOf":[{"const":"k"},{"type":"null"}]})", "null", "q"},
                        Case{R"({"type":["string","integer"],"pattern":"^[a-c]"})", "b1", "1"}}) {
    SCOPED_TRACE(c.schema);
    const auto call = [](const std::string& value) {
      return "<tool_call>\n<function=f>\n<parameter=s>\n" + value +
             "\n</parameter>\n</function>\n</tool_call>";
    };
    const Constraint xml("qwen_xml", member(c.schema), {});
    EXPECT_TRUE(xml.accepts(call(c.good)));
    EXPECT_FALSE(xml.accepts(call(c.bad)));
  }
  const auto refused = [](std::string_view format, const ToolSet& tools) -> std::string {
    try {
      const Constraint made(format, tools, {});
      return "";
    } catch (const grammar::ConstraintError& error) {
      return error.pointer();
    }
  };
  const std::string object = "tools[0].parameters";
  for (const char* format : {"qwen_xml", "dsml", "glm", "minimax", "gemma"}) {
    EXPECT_EQ(refused(format, strict(R"({"properties":{"a":{}},"minProperties":1})")),
              object + "/minProperties")
        << format;
    EXPECT_EQ(refused(format, strict(R"({"properties":{"a":{}},"required":["b"],
                  "additionalProperties":true})")),
              object + "/required")
        << format;
    EXPECT_EQ(refused(format, strict(R"({"anyOf":[{"properties":{"a":{}}},{"required":["a"]}]})")),
              object + "/anyOf")
        << format;
  }
  EXPECT_EQ(refused("gemma", member(R"({"type":"array","items":{},"maxItems":3})")),
            object + "/properties/s/maxItems");
  EXPECT_EQ(refused("qwen_xml", member(R"({"type":"array","items":{},"maxItems":3})")), "");
  EXPECT_EQ(refused("hermes", strict(R"({"properties":{"a":{}},"minProperties":1})")), "");
}

TEST(ToolConstraint, ClosingTagsWithinLinesAreValue) {
  const Constraint constraint("qwen_xml", tools(), {.mode = Mode::kRequired});
  const auto call = [](const std::string& value) {
    return "<tool_call>\n<function=write_file>\n<parameter=content>\n" + value +
           "\n</parameter>\n</function>\n</tool_call>";
  };
  for (const char* value : {"", "\n", "a </parameter> b", "</par", "<", "</div>\n</d", "x\n\ny\n"})
    EXPECT_TRUE(constraint.accepts(call(value))) << value;
  EXPECT_FALSE(constraint.accepts(call("</parameter> x")));
  EXPECT_FALSE(constraint.accepts(call("a\n</parameter> x")));
}

TEST(PublicCase, B053_ANamedChoiceAllowsOnlyThatTool) {
  const ToolSet two = tools_of(R"([{"name":"time_a"},{"name":"time_b"}])");
  const Constraint named("hermes", two, {.mode = Mode::kNamed, .names = {"time_b"}});
  EXPECT_TRUE(named.accepts(R"(<tool_call>{"name": "time_b", "arguments": {}}</tool_call>)"));
  EXPECT_FALSE(named.accepts(R"(<tool_call>{"name": "time_a", "arguments": {}}</tool_call>)"));
  EXPECT_FALSE(named.accepts("It is noon."));
}

TEST(PublicCase, B070_GrammarAndParserAgreeOnQuotes) {
  const Constraint constraint("qwen_xml", tools(), {.mode = Mode::kNamed, .names = {"set"}});
  const auto call = [](const std::string& value) {
    return "<tool_call>\n<function=set>\n<parameter=mode>\n" + value +
           "\n</parameter>\n</function>\n</tool_call>";
  };
  EXPECT_TRUE(constraint.accepts(call("edit")));
  EXPECT_TRUE(constraint.accepts(call("x")));
  EXPECT_FALSE(constraint.accepts(call("\"edit\"")));
  EXPECT_FALSE(constraint.accepts(call("remove")));
}

TEST(PublicCase, B074_ManyToolsWithManyOptionalFieldsCompile) {
  Json list = Json::array();
  for (int i = 0; i < 26; ++i) {
    Json properties = Json::object();
    for (int k = 0; k < (i == 0 ? 100 : 5); ++k)
      properties.set("field_" + std::to_string(k), Json::object({{"type", "string"}}));
    list.push_back(Json::object(
        {{"name", "tool_" + std::to_string(i)},
         {"parameters",
          Json::object({{"type", "object"}, {"properties", std::move(properties)}})}}));
  }
  const ToolSet many = ToolSet::from_json(list);
  for (const char* format : {"hermes", "qwen_xml", "gemma", "minimax"})
    for (const Mode mode : {Mode::kAuto, Mode::kRequired})
      EXPECT_NO_THROW(Constraint(format, many, {.mode = mode})) << format;
}

TEST(PublicCase, B075_WithASchemaOnlyTheTextAnswerIsBound) {
  const Json schema = parse_json(R"({"type":"object","properties":{"a":{"type":"integer"}},
      "required":["a"],"additionalProperties":false})",
                                 "schema");
  for (const char* format : {"hermes", "llama3", "harmony"}) {
    const Constraint constraint(format, tools(), {}, &schema);
    const bool channels = find_format(format)->channels != nullptr;
    const std::string before = channels ? "<|channel|>final<|message|>" : "";
    EXPECT_TRUE(constraint.accepts(before + R"({"a": 1})")) << format;
    EXPECT_FALSE(constraint.accepts(before + "Hello")) << format;
    for (const OutputCase& c : read_cases(format))
      if (c.name == "one call") {
        EXPECT_TRUE(constraint.accepts(c.output)) << format;
      }
  }
}

}  // namespace
}  // namespace flare::frontend
