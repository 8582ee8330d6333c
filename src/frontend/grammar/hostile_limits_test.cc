// Schemas and grammars made to cost time or memory: each compiles, or is refused within the limits.
#include <fstream>

#include "base/processor_time.h"
#include "frontend/grammar/grammar_fixture.h"

namespace flare::frontend::grammar {
namespace {

using namespace test;

// The most memory this process has had since the last call of reset_peak, in MiB.
double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCountsMemory = false;  // freed memory is kept for a while
constexpr double kMostMs = 50e3;
#else
constexpr bool kCountsMemory = true;
constexpr double kMostMs = 5e3;
#endif

// Making and compiling ends, well or with constraint_too_large, near the limits of S7.5: one second
// and 64 MiB, with room for what is freed on the way.
template <typename Make>
void expect_limits(Make make, int timeout_ms = 1000) {
  CompileLimits limits = cold();
  limits.timeout_ms = timeout_ms;
  reset_peak();
  const double before = peak_mib(), started = thread_processor_ms();
  try {
    compile(make(), bytes_vocabulary(), limits);
  } catch (const ConstraintError& e) {
    EXPECT_TRUE(timeout_ms == 1000 && e.wire_code() == kConstraintTooLarge) << e.what();
  }
  EXPECT_LT(thread_processor_ms() - started, kMostMs);
  if (kCountsMemory) {
    EXPECT_LT(peak_mib() - before, 256);
  }
}
void expect_schema_limits(Json schema) {
  expect_limits([&] { return json_schema_grammar(std::move(schema)); });
}
// The same of one that costs little; only a busy machine could take more than the second.
void expect_compiles(Json schema) {
  expect_limits([&] { return json_schema_grammar(std::move(schema)); }, 60'000);
}

Json reference(std::string target) { return Json::object({{"$ref", std::move(target)}}); }

TEST(HostileSchema, BranchesOfManySharedMembersAreComparedOnce) {
  Json definitions = Json::object();
  for (int d = 0; d < 8; ++d) {
    Json properties = Json::object(), required = Json::array();
    for (int i = 0; i < 40; ++i) {
      const std::string name = fmt::format("p{}", i);
      properties.set(name, reference(fmt::format("#/$defs/d{}", (d + i) % 8)));
      required.push_back(name);
    }
    definitions.set(fmt::format("d{}", d), Json::object({{"type", "object"},
                                                         {"properties", std::move(properties)},
                                                         {"required", std::move(required)}}));
  }
  Json branches = Json::array();
  for (int d = 0; d < 8; ++d) branches.push_back(reference(fmt::format("#/$defs/d{}", d)));
  // Nothing satisfies definitions without end; what counts is that this is found.
  Json schema =
      Json::object({{"anyOf", Json::array({Json::object({{"type", "null"}}),
                                           Json::object({{"oneOf", std::move(branches)}})})},
                    {"$defs", std::move(definitions)}});
  expect_compiles(std::move(schema));
}

TEST(HostileSchema, AnchorsAreLookedUp) {
  Json definitions = Json::object(), properties = Json::object();
  for (int i = 0; i < 4900; ++i) {
    const std::string name = fmt::format("a{}", i);
    definitions.set(name, Json::object({{"$anchor", name}, {"type", "null"}}));
    properties.mutable_object().emplace_back(name, reference("#" + name));
  }
  expect_compiles(
      Json::object({{"properties", std::move(properties)}, {"$defs", std::move(definitions)}}));
}

TEST(HostileSchema, OfALongChainOfObjectsEachIsFoundProductiveOnce) {
  Json definitions = Json::object();
  constexpr int kLinks = 4800;
  for (int i = 0; i < kLinks; ++i) {
    Json next = i + 1 < kLinks ? reference(fmt::format("#/$defs/d{}", i + 1)) : Json::object();
    definitions.mutable_object().emplace_back(
        fmt::format("d{}", i), Json::object({{"type", "object"},
                                             {"properties", Json::object({{"n", std::move(next)}})},
                                             {"required", Json::array({"n"})}}));
  }
  Json numbers = Json::array();
  for (int i = 0; i < 120000; ++i) numbers.push_back(i);
  Json branches =
      Json::array({reference("#/$defs/d0"), Json::object({{"enum", std::move(numbers)}})});
  expect_schema_limits(
      Json::object({{"anyOf", std::move(branches)}, {"$defs", std::move(definitions)}}));
}

TEST(HostileSchema, LongEnumerationsAreIntersectedByValue) {
  Json first = Json::array(), second = Json::array();
  for (int i = 0; i < 60000; ++i) {
    first.push_back(i);
    second.push_back(i + 59999);
  }
  const auto list = [](Json values) { return Json::object({{"enum", std::move(values)}}); };
  const auto compiled = compile_for_bytes(json_schema_grammar(
      Json::object({{"allOf", Json::array({list(std::move(first)), list(std::move(second))})}})));
  EXPECT_TRUE(accepts(compiled, "59999"));
  EXPECT_FALSE(accepts(compiled, "5999"));
  EXPECT_FALSE(accepts(compiled, "60000"));
  const auto equal = schema(
      R"({"allOf":[{"enum":[1.0,{"a":1,"b":[2]},"x"]},{"enum":[1,{"b":[2.0],"a":1e0},"y"]}]})");
  EXPECT_TRUE(accepts(equal, "1"));
  EXPECT_TRUE(accepts(equal, R"({"b":[2],"a":1})"));
  EXPECT_FALSE(begins(equal, "\"x"));
}

TEST(HostileSchema, ManyBranchesOfManySchemasShareMemory) {
  Json all = Json::array(), branches = Json::array();
  for (int i = 0; i < 8000; ++i) all.push_back(Json::object({{"minLength", i % 7}}));
  for (int i = 0; i < 4000; ++i) branches.push_back(Json::object({{"maxLength", 100 + i}}));
  expect_schema_limits(Json::object({{"allOf", std::move(all)}, {"anyOf", std::move(branches)}}));
  Json pairs = Json::array();
  for (int i = 0; i < 2000; ++i)
    pairs.push_back(Json::object({{"anyOf", Json::array({Json::object({{"minLength", i}}),
                                                         Json::object({{"type", "null"}})})}}));
  expect_schema_limits(Json::object({{"allOf", std::move(pairs)}}));
}

TEST(HostileSchema, DependenciesAmongManyNamesAreCounted) {
  Json needs = Json::object();
  for (int i = 0; i < 6000; ++i)
    needs.mutable_object().emplace_back(fmt::format("n{}", i),
                                        Json::array({fmt::format("n{}", i + 1)}));
  expect_schema_limits(Json::object({{"dependentRequired", std::move(needs)}}));
  Json required = Json::array();
  for (int i = 0; i < 100000; ++i) required.push_back(fmt::format("n{}", i));
  EXPECT_EQ(error_of([&] {
              return json_schema_grammar(Json::object({{"required", std::move(required)}}));
            }),
            "constraint_too_large");
}

TEST(HostileSchema, OneObjectInManyAlternativesIsCountedEachTime) {
  Json properties = Json::object(), branches = Json::array();
  for (int i = 0; i < 2000; ++i)
    properties.mutable_object().emplace_back(fmt::format("{}{}", std::string(40, 'x'), i), true);
  for (int i = 0; i < 4000; ++i)
    branches.push_back(Json::object({{"required", Json::array({fmt::format("r{}", i)})}}));
  expect_schema_limits(
      Json::object({{"properties", std::move(properties)}, {"anyOf", std::move(branches)}}));
}

TEST(HostilePattern, LargeClassesAreCounted) {
  std::string pattern;
  while (pattern.size() < 60000) pattern += "\\p{L}\\P{Lu}";
  expect_limits([&] { return regex_grammar(pattern); });
  expect_schema_limits(Json::object({{"pattern", pattern}}));
}

TEST(HostilePattern, NestedRepetitionsEnd) {
  for (const char* pattern :
       {"(a?){60000}", "((a{0,1000}){0,1000}){0,1000}", "(.*a){60}", "((a|ab|b)*c?){0,300}b{999}",
        "(x+x+)+y", "([ab]*a[ab]{40})", "(a|b|ab)*c{0,65535}(a|b|ab)*"}) {
    SCOPED_TRACE(pattern);
    expect_limits([&] { return regex_grammar(pattern); });
    expect_schema_limits(Json::object({{"pattern", pattern}, {"minLength", 10}}));
  }
}

// Rules that are plain text are copied into their users: shared parts are looked at once.
TEST(HostileGrammar, SharedPartsAreLookedAtOnce) {
  std::string text = "root ::= r60\nr0 ::= [a-z]\n";
  for (int i = 1; i <= 60; ++i)
    text += fmt::format("r{0} ::= r{1} \"a\" \"c\" | r{1} \"b\" \"d\"\n", i, i - 1);
  expect_limits([&] { return parse_gbnf(text); });
}

TEST(HostileGrammar, LongChainsOfRulesNeedNoStack) {
  for (const char* body :
       {"r{} \"a\"? | \"b\"", "(r{} \"b\")? \"a\"", "\"b\"? r{}", "r{} | \"b\" \"c\""}) {
    SCOPED_TRACE(body);
    std::string text = "root ::= r4000\nr0 ::= [a-z]\n";
    for (int i = 1; i <= 4000; ++i)
      text += fmt::format("r{} ::= {}\n", i, fmt::format(fmt::runtime(body), i - 1));
    expect_limits([&] { return parse_gbnf(text); });
  }
}

std::string many_alternatives(int n) {
  std::string text = "x ::= \"a\" x \"b\" | \"c\"\nroot ::= y{1,1000}\ny ::= x \"0;\"";
  for (int i = 1; i < n; ++i) text += fmt::format("|x\"{};\"", i);
  return text;
}

// A count of items makes each place of the text a new one to the automaton.
TEST(HostileGrammar, TwentyThousandAlternativesAreEachLookedAtOnce) {
  const double started = thread_processor_ms();
  Matcher matcher(compile_for_bytes(parse_gbnf(many_alternatives(20000))));
  for (int i = 0; i < 40; ++i)
    ASSERT_TRUE(matcher.advance_text(fmt::format("{}{};", i % 2 ? "acb" : "c", 19900 + i))) << i;
  expect_exact_mask(matcher, *bytes_vocabulary(), "items");
  EXPECT_TRUE(matcher.can_end());
  EXPECT_LT(thread_processor_ms() - started, kMostMs);
}

TEST(HostileGrammar, ManyRulesAtOnePlaceAreCalledInOrderOfRank) {
  std::string text = "root ::= y{1,1000}\ny ::= r0";
  for (int i = 1; i < 4000; ++i) text += fmt::format("|r{}", i);
  for (int i = 0; i < 4000; ++i) text += fmt::format("\nr{0} ::= \"(\" r{0} \")\" | \"{0};\"", i);
  const double started = thread_processor_ms();
  Matcher matcher(compile_for_bytes(parse_gbnf(text)));
  for (int i = 0; i < 24; ++i) ASSERT_TRUE(matcher.advance_text(i % 2 ? "((3999;))" : "17;")) << i;
  std::vector<uint32_t> mask(bytes_vocabulary()->mask_words(), 0);
  EXPECT_TRUE(matcher.fill_mask(mask));
  EXPECT_TRUE(matcher.can_end());
  EXPECT_LT(thread_processor_ms() - started, kMostMs);
}

// With no time at all an operation ends at its second look at the clock, so these limits are
// counted in work: what the test says does not depend on the machine.
CompileLimits impatient() {
  CompileLimits limits = cold();
  limits.step_ms = 0;
  return limits;
}

TEST(MatcherLimits, AStepThatIsTooDearIsAnErrorAndNoDeadEnd) {
  Matcher matcher(compile(parse_gbnf(many_alternatives(2000)), bytes_vocabulary(), impatient()));
  const auto code_of = [](auto work) -> std::string {
    try {
      work();
    } catch (const ConstraintError& e) {
      return std::string(e.wire_code());
    }
    return "";
  };
  EXPECT_EQ(code_of([&] { matcher.advance('c'); }), "constraint_too_large");
  EXPECT_EQ(code_of([&] { matcher.allows('c'); }), "constraint_too_large");
  EXPECT_EQ(matcher.advances(), 0);
  EXPECT_TRUE(matcher.advance('a'));
}

TEST(MatcherLimits, ASequenceIsWalkedAgainStepByStep) {
  CompileLimits limits = impatient();
  limits.max_cache_bytes = 20000;  // forgets at almost every step
  const Grammar grammar = json_schema_grammar(parse_json(
      R"({"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}})",
      "schema"));
  Matcher matcher(compile(grammar, bytes_vocabulary(), limits));
  std::string text = "[";
  for (int i = 0; i < 12; ++i)
    text += fmt::format("{}{{\"a\":\"x{}\",\"b{}\":[null,1]}}", i ? "," : "", i, i);
  for (const char byte : text + "]") ASSERT_TRUE(matcher.advance(static_cast<uint8_t>(byte)));
  EXPECT_TRUE(matcher.can_end());
}

// Each item of a counted list is a new state: the sequence alone needs more than may be remembered.
TEST(MatcherLimits, ASequenceThatFillsTheMemoryIsWalkedAgainSeldom) {
  CompileLimits limits = cold();
  limits.max_cache_bytes = 100'000;
  const double started = thread_processor_ms();
  Matcher matcher(compile(parse_gbnf("root ::= (x \";\"){0,30000}\nx ::= \"(\" x \")\" | \"a\""),
                          bytes_vocabulary(), limits));
  for (int i = 0; i < 20000; ++i) ASSERT_TRUE(matcher.advance_text("(a);")) << i;
  EXPECT_TRUE(matcher.can_end());
  EXPECT_LT(thread_processor_ms() - started, kMostMs);
}

}  // namespace
}  // namespace flare::frontend::grammar
