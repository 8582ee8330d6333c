// GBNF and EBNF: what grammars take, where errors are reported, limits.
#include "frontend/grammar/grammar_fixture.h"

namespace flare::frontend::grammar {
namespace {

using namespace test;

std::shared_ptr<CompiledGrammar> gbnf(std::string_view text) {
  return compile_for_bytes(parse_gbnf(text));
}
std::string message_of(std::string_view text) {
  try {
    gbnf(text);
    return "";
  } catch (const ConstraintError& e) {
    return e.what();
  }
}

TEST(Gbnf, TakesWhatLlamaCppTakes) {
  const auto arithmetic = gbnf(R"gbnf(# arithmetic
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*)gbnf");
  EXPECT_TRUE(accepts(arithmetic, "x+(1*y2)=7\nz = 3\n"));
  EXPECT_FALSE(accepts(arithmetic, "x+=7\n"));
  EXPECT_FALSE(begins(arithmetic, "1x"));
  const auto chess =
      gbnf(R"gbnf(root ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?)gbnf");
  EXPECT_TRUE(accepts(chess, "1. e4 e5\n2. Nf3 Nc6\n3. O-O exd5=Q+\n"));
  EXPECT_FALSE(begins(chess, "1. e9"));
}

TEST(Gbnf, LiteralsClassesAndRepetitions) {
  EXPECT_TRUE(accepts(gbnf(R"(root ::= "\x41\u00e9\U0001F600\"\\\n")"), "Aé😀\"\\\n"));
  EXPECT_TRUE(accepts(gbnf("root ::= 'it''s' /* no comment ends it */ \"!\""), "its!"));
  EXPECT_TRUE(accepts(gbnf("root ::= [^\"\\\\\\x00-\\x1f]{2,3}"), "日本語"));
  EXPECT_FALSE(begins(gbnf("root ::= [^\"]{2,3}"), "\""));
  EXPECT_TRUE(accepts(gbnf("root ::= [#x41-#x43]+ ;"), "ABC"));
  EXPECT_TRUE(accepts(gbnf("root ::= [a\\-\\]-]+"), "a-]"));
  EXPECT_TRUE(accepts(gbnf("root ::= . .{0,2}"), "\n\xF0\x9F\x98\x80x"));
  EXPECT_TRUE(accepts(gbnf("root ::= \"a\"{,2} \"b\"{2} \"c\"{1,}"), "aabbccc"));
  EXPECT_FALSE(begins(gbnf("root ::= \"a\"{,2} \"b\"{2} \"c\"{1,}"), "aaa"));
  EXPECT_TRUE(accepts(gbnf("root ::= \"a\" |\n  \"b\"\n  | \"c\"\nx ::= \"d\""), "c"));
  EXPECT_TRUE(accepts(gbnf("first ::= second\nsecond ::= \"x\""), "x"));
}

TEST(Gbnf, AmbiguousRecursionStaysSmall) {
  const auto g = gbnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"x\"");
  std::string text(3000, 'a');
  text += "x";
  for (int i = 0; i < 3000; ++i) text += i % 2 ? 'b' : 'c';
  EXPECT_TRUE(accepts(g, text));
  EXPECT_FALSE(begins(g, text + "b"));
}

TEST(Gbnf, ErrorsTellLineAndColumn) {
  EXPECT_NE(message_of("root ::= \"a\"\n  | b").find("line 2 column 6"), std::string::npos)
      << message_of("root ::= \"a\"\n  | b");
  for (const char* bad : {"", "root", "root ::= (\"a\"", "root ::= \"a", "root ::= [a",
                          "root ::= [b-a]", "root ::= \"\\q\"", "root ::= \"a\"{3,1}",
                          "root ::= \"a\"{x}", "root ::= \"a\" )", "a ::= \"x\"\na ::= \"y\"",
                          "root ::= \"\\ud800\"", "root ::= a\na ::= b\nb ::= a \"x\" | \"y\"",
                          "root ::= \"x\"? root | \"y\"", "root ::= \"a\" root"})
    EXPECT_NE(message_of(bad), "") << bad;
}

TEST(Gbnf, LimitsAreErrors) {
  EXPECT_EQ(error_of([] { return parse_gbnf(std::string(300 << 10, ' ')); }),
            "constraint_too_large");
  std::string rules = "root ::= \"a\"\n";
  for (int i = 0; i < 4200; ++i) rules += fmt::format("r{} ::= \"b\"\n", i);
  EXPECT_EQ(error_of([&] { return parse_gbnf(rules); }), "constraint_too_large");
  std::string doubling = "root ::= r40\nr0 ::= \"ab\" | \"a\"\n";
  for (int i = 1; i <= 40; ++i) doubling += fmt::format("r{} ::= r{} r{}\n", i, i - 1, i - 1);
  EXPECT_EQ(error_of([&] { return parse_gbnf(doubling); }), "");
  std::string chain = "root ::= r4000\nr0 ::= \"a\" r0 | \"b\"\n";
  for (int i = 1; i <= 4000; ++i) chain += fmt::format("r{} ::= r{} | \"c\"\n", i, i - 1);
  EXPECT_TRUE(accepts(gbnf(chain), "aab"));
}

}  // namespace
}  // namespace flare::frontend::grammar
