// Public cases of constrained decoding: one test per case of cases/public.md, named after it.
#include "base/processor_time.h"
#include "frontend/grammar/grammar_fixture.h"

namespace flare::frontend::grammar {
namespace {

using namespace test;

TEST(PublicCase, B003_BoundsNearALimitAreCountersLikeAnyOther) {
  for (const int bound : {1, 1999, 2000, 2001, 65536}) {
    const std::string member = fmt::format(
        R"({{"type":"object","properties":{{"s":{{"type":"string","maxLength":{}}}}}}})", bound);
    const auto alone = schema(member);
    const std::string full(static_cast<size_t>(bound), 'x');
    EXPECT_TRUE(accepts(alone, "{\"s\":\"" + full + "\"}")) << bound;
    EXPECT_FALSE(begins(alone, "{\"s\":\"" + full + "x")) << bound;
    const auto nested =
        schema(fmt::format(R"({{"type":"array","maxItems":50,"items":{}}})", member));
    std::string items = "{\"s\":\"" + full + "\"}";
    for (int i = 1; i < 50; ++i) items += ",{\"s\":\"a\"}";
    EXPECT_TRUE(accepts(nested, "[" + items + "]")) << bound;
    EXPECT_FALSE(begins(nested, "[" + items + ",")) << bound;
  }
}

TEST(PublicCase, B012_WhiteSpaceHasAnEndAndNoneSurroundsTheRoot) {
  for (const auto& grammar :
       {compile_for_bytes(json_object_grammar()),
        schema(R"({"type":"object","properties":{"a":{"type":"integer"}}})")}) {
    // A model that prefers a line end, then a space, whenever they are legal.
    Matcher matcher(grammar);
    std::string text;
    int run = 0;
    while (text.size() < 200 && !(matcher.can_end() && !text.empty())) {
      bool stepped = false;
      for (const char byte : std::string("\n }{\"a:1")) {
        if (!matcher.advance(static_cast<uint8_t>(byte))) continue;
        text += byte;
        run = byte == '\n' || byte == ' ' ? run + 1 : 0;
        EXPECT_LE(run, 17) << quote(text);
        stepped = true;
        break;
      }
      ASSERT_TRUE(stepped) << quote(text);
    }
    EXPECT_TRUE(matcher.can_end()) << quote(text);
    EXPECT_EQ(text, "{\n" + std::string(16, ' ') + "}");
    for (const char byte : std::string("\n \t"))
      EXPECT_FALSE(matcher.allows(static_cast<uint8_t>(byte)));
    EXPECT_TRUE(matcher.allows(kEnd));
    for (const char* bad : {" {}", "\n{}", "{\t", "{  ", "{\n\n", "{ \n"})
      EXPECT_FALSE(begins(grammar, bad)) << quote(bad);
  }
}

TEST(PublicCase, B017_ReasoningIsFreeAndTheAnswerBehindItIsConstrained) {
  Grammar g;
  g.set_root(g.sequence({g.text_without({"</think>"}), g.marker("</think>"),
                         g.json(parse_json(R"({"type":"object","required":["a"]})", "s"))}));
  const auto v = vocabulary({{"</think>", Token::Kind::kMarker}});
  Matcher matcher(compile(g, v, cold()));
  ASSERT_TRUE(matcher.advance_text("I think {\"b\": 1} could do.\n"));
  EXPECT_FALSE(matcher.can_end());
  ASSERT_TRUE(matcher.advance(257));
  EXPECT_FALSE(matcher.allows('I'));
  EXPECT_FALSE(matcher.allows(257));
  EXPECT_TRUE(matcher.advance_text("{\"a\":1}"));
  EXPECT_TRUE(matcher.can_end());
  // A vocabulary without the marker writes it in bytes.
  const auto plain = compile_for_bytes(g);
  EXPECT_TRUE(accepts(plain, "so </thin </think>{\"a\":[]}"));
  EXPECT_FALSE(begins(plain, "so </think>x"));
}

TEST(PublicCase, B024_DeepNestingEndsWithAnErrorInTime) {
  const double started = thread_processor_ms();
  EXPECT_EQ(error_of([] { return regex_grammar(std::string(60000, '(')); }),
            "constraint_too_large");
  EXPECT_EQ(error_of([] { return regex_grammar("(?<=x)*"); }), "invalid_regex");
  Json deep = Json::object();
  for (int i = 0; i < 5000; ++i) deep = Json::object({{"items", std::move(deep)}});
  EXPECT_EQ(error_of([&] { return json_schema_grammar(deep); }).substr(0, 20),
            "constraint_too_large");
  EXPECT_EQ(error_of([] { return parse_gbnf("root ::= " + std::string(60000, '(')); }),
            "constraint_too_large");
  // A body nested 100 000 deep is text like any other to the machine.
  const auto any = schema("true");
  EXPECT_TRUE(begins(any, std::string(100000, '[')));
  EXPECT_LT(thread_processor_ms() - started, 60'000);  // a sanitizer's pace, whatever else runs
  EXPECT_TRUE(accepts(any, "[]"));
}

TEST(PublicCase, B047_RawUtf8IsLegalAlsoAcrossTokens) {
  const auto v =
      vocabulary({{"\xE5\x8C"}, {"\x97\xE4\xBA"}, {"\xAC\""}, {"\"\xF0\x9F"}, {"\x98\x80"}});
  Matcher enumerated(
      compile(json_schema_grammar(parse_json(R"({"enum":["北京","😀"]})", "s")), v, cold()));
  for (const int32_t id : {int32_t{'"'}, 257, 258, 259}) {
    std::vector<uint32_t> mask(v->mask_words(), 0);
    enumerated.fill_mask(mask);
    EXPECT_TRUE(mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) << id;
    ASSERT_TRUE(enumerated.advance(id)) << id;
  }
  EXPECT_TRUE(enumerated.can_end());
  enumerated.rollback(4);
  ASSERT_TRUE(enumerated.advance(260));
  ASSERT_TRUE(enumerated.advance(261));
  EXPECT_EQ(enumerated.forced_bytes(), "\"");
  EXPECT_TRUE(accepts(schema(R"({"type":"string"})"), "\"Bären größte\""));
  EXPECT_FALSE(begins(schema(R"({"enum":["北京"]})"), "\"北极"));
}

TEST(PublicCase, B051_PatternsMatchAnywhere) {
  for (const char* pattern : {R"(\\S)", R"(.*\\S.*)"}) {
    const auto g = schema(fmt::format(R"({{"type":"string","pattern":"{}"}})", pattern));
    EXPECT_TRUE(accepts(g, "\" a \"")) << pattern;
    EXPECT_FALSE(begins(g, "\"\"")) << pattern;
    EXPECT_FALSE(begins(g, "\"  \"")) << pattern;
  }
}

TEST(PublicCase, B066_ClassEscapesOfPatternsAreKnown) {
  const auto month = schema(R"({"type":"string","pattern":"^\\d{4}-\\d{2}$"})");
  EXPECT_TRUE(accepts(month, "\"2025-01\""));
  EXPECT_FALSE(begins(month, "\"a"));
  const auto word = schema(R"({"type":"string","pattern":"^[\\w-]+$"})");
  EXPECT_TRUE(accepts(word, "\"a_Z-9\""));
  EXPECT_FALSE(begins(word, "\"a b"));
  EXPECT_EQ(schema_error(R"({"properties":{"x":{"pattern":"(a)\\1"}}})"),
            "unsupported_json_schema /properties/x/pattern");
}

TEST(PublicCase, B074_ManyOptionalMembersStayCheap) {
  Json tools = Json::array();
  for (int t = 0; t < 26; ++t) {
    Json properties = Json::object();
    for (int p = 0; p < (t == 0 ? 100 : 5); ++p)
      properties.set(fmt::format("field_{}", p), Json::object({{"type", "string"}}));
    tools.push_back(Json::object({{"type", "object"},
                                  {"properties", std::move(properties)},
                                  {"additionalProperties", false}}));
  }
  const auto g = compile_for_bytes(json_schema_grammar(Json::object({{"anyOf", tools}})));
  std::string text = "{";
  for (int p = 99; p >= 0; --p) text += fmt::format("{}\"field_{}\":\"v\"", p == 99 ? "" : ",", p);
  EXPECT_TRUE(accepts(g, text + "}"));
  EXPECT_FALSE(begins(g, text + ","));
  EXPECT_FALSE(begins(g, R"({"field_7":"v","field_7")"));
}

TEST(PublicCase, B075_AChoiceOfCallAndAnswerBindsOnlyTheAnswer) {
  Grammar g;
  const auto call = g.sequence(
      {g.marker("<tool_call>"), g.json(parse_json("{}", "s")), g.marker("</tool_call>")});
  const auto answer = g.json(parse_json(R"({"type":"object","required":["text"]})", "s"));
  g.set_root(g.choice({call, answer}));
  const auto compiled = compile_for_bytes(g);
  EXPECT_TRUE(accepts(compiled, R"(<tool_call>{"name":"f"}</tool_call>)"));
  EXPECT_TRUE(accepts(compiled, R"({"text":1})"));
  EXPECT_FALSE(begins(compiled, R"({"name":1})"));
}

TEST(PublicCase, B096_LookAroundCountsAsTrueAndIsNamed) {
  const auto g = schema(
      R"({"type":"array","items":{"type":"string","pattern":"^(?!\\.\\.?(?:\\/|$))[A-Za-z0-9_\\-.]{1,200}$"}})");
  ASSERT_EQ(g->relaxed().size(), 1u);
  EXPECT_EQ(g->relaxed()[0].substr(0, 15), "/items/pattern:");
  EXPECT_TRUE(accepts(g, "[\"a-b_c.9\"]"));
  EXPECT_TRUE(accepts(g, "[\"" + std::string(200, 'x') + "\"]"));
  EXPECT_FALSE(begins(g, "[\"" + std::string(201, 'x')));
  EXPECT_FALSE(begins(g, "[\"a/"));
  EXPECT_FALSE(begins(g, "[\"\""));
}

TEST(PublicCase, B097_ObjectsWithoutPropertiesAndEmptySchemas) {
  const auto open = schema(R"({"type":"object","properties":{}})");
  EXPECT_TRUE(accepts(open, "{}"));
  EXPECT_TRUE(accepts(open, R"({"a":1})"));
  const auto strict = schema(R"({"type":"object","properties":{}})", true);
  EXPECT_TRUE(accepts(strict, "{}"));
  EXPECT_FALSE(begins(strict, "{\""));
  for (const char* any : {"{}", "true"})
    for (const char* text : {"null", "true", "-1.5e+3", "\"x\"", "[1,{}]", R"({"a":{"b":[]}})"})
      EXPECT_TRUE(accepts(schema(any), text)) << any << " " << text;
}

TEST(PublicCase, B098_ReferencesFollowRfc6901AndStayInside) {
  const auto position = schema(
      R"({"properties":{"t":{"anyOf":[{"type":"integer"}]},"u":{"$ref":"#/properties/t/anyOf/0"}}})");
  EXPECT_TRUE(accepts(position, R"({"u":1})"));
  EXPECT_FALSE(begins(position, R"({"u":")"));
  const auto tree = schema(
      R"({"type":"object","properties":{"c":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false})");
  EXPECT_TRUE(accepts(tree, R"({"c":[{"c":[{}]},{}]})"));
  EXPECT_FALSE(begins(tree, R"({"c":[1)"));
  const auto escaped =
      schema(R"({"$ref":"#/$defs/a~1b~0c%25","$defs":{"a/b~c%":{"type":"null"}}})");
  EXPECT_TRUE(accepts(escaped, "null"));
  EXPECT_FALSE(begins(escaped, "1"));
  EXPECT_EQ(schema_error(R"({"items":{"$ref":"#/$defs/none"}})"),
            "unsupported_json_schema /items/$ref");
  EXPECT_EQ(schema_error(R"({"$ref":"https://example.com/s.json"})"),
            "unsupported_json_schema /$ref");
}

TEST(PublicCase, B099_EnumsBehindReferencesHoldAndSiblingsApply) {
  const auto g =
      schema(R"({"$defs":{"C":{"enum":["a","b"]}},"properties":{"c":{"$ref":"#/$defs/C"}}})");
  EXPECT_TRUE(accepts(g, R"({"c":"b"})"));
  EXPECT_FALSE(begins(g, R"({"c":"c)"));
  EXPECT_FALSE(begins(g, R"({"c":{)"));
  const auto both = schema(R"({"$defs":{"C":{"type":"integer"}},"$ref":"#/$defs/C","minimum":10})");
  EXPECT_TRUE(accepts(both, "12"));
  EXPECT_FALSE(accepts(both, "9"));
}

TEST(PublicCase, B100_LenientEscapesAreLegalAndNothingFallsBackToText) {
  const auto g = schema(R"({"type":"string","pattern":"^hi\\!$"})", true);
  EXPECT_TRUE(accepts(g, "\"hi!\""));
  EXPECT_FALSE(begins(g, "\"hi?"));
  EXPECT_FALSE(begins(g, "hi"));
  EXPECT_EQ(schema_error(R"({"type":"string","pattern":"^[$"})"), "invalid_json_schema /pattern");
}

TEST(PublicCase, B101_IntegerRangesAreExact) {
  const auto three = schema(R"({"type":"integer","minimum":3})");
  for (const char* bad : {"01", "2", "-3", "0", "3.5"}) EXPECT_FALSE(accepts(three, bad)) << bad;
  for (const char* good : {"3", "10", "99999999999999999999"})
    EXPECT_TRUE(accepts(three, good)) << good;
  // Every integer around the bounds, by arithmetic.
  struct Case {
    const char* text;
    int64_t lo, hi;
  };
  for (const Case& c :
       {Case{R"({"type":"integer","minimum":-123,"maximum":42})", -123, 42},
        Case{R"({"type":"integer","exclusiveMinimum":-7,"exclusiveMaximum":100})", -6, 99},
        Case{R"({"type":"integer","minimum":8.5,"maximum":1005.2})", 9, 1005},
        Case{R"({"type":"integer","minimum":-1000,"maximum":-99})", -1000, -99}}) {
    const auto g = schema(c.text);
    for (int64_t i = -2100; i <= 2100; ++i)
      EXPECT_EQ(accepts(g, std::to_string(i)), i >= c.lo && i <= c.hi) << c.text << " " << i;
    EXPECT_FALSE(accepts(g, "-0042"));
    EXPECT_FALSE(accepts(g, "00"));
  }
}

TEST(PublicCase, B102_BadGrammarsAndRegexesAreErrorsOfTheirRequest) {
  EXPECT_EQ(error_of([] { return regex_grammar("(a"); }), "invalid_regex");
  EXPECT_EQ(error_of([] { return regex_grammar("a{3,2}"); }), "invalid_regex");
  EXPECT_EQ(error_of([] { return regex_grammar("(a)\\1"); }), "invalid_regex");
  EXPECT_EQ(error_of([] { return parse_gbnf("root ::= nowhere"); }), "invalid_grammar");
  EXPECT_EQ(error_of([] { return parse_gbnf("root := \"a\""); }), "invalid_grammar");
  EXPECT_EQ(error_of([] { return parse_gbnf("root ::= root \"a\" | \"b\""); }), "invalid_grammar");
  // The model writes a fenced block instead of a call: the mask has no such token, others go on.
  Grammar g;
  g.set_root(g.sequence({g.literal("<tool_call>"), g.json(parse_json("{}", "s"))}));
  const auto compiled = compile_for_bytes(g);
  Matcher one(compiled), other(compiled);
  EXPECT_FALSE(one.advance('`'));
  EXPECT_TRUE(one.advance_text("<tool"));
  EXPECT_TRUE(other.advance_text("<tool_call>{"));
}

}  // namespace
}  // namespace flare::frontend::grammar
