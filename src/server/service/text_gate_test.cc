// Stop strings and characters that are cut by token borders, with the bundled tokenizer.
#include "server/service/text_gate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "frontend/tokenizer/unicode.h"

namespace flare::server {
namespace {

const frontend::Tokenizer& nano() {
  static const frontend::Tokenizer tokenizer = [] {
    const std::string path = FLARE_SOURCE_DIR "/models/nano/tokenizer.json";
    return frontend::Tokenizer::from_json(read_text_file(path), path);
  }();
  return tokenizer;
}

struct Result {
  std::string text;
  std::string matched;
  size_t n_pieces = 0;
  bool stopped = false;
};

// Feeds the ids one by one as the engine does.
Result feed(const std::vector<int32_t>& ids, std::vector<std::string> stops) {
  TextGate gate(nano(), std::move(stops));
  Result result;
  for (const int32_t id : ids) {
    const auto verdict = gate.preview({&id, 1});
    EXPECT_EQ(verdict.kept, 1);
    gate.commit(verdict.kept);
    const std::string piece = gate.take();
    EXPECT_EQ(frontend::tokenizer::valid_utf8_prefix(piece), piece.size());
    result.n_pieces += piece.empty() ? 0 : 1;
    result.text += piece;
    if (verdict.stop) {
      result.stopped = true;
      break;
    }
  }
  result.text += gate.finish();
  result.matched = gate.matched();
  return result;
}

Result feed(std::string_view text, std::vector<std::string> stops) {
  return feed(nano().encode(text, {false, false}), std::move(stops));
}

constexpr std::string_view kText =
    "The quick brown fox jumps over the lazy dog. Grüße, 你好 🙂 end";

TEST(TextGate, WithoutStopsEveryCharacterComesOutOnceAndInPieces) {
  const Result result = feed(kText, {});
  EXPECT_EQ(result.text, kText);
  EXPECT_GT(result.n_pieces, 5U);
  EXPECT_FALSE(result.stopped);
}

TEST(TextGate, AnySubstringCutsAtItsFirstOccurrence) {
  for (size_t begin = 0; begin < kText.size(); ++begin)
    for (size_t n : {1, 2, 5, 17}) {
      if (begin + n > kText.size()) continue;
      const std::string stop(kText.substr(begin, n));
      if (frontend::tokenizer::valid_utf8_prefix(stop) != stop.size()) continue;
      const Result result = feed(kText, {stop});
      ASSERT_EQ(result.text, kText.substr(0, kText.find(stop))) << "stop " << stop;
      ASSERT_EQ(result.matched, stop);
      ASSERT_TRUE(result.stopped);
    }
}

TEST(TextGate, EarliestMatchWinsThenListOrder) {
  EXPECT_EQ(feed("one two three", {"three", "two"}).text, "one ");
  EXPECT_EQ(feed("one two three", {"three", "two"}).matched, "two");
  EXPECT_EQ(feed("aXYb", {"XY", "X"}).text, "a");
}

TEST(TextGate, HeldBackTextThatIsNoStopAfterAllComesOut) {
  EXPECT_EQ(feed("foo bar", {"bars"}).text, "foo bar");
  EXPECT_EQ(feed("aaab", {"aab"}).text, "a");
  EXPECT_EQ(feed("ababc", {"abc"}).text, "ab");
}

TEST(TextGate, ACharacterCutByTheEndBecomesOneReplacementCharacter) {
  std::vector<int32_t> ids = nano().encode("ok 🙂", {false, false});
  const std::vector<int32_t> emoji = nano().encode("🙂", {false, false});
  ASSERT_GT(emoji.size(), 1U);  // its bytes are several tokens
  ids.pop_back();
  EXPECT_EQ(feed(ids, {}).text, "ok \xEF\xBF\xBD");
}

TEST(TextGate, AnEmptyAnswerIsEmpty) {
  EXPECT_EQ(feed("", {"x"}).text, "");
  EXPECT_EQ(feed("x", {"x"}).text, "");
}

}  // namespace
}  // namespace flare::server
