// Patterns against the ECMAScript matcher of the standard library, and the algebra beneath.
#include "frontend/grammar/pattern.h"

// g++ 12 takes std::function inside std::regex for uninitialised where sanitizers are on.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <regex>

#include "base/case_sample_fixture.h"
#include "frontend/grammar/grammar_fixture.h"

namespace flare::frontend::grammar {
namespace {

using namespace test;

// A random pattern over a few letters that both matchers understand.
class PatternMaker {
 public:
  explicit PatternMaker(uint32_t seed) : random_(seed) {}
  std::string choice(int depth) {
    std::string out = sequence(depth);
    while (random_() % 4 == 0) out += "|" + sequence(depth);
    return out;
  }
  std::string word() {
    std::string out;
    for (auto n = random_() % 7; n > 0; --n) out += "abc-1 "[random_() % 6];
    return out;
  }

 private:
  std::string sequence(int depth) {
    std::string out;
    for (auto n = random_() % 4; n > 0; --n) out += item(depth);
    return out;
  }
  std::string item(int depth) {
    static const char* const kAtoms[] = {"a",   "b",   "c",   ".",      "[ab]", "[^a]", "\\d",
                                         "\\w", "\\s", "\\W", "[b-c1]", "\\-",  "-"};
    const auto kind = random_() % 10;
    if (kind == 0) return "^";
    if (kind == 1) return "$";
    std::string atom = kind < 4 && depth > 0
                           ? (random_() % 2 ? "(" : "(?:") + choice(depth - 1) + ")"
                           : kAtoms[random_() % std::size(kAtoms)];
    static const char* const kCounts[] = {"",    "",      "",      "*",    "+", "?",
                                          "{2}", "{1,2}", "{0,3}", "{2,}", "*?"};
    return atom + kCounts[random_() % std::size(kCounts)];
  }
  std::mt19937 random_;
};

TEST(Pattern, SearchAndWholeAgreeWithTheStandardLibrary) {
  int n_matches = 0;
  SampledCases cases(8);
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    if (!cases.next()) continue;
    PatternMaker maker(seed);
    const std::string pattern = maker.choice(2);
    const std::regex standard(pattern, std::regex::ECMAScript);
    Languages languages;
    const Lang search = search_language(languages, pattern).language;
    const Lang whole = whole_language(languages, pattern);
    for (int i = 0; i < 25; ++i) {
      const std::string word = maker.word();
      const bool found = std::regex_search(word, standard);
      n_matches += found ? 1 : 0;
      EXPECT_EQ(languages.matches(search, decode_utf8(word)), found) << pattern << " in " << word;
      EXPECT_EQ(languages.matches(whole, decode_utf8(word)), std::regex_match(word, standard))
          << pattern << " is " << word;
    }
  }
  EXPECT_GT(n_matches, cases.n_run());
}

bool finds(std::string_view pattern, std::string_view text) {
  Languages languages;
  return languages.matches(search_language(languages, pattern).language, decode_utf8(text));
}

TEST(Pattern, EscapesAndClassesOfEcma262) {
  EXPECT_TRUE(finds("^\\u00e9\\x41\\u{1F600}\\cA\\0$", std::string("éA😀\x01", 8) + '\0'));
  EXPECT_TRUE(finds("^\\ud83d\\ude00$", "😀"));
  EXPECT_TRUE(finds("^\\p{Lu}\\P{L}\\p{Letter}\\p{gc=Nd}$", "Ä!ß٣"));
  EXPECT_TRUE(finds("^\\s+$", " \t\n\xC2\xA0\xEF\xBB\xBF\xE2\x80\xA8"));
  EXPECT_FALSE(finds("^.$", "\n"));
  EXPECT_FALSE(finds("^\\d$", "٣"));
  EXPECT_FALSE(finds("^\\w$", "é"));
  EXPECT_TRUE(finds("^[\\d\\-a-c\\]^]+$", "1-b]^"));
  EXPECT_TRUE(finds("^[^]$", "\n"));
  EXPECT_FALSE(finds("[]", "a"));
  EXPECT_TRUE(finds("^a{,2}x{$", "a{,2}x{"));
  EXPECT_TRUE(finds("^(?<year>\\d{4})$", "2025"));
  EXPECT_TRUE(finds("^[\\b]$", "\b"));
  EXPECT_TRUE(finds("(^|,)a(,|$)", "b,a"));
  EXPECT_FALSE(finds("(^|,)a(,|$)", "ba"));
}

TEST(Pattern, WhatIsNotTakenIsNamedWithItsPlace) {
  struct Case {
    const char* pattern;
    PatternError::Kind kind;
    size_t at;
  };
  for (const Case& c :
       {Case{"a(b", PatternError::kSyntax, 3}, Case{"é)", PatternError::kSyntax, 2},
        Case{"*a", PatternError::kSyntax, 0}, Case{"a**", PatternError::kSyntax, 2},
        Case{"[b-a]", PatternError::kSyntax, 4}, Case{"[a", PatternError::kSyntax, 2},
        Case{"a{2,1}", PatternError::kSyntax, 6}, Case{"\\", PatternError::kSyntax, 1},
        Case{"\\Z", PatternError::kSyntax, 1}, Case{"(?i)a", PatternError::kSyntax, 1},
        Case{"(a)\\1", PatternError::kUnsupported, 4},
        Case{"\\k<x>", PatternError::kUnsupported, 1},
        Case{"(?=a)*", PatternError::kUnsupported, 6},
        Case{"\\p{Script=Greek}", PatternError::kUnsupported, 16}}) {
    Languages languages;
    try {
      search_language(languages, c.pattern);
      ADD_FAILURE() << c.pattern << " is taken";
    } catch (const PatternError& e) {
      EXPECT_EQ(e.kind, c.kind) << c.pattern << ": " << e.message;
      EXPECT_EQ(e.at, c.at) << c.pattern << ": " << e.message;
      EXPECT_FALSE(e.message.empty());
    }
  }
}

TEST(Pattern, HostilePatternsEndInTimeAndMemory) {
  std::string optional, alternatives;
  for (int i = 0; i < 8000; ++i) {
    optional += "a?b?";
    alternatives += fmt::format("|(x{}y*)+", i);
  }
  for (const std::string& pattern :
       {optional, alternatives, std::string("((((((a{1,99}){1,99}){1,99}){1,99}){1,99}){1,99})b"),
        std::string("(a|b)*a(a|b){1000}c"), std::string("(.*a){200}"),
        std::string("(a*)*(a*)*(a*)*b"), std::string(20000, '(') + std::string(20000, ')')}) {
    const std::string error = error_of([&] { return regex_grammar(pattern); });
    EXPECT_TRUE(error.empty() || error == "constraint_too_large") << error;
    if (!error.empty()) continue;
    Matcher matcher(compile_for_bytes(regex_grammar(pattern)));
    std::mt19937 random(1);
    std::vector<uint32_t> mask(bytes_vocabulary()->mask_words(), 0);
    try {
      for (int i = 0; i < 300; ++i)
        if (!matcher.advance(random() % 2 ? 'a' : 'b')) break;
      matcher.fill_mask(mask);
    } catch (const ConstraintError& e) {
      EXPECT_EQ(e.wire_code(), kConstraintTooLarge);
    }
  }
}

TEST(Language, CountersCostNothing) {
  Languages languages;
  const Lang huge = languages.repeat(languages.letters(any_code_point()), 0, 1u << 29);
  const size_t before = languages.n_expressions();
  Lang at = huge;
  for (int i = 0; i < 100; ++i) at = languages.arcs(at)[0].target;
  EXPECT_LE(languages.n_expressions(), before + 101);
  EXPECT_EQ(languages.clipped(at, 50), languages.clipped(huge, 50));
  EXPECT_EQ(languages.free_letters(huge, any_code_point()), 1u << 29);
}

TEST(Language, IntersectionAndComplementKnowWhetherAnyWordIsLeft) {
  Languages languages;
  const auto pattern = [&](const char* text) { return whole_language(languages, text); };
  EXPECT_FALSE(languages.live(languages.both({pattern("(ab)*"), pattern("(ba)+")})));
  EXPECT_TRUE(languages.live(languages.both({pattern("(aa)*b"), pattern("(aaa)*b")})));
  EXPECT_FALSE(
      languages.live(languages.both({pattern("[a-c]+"), languages.except(pattern("[a-z]*"))})));
  const Lang no_b = languages.except(
      languages.concat({Languages::kEverything, languages.letter('b'), Languages::kEverything}));
  EXPECT_TRUE(languages.matches(no_b, U"aca"));
  EXPECT_FALSE(languages.matches(no_b, U"abc"));
  EXPECT_EQ(languages.words({U"b", U"a", U"ab", U"b"}), languages.words({U"ab", U"a", U"b"}));
}

}  // namespace
}  // namespace flare::frontend::grammar
