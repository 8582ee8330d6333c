// Masks against each token tried alone, on vocabularies with merged, split and hostile tokens.
#include "base/case_sample_fixture.h"
#include "frontend/grammar/grammar_fixture.h"
#include "frontend/tokenizer/tokenizer.h"

namespace flare::frontend::grammar {
namespace {

using namespace test;

// Tokens that cross the borders of strings, members and characters.
std::shared_ptr<const Vocabulary> crossing_vocabulary() {
  static const std::shared_ptr<const Vocabulary> made = [] {
    std::vector<Token> more;
    for (const char* text : {"\"",
                             "\":",
                             "\": \"",
                             "\",",
                             "\", \"",
                             "{\"",
                             "{\"a",
                             "a\":",
                             "ab",
                             "abc\"",
                             "a\":1,\"",
                             "a\":1,\"b\":",
                             "\"}",
                             "}}",
                             "]}",
                             "],[",
                             " {\"",
                             "\\u00",
                             "\\u0061",
                             "\\\"",
                             "u0061\"",
                             "\xE4\xBA",
                             "\xAC\xE4",
                             "\xE4\xBA\xAC\"",
                             "\xF0\x9F",
                             "12",
                             "-1",
                             "0.",
                             "1e",
                             "true",
                             "true,",
                             "null}",
                             "\n  ",
                             "\n  \"",
                             "   ",
                             "aaaa",
                             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                             "b\",\"b\"",
                             "x\":{\"x\":",
                             "\"a\":1,\"a\":2",
                             "c\":1,\"c\":",
                             "\\u0061\":",
                             "\"\\u0061\":1",
                             "\\u0062\"",
                             "\\ud83d\\ude00\":",
                             "\\ud83d"})
      more.push_back({text});
    more.push_back({std::string(100, 'a')});
    more.push_back({std::string(100, ' ')});
    more.push_back({"\"" + std::string(60, 'b') + "\":"});
    more.push_back({"<call>", Token::Kind::kMarker});
    more.push_back({"", Token::Kind::kText});
    more.push_back({"zz", Token::Kind::kUnused});
    return vocabulary(std::move(more));
  }();
  return made;
}

// Walks at random along legal tokens, long ones preferred, and checks the mask at every step.
void walk_and_check(const Grammar& grammar, const std::shared_ptr<const Vocabulary>& v,
                    uint32_t seed, int n_walks, int n_steps) {
  const auto compiled = compile(grammar, v, cold());
  std::mt19937 random(seed);
  for (int walk = 0; walk < n_walks; ++walk) {
    Matcher matcher(compiled);
    std::string text;
    for (int step = 0; step < n_steps; ++step) {
      expect_exact_mask(matcher, *v, text);
      if (testing::Test::HasFatalFailure()) return;
      std::vector<int32_t> legal;
      for (int32_t id = 0; id < v->size(); ++id)
        if (matcher.allows(id)) legal.insert(legal.end(), id > kEnd ? 4 : 1, id);
      if (legal.empty()) break;
      const int32_t id = legal[random() % legal.size()];
      ASSERT_TRUE(matcher.advance(id));
      text += v->token(id).bytes;
      if (v->token(id).kind == Token::Kind::kEnd) {
        EXPECT_TRUE(matcher.can_end());
        break;
      }
    }
  }
}

TEST(Mask, IsExactlyWhatEachTokenTriedAloneSays) {
  const std::vector<std::string> schemas = {
      "true",
      R"({"type":"object"})",
      R"({"type":"object","properties":{"a":{"type":"integer"},"abc":{"type":"string"}},"required":["a"]})",
      R"({"type":"object","properties":{"a":{"type":"integer"},"é":{}},"additionalProperties":false})",
      R"({"type":"object","properties":{"a":{}},"maxProperties":2,"additionalProperties":{"type":"number"}})",
      R"({"type":"object","patternProperties":{"^[a-c]+$":{"type":"integer"}},"properties":{"ab":{"type":"null"}}})",
      R"({"type":"object","patternProperties":{"b":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
      R"({"type":"object","patternProperties":{"^a":{"type":"integer"},"b$":{"minimum":3}},"additionalProperties":false})",
      R"({"type":"object","minProperties":2,"dependentRequired":{"a":["b"]},"properties":{"a":{},"b":{},"c":{}},"additionalProperties":false})",
      R"({"type":"array","items":{"type":"string","maxLength":5},"minItems":1,"maxItems":3})",
      R"({"type":"string","maxLength":40})",
      R"({"type":"string","minLength":1})",
      R"({"type":"array","items":{"type":"string","minLength":2,"maxLength":3}})",
      R"({"type":"string","minLength":60})",
      R"({"type":"string","minLength":30,"maxLength":70})",
      R"({"type":"string","pattern":"^[a-c]{3,50}$"})",
      R"({"type":"string","pattern":"b{2}"})",
      R"({"type":"number","minimum":-3.25,"exclusiveMaximum":12.5})",
      R"({"type":"integer","multipleOf":7,"minimum":-100,"maximum":1000})",
      R"({"anyOf":[{"type":"object","properties":{"a":{"const":1}},"required":["a"]},{"enum":["aaaa","ab",null,[1,{"b":2}]]}]})",
      R"({"$defs":{"t":{"type":"object","properties":{"x":{"$ref":"#/$defs/t"},"a":{"type":"boolean"}},"additionalProperties":false}},"$ref":"#/$defs/t"})",
      R"({"enum":["京","京都","😀"]})",
  };
  SampledCases cases(2);
  for (const std::string& text : schemas)
    if (cases.next()) {
      SCOPED_TRACE(text);
      walk_and_check(json_schema_grammar(parse_json(text, "schema")), crossing_vocabulary(),
                     cases.number(), 3, 30);
    }
}

TEST(Mask, ANameMayNotComeAgainInAnotherSpelling) {
  const auto v = crossing_vocabulary();
  const auto compiled = compile(json_object_grammar(), v, cold());
  for (const std::string text :
       {R"({"a":1,)", R"({"a":1,")", R"({"a":1,"b":{"a":2},")", R"({"\u0061":1,"x)",
        R"({"ax":1,"a":2,"\u)", R"({"😀":1,")", R"({"😀":1,"b":2,"\ud83d)", R"({"":1,")"}) {
    Matcher matcher(compiled);
    ASSERT_TRUE(matcher.advance_text(text)) << text;
    expect_exact_mask(matcher, *v, text);
  }
}

TEST(Mask, IsExactForTextMarkersAndRecursiveGrammars) {
  Grammar framed;
  framed.set_root(
      framed.sequence({framed.text_without({"<call>", "aaaa"}), framed.marker("<call>"),
                       framed.json(parse_json(R"({"type":"object","required":["a"]})", "schema")),
                       framed.optional(framed.marker("</nowhere>"))}));
  const std::vector<Grammar> grammars = {
      framed,
      parse_gbnf("root ::= e\ne ::= t | t \"+\" e | t \"-\" e\nt ::= \"(\" e \")\" | [a-c]{1,60}"),
      parse_gbnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\""),
      parse_gbnf("root ::= (x{2,3} \",\"){1,2} y*\nx ::= \"a\" | \"ab\" | x2\nx2 ::= \"b\" y?\n"
                 "y ::= \"a\"?"),
      regex_grammar("(a|ab)*b{0,50}(京|\\n)?"),
  };
  uint32_t seed = 1;
  for (const Grammar& grammar : grammars) {
    SCOPED_TRACE(seed);
    walk_and_check(grammar, crossing_vocabulary(), seed++, 3, 25);
  }
}

std::shared_ptr<const Vocabulary> vocabulary_of(const Tokenizer& tokenizer) {
  std::vector<Token> tokens;
  for (int32_t id = 0; id < tokenizer.id_limit(); ++id)
    tokens.push_back({tokenizer.token_bytes(id),
                      tokenizer.is_special(id) ? Token::Kind::kMarker : Token::Kind::kText});
  return std::make_shared<Vocabulary>(std::move(tokens));
}

TEST(Mask, PermitsEveryTokenOfTokenisedValidInstances) {
  const auto path = std::filesystem::path(FLARE_SOURCE_DIR) / "models/nano/tokenizer.json";
  const auto data = shared_data() / "jsonschema/bench.jsonl";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << data << " is not there";
  const Tokenizer tokenizer = Tokenizer::from_json(read_text_file(path), path.string());
  const auto v = vocabulary_of(tokenizer);
  const std::string text = read_text_file(data);
  SampledCases cases(40);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.empty() || !cases.next()) continue;
    const Json record = parse_large_json(line, data.string(), {.max_depth = 400});
    std::shared_ptr<CompiledGrammar> compiled;
    try {
      compiled = compile(json_schema_grammar(record.at("schema")), v, cold());
    } catch (const ConstraintError&) {
      continue;
    }
    if (record.at("name").as_string() == "Github_medium---o14421") continue;  // see the suite
    std::mt19937 random(cases.number());
    for (const Json& test : record.at("tests").as_array()) {
      if (!test.at("valid").as_bool()) continue;
      const std::string instance = json_text(test.at("data"), Layout::kSpaced);
      Matcher matcher(compiled);
      std::string written;
      for (const int32_t id : tokenizer.encode(instance, {false, false})) {
        if (random() % 40 == 0) {
          expect_exact_mask(matcher, *v, written);
        } else {
          std::vector<uint32_t> mask(v->mask_words(), 0);
          ASSERT_TRUE(matcher.fill_mask(mask));
          ASSERT_TRUE(mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1)
              << record.at("name").as_string() << ": " << quote(written);
        }
        ASSERT_TRUE(matcher.advance(id)) << record.at("name").as_string();
        written += tokenizer.token_bytes(id);
      }
      EXPECT_TRUE(matcher.can_end()) << record.at("name").as_string();
    }
  }
}

TEST(Matcher, RollsBackToAnyEarlierPoint) {
  const auto v = crossing_vocabulary();
  const auto compiled = compile(json_object_grammar(), v, cold());
  Matcher matcher(compiled);
  std::mt19937 random(7);
  std::vector<std::vector<uint32_t>> masks;
  const auto mask = [&] {
    std::vector<uint32_t> out(v->mask_words(), 0);
    matcher.fill_mask(out);
    return out;
  };
  for (int step = 0; step < 60; ++step) {
    masks.push_back(mask());
    std::vector<int32_t> legal;
    for (int32_t id = 0; id < v->size(); ++id)
      if (id != kEnd && masks.back()[static_cast<size_t>(id) / 32] >> (id % 32) & 1)
        legal.push_back(id);
    if (legal.empty()) break;
    ASSERT_TRUE(matcher.advance(legal[random() % legal.size()]));
    if (step % 7 == 6) {
      const int n = static_cast<int>(random() % 7);
      matcher.rollback(n);
      masks.resize(masks.size() - static_cast<size_t>(n));
      ASSERT_EQ(matcher.advances(), static_cast<int>(masks.size()));
    }
  }
  while (matcher.advances() > 0) {
    matcher.rollback(1);
    EXPECT_EQ(mask(), masks[static_cast<size_t>(matcher.advances())]);
  }
}

TEST(Matcher, ForgettingWhatWasLearntChangesNothing) {
  CompileLimits tight = cold();
  tight.max_cache_bytes = 20000;  // forgets at almost every step
  const auto v = crossing_vocabulary();
  const Grammar grammar = json_schema_grammar(parse_json(
      R"({"type":"array","items":{"type":"object","properties":{"abc":{"type":"string","maxLength":9}}}})",
      "schema"));
  Matcher forgetful(compile(grammar, v, tight)), other(compile(grammar, v, cold()));
  const std::string text = R"([{"abc": "aaaa京"}, {"x":1,"y":[true]}, {)";
  for (const char byte : text) {
    std::vector<uint32_t> a(v->mask_words(), 0), b(v->mask_words(), 0);
    EXPECT_EQ(forgetful.fill_mask(a), other.fill_mask(b));
    EXPECT_EQ(a, b);
    ASSERT_TRUE(forgetful.advance(static_cast<uint8_t>(byte)));
    ASSERT_TRUE(other.advance(static_cast<uint8_t>(byte)));
  }
}

TEST(Matcher, EndTokenIsTakenOnlyWhereTheAnswerMayEndAndIsLast) {
  Matcher matcher(compile_for_bytes(regex_grammar("ab?")));
  EXPECT_FALSE(matcher.advance(kEnd));
  EXPECT_TRUE(matcher.advance('a'));
  EXPECT_TRUE(matcher.can_end());
  EXPECT_TRUE(matcher.advance(kEnd));
  EXPECT_FALSE(matcher.advance('b'));
  std::vector<uint32_t> mask(bytes_vocabulary()->mask_words(), 0);
  EXPECT_FALSE(matcher.fill_mask(mask));
  matcher.rollback(1);
  EXPECT_TRUE(matcher.advance('b'));
}

TEST(Matcher, ForcedBytesAreThoseThatAloneMayFollow) {
  Matcher matcher(schema(
      R"({"type":"object","properties":{"city":{"enum":["Paris","Parma"]}},"required":["city"],"additionalProperties":false})"));
  EXPECT_EQ(matcher.forced_bytes(), "{");
  ASSERT_TRUE(matcher.advance_text("{\"c"));
  EXPECT_EQ(matcher.forced_bytes(), "");  // an escape could spell the next letter
  ASSERT_TRUE(matcher.advance_text("ity\":\"Pari"));
  EXPECT_EQ(matcher.forced_bytes(), "");
  std::vector<std::string> words = {"yes", "no"};
  Matcher choice(compile_for_bytes(choice_grammar(words)));
  EXPECT_EQ(choice.forced_bytes(), "");
  ASSERT_TRUE(choice.advance('y'));
  EXPECT_EQ(choice.forced_bytes(), "es");
  EXPECT_EQ(choice.forced_bytes(1), "e");
}

TEST(GrammarCache, SharesByContentAndDropsTheOldest) {
  GrammarCache cache(bytes_vocabulary(), 2);
  const auto a = cache.get(regex_grammar("a"));
  EXPECT_EQ(cache.get(regex_grammar("a")), a);
  EXPECT_NE(cache.get(regex_grammar("b")), a);
  EXPECT_EQ(cache.get(regex_grammar("a")), a);
  cache.get(regex_grammar("c"));
  EXPECT_EQ(cache.get(regex_grammar("a")), a);
  const Json s = parse_json("{\"properties\":{}}", "schema");
  EXPECT_NE(cache.get(json_schema_grammar(s, {.strict = true})),
            cache.get(json_schema_grammar(s, {.strict = false})));
}

TEST(GrammarCache, StaysWithinItsBytesButKeepsTheLast) {
  const Grammar a = regex_grammar("a{1,500}"), b = regex_grammar("b{1,500}");
  const size_t bytes = GrammarCache(bytes_vocabulary(), 1).get(a)->bytes();
  ASSERT_GT(bytes, 0u);
  GrammarCache narrow(bytes_vocabulary(), 100, 1), wide(bytes_vocabulary(), 100, 4 * bytes);
  const auto first = narrow.get(a), kept = wide.get(a);
  EXPECT_EQ(narrow.get(a), first);
  narrow.get(b);
  EXPECT_NE(narrow.get(a), first);
  wide.get(b);
  EXPECT_EQ(wide.get(a), kept);
}

TEST(GrammarCache, CountsWhatMatchingLearns) {
  const auto grammar = compile(regex_grammar("(ab|cd|ef)*g"), bytes_vocabulary(), cold());
  const size_t before = grammar->bytes();
  Matcher matcher(grammar);
  for (int i = 0; i < 20; ++i) {
    std::vector<uint32_t> mask(grammar->vocabulary().mask_words());
    ASSERT_TRUE(matcher.fill_mask(mask));
    ASSERT_TRUE(matcher.advance_text(i % 2 == 0 ? "ab" : "cd"));
  }
  EXPECT_GT(grammar->bytes(), before);
}

}  // namespace
}  // namespace flare::frontend::grammar
