// Tests of patterns: classes of the reference, translated syntax, limits.
#include "frontend/tokenizer/pattern.h"

#include <algorithm>
#include <vector>

#include "frontend/tokenizer/tokenizer_golden.h"

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
