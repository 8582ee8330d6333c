// Tests of patterns: classes of the reference, translated syntax, limits.
#include "frontend/tokenizer/pattern.h"

#include <algorithm>
#include <random>
#include <vector>

#include "base/case_sample_fixture.h"
#include "frontend/tokenizer/tokenizer_golden.h"
#include "frontend/tokenizer/word_matcher.h"

namespace flare::frontend::tokenizer {
namespace {

using Spans = std::vector<std::pair<size_t, size_t>>;

Spans spans(const Pattern& pattern, std::string_view text) {
  MatchScratch scratch;
  Spans out;
  pattern.for_each(text, scratch, [&](Match m) { out.emplace_back(m.begin, m.end); });
  return out;
}
Spans spans(std::string_view expression, std::string_view text) {
  return spans(Pattern::regex(expression, "test"), text);
}

// The code points that a class matches, as ranges.
std::vector<char32_t> matched(std::string_view expression) {
  static const std::string all = [] {
    std::string text;
    for (char32_t c = 0; c < 0x110000; ++c)
      if (c < 0xD800 || c >= 0xE000) append_utf8(text, c);
    return text;
  }();
  std::vector<char32_t> out;  // ascending, as the text
  const Pattern pattern = Pattern::regex(fmt::format("(?:{})+", expression), "test");
  MatchScratch scratch;
  pattern.for_each(all, scratch, [&](Match m) {
    for (size_t at = m.begin; at < m.end; at += utf8_length(all[at]))
      out.push_back(decode_at(all, at).code_point);
  });
  return out;
}

std::vector<char32_t> expand(const Json& ranges) {
  std::vector<char32_t> out;
  for (const Json& range : ranges.as_array())
    for (uint64_t c = range.as_array()[0].as_u64(); c <= range.as_array()[1].as_u64(); ++c)
      out.push_back(static_cast<char32_t>(c));
  return out;
}

TEST(Pattern, ClassesHoldTheReferencesCodePoints) {
  const auto path = golden::folder() / "unicode_tables.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "not found: " << path;
  const Json tables = parse_large_json(read_text_file(path), "unicode_tables.json");
  size_t seen = 0;
  for (const auto& [name, entry] : tables.at("split_regex").as_object()) {
    ++seen;
    const std::string expression =
        name.size() <= 2 && name[0] != '\\' ? fmt::format("\\p{{{}}}", name) : name;
    const std::vector<char32_t> found = matched(expression);
    if (const Json* count = entry.find("count")) {
      EXPECT_EQ(found.size(), count->as_u64()) << name;
    }
    if (const Json* all = entry.find("all")) {
      EXPECT_TRUE(found == expand(*all)) << name;
    }
    if (const Json* added = entry.find("added")) {
      for (const char32_t c : expand(*added))
        EXPECT_TRUE(std::binary_search(found.begin(), found.end(), c))
            << name << " " << uint32_t{c};
    }
    // The complement, alone and inside classes of both signs.
    if (name != "L" && name != "\\s") continue;  // each takes a second
    std::string complement = expression;
    complement[1] = static_cast<char>(std::toupper(complement[1]));
    const size_t rest = 0x110000 - 0x800 - found.size();
    EXPECT_EQ(matched(complement).size(), rest) << complement;
    EXPECT_EQ(matched("[" + complement + "]").size(), rest) << complement;
    EXPECT_TRUE(matched("[^" + complement + "]") == found) << complement;
    EXPECT_EQ(matched("[^" + expression + "]").size(), rest) << complement;
  }
  EXPECT_EQ(seen, 22u);
}

// Where the hand-written matcher and the engine first differ; empty if nowhere.
std::string difference(std::string_view expression, std::string_view text) {
  const Spans ours = spans(Pattern::regex(expression, "test"), text);
  const Spans theirs = spans(Pattern::regex(expression, "test", true), text);
  if (ours == theirs) return "";
  size_t i = 0;
  while (i < ours.size() && i < theirs.size() && ours[i] == theirs[i]) ++i;
  const auto show = [&](const Spans& list) {
    if (i == list.size()) return std::string("the end");
    return quote_json(text.substr(list[i].first, list[i].second - list[i].first));
  };
  return fmt::format("match {}: {} but the engine has {}", i, show(ours), show(theirs));
}

TEST(WordMatcher, EveryCodePointIsWhatTheEngineTakesItFor) {
  SampledCases cases(8);
  for (const std::string_view expression : well_known_expressions()) {
    ASSERT_NE(find_word_matcher(expression), nullptr);
    // Alone, between letters, in front of a digit, behind a space.
    for (const char* around : {"{}", "a{}b", " {}1", "A{}\n", "\u4E00{}."}) {
      if (!cases.next()) continue;
      const std::string_view form = around;
      const size_t gap = form.find("{}");
      std::string text;
      for (char32_t c = 0; c < 0x110000; ++c) {
        if (c >= 0xD800 && c < 0xE000) continue;
        text += form.substr(0, gap);
        append_utf8(text, c);
        text += form.substr(gap + 2);
      }
      EXPECT_EQ(difference(expression, text), "") << expression << " in " << around;
    }
  }
}

TEST(WordMatcher, RandomTextsAreCutAsTheEngineCutsThem) {
  const std::vector<std::string_view> parts = {
      "a",      "b",      "s",      "S",          "t",          "T",      "re",     "RE",
      "ve",     "m",      "ll",     "d",          "'",          "'s",     "'LL",    "A",
      "Z",      "\u01C5", " ",      " ",          "  ",         "\t",     "\n",     "\r",
      "\r\n",   "\n\n",   "1",      "23",         "4567",       ".",      ",",      "/",
      "//",     "!",      "-",      "_",          "\u017F",     "\u00E9", "\u0301", "\u0903",
      "\u4E00", "\u3042", "\u30FC", "\u02B0",     "\u0660",     "\u00BD", "\u00A0", "\u2028",
      "\u0085", "\u200B", "\u20AC", "\U0001F600", "\U0001D7CE", "\u10A0", "\u00AA", "<",
      "|",      "\x01"};
  const uint64_t seed = 31;
  std::mt19937_64 random(seed);
  std::string text;
  for (int round = 0; round < 200; ++round) {
    text.clear();
    for (int k = 0; k < 400; ++k) {
      const std::string_view part = parts[random() % parts.size()];
      for (size_t n = random() % 8 == 0 ? 1 + random() % 6 : 1; n > 0; --n) text += part;
    }
    for (const std::string_view expression : well_known_expressions())
      ASSERT_EQ(difference(expression, text), "")
          << expression << " seed " << seed << " round " << round;
  }
}

TEST(WordMatcher, TheCorpusIsCutAsTheEngineCutsIt) {
  if (!std::filesystem::exists(golden::folder())) GTEST_SKIP() << "goldens not found";
  std::string all;
  for (const auto& [name, text] : golden::corpus()) all += text;
  for (const std::string_view expression : well_known_expressions())
    EXPECT_EQ(difference(expression, all), "") << expression;
}

TEST(Pattern, LiteralsAreNotExpressions) {
  EXPECT_EQ(spans(Pattern::literal("a."), "a.aba."), (Spans{{0, 2}, {4, 6}}));
  EXPECT_EQ(spans(Pattern::literal("aa"), "aaaaa"), (Spans{{0, 2}, {2, 4}}));
}

TEST(Pattern, EmptyMatchesDoNotRepeatAtTheirPlace) {
  // Ruby: "aXbX".scan(/(?=X)/) stands at 1 and 3; an empty match behind a match does not count.
  EXPECT_EQ(spans("(?=X)", "aXbX"), (Spans{{1, 1}, {3, 3}}));
  EXPECT_EQ(spans("x*", "xxa"), (Spans{{0, 2}, {3, 3}}));
}

TEST(Pattern, TranslatesWhatRubyWritesOtherwise) {
  EXPECT_EQ(spans("\\h+", "xyzBEEF1g"), (Spans{{3, 8}}));
  EXPECT_EQ(spans("\\u4e2d+", "a\u4e2d\u4e2d"), (Spans{{1, 7}}));
  EXPECT_EQ(spans("^b$", "a\nb\nc"), (Spans{{2, 3}}));
  EXPECT_EQ(spans("[\\p{Lu}\\p{Ll}&&[^a-y]]+", "abzZy"), (Spans{{2, 4}}));
  EXPECT_EQ(spans("[a-c[:digit:]]+", "x1b2x"), (Spans{{1, 4}}));
  EXPECT_EQ(spans("[]a]+", "x]a"), (Spans{{1, 3}}));
  EXPECT_EQ(spans("[^\\S\\n]+", "a \n \tb"), (Spans{{1, 2}, {3, 5}}));
}

TEST(Pattern, RefusesWhatItCannotTranslate) {
  for (const char* expression : {"[a[bc]]", "(", "[a", "a\\", "\\p{NoSuchThing}", "\\pL", "\\u12",
                                 "a{1,3}+", "[a&&b]", "\\C", "(?<=a+)b"}) {
    try {
      Pattern::regex(expression, "here");
      ADD_FAILURE() << expression;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalid) << expression;
      EXPECT_TRUE(error.message().starts_with("here: ")) << error.message();
    }
  }
}

TEST(Pattern, ExplodingExpressionsEndInAnError) {
  EXPECT_THROW(spans("(a|aa)+$", std::string(200, 'a') + "b"), Error);
}

}  // namespace
}  // namespace flare::frontend::tokenizer
