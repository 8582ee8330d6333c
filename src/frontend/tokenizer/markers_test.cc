// Which added tokens structure a prompt, and that callers cannot write those and can all others.
#include <algorithm>

#include "frontend/tokenizer/tokenizer_golden.h"

namespace flare::frontend {
namespace {

using namespace golden;

// Ids of the letters are their positions; every added token begins behind them.
constexpr std::string_view kFile = R"({
  "added_tokens": [
    {"id": 10, "content": "<s>", "special": true, "normalized": false},
    {"id": 11, "content": "<think>", "special": false, "normalized": false},
    {"id": 12, "content": "<h1>", "special": false, "normalized": false},
    {"id": 13, "content": "\n\n", "special": false, "normalized": false},
    {"id": 14, "content": "<|user|>", "special": false, "normalized": false},
    {"id": 15, "content": "<｜user｜>", "special": false, "normalized": false},
    {"id": 16, "content": "<h1><s>", "special": true, "normalized": false},
    {"id": 17, "content": "s><h1>", "special": false, "normalized": false}],
  "normalizer": null, "pre_tokenizer": null, "decoder": {"type": "Fuse"},
  "model": {"type": "BPE", "merges": [], "vocab":
    {"<": 0, ">": 1, "s": 2, "h": 3, "1": 4, "\n": 5, "a": 6}}})";

Tokenizer with_markers(const std::vector<std::string_view>& texts) {
  return Tokenizer::from_json(kFile, "test", texts);
}
MarkedText caller(std::string_view text) { return {text, Origin::kCaller}; }
MarkedText by_template(std::string_view text) { return {text, Origin::kTemplate}; }

TEST(Markers, AreSpecialTokensThoseInTheTextsAndFramedOnes) {
  const Tokenizer tokenizer = with_markers({"{{ '<think>' }}\n\n", "<tool>"});
  for (const int32_t id : {10, 11, 14, 15, 16}) EXPECT_TRUE(tokenizer.is_structural(id)) << id;
  for (const int32_t id : {-1, 0, 6, 12, 13, 17, 18}) {
    EXPECT_FALSE(tokenizer.is_structural(id)) << id;
  }
  EXPECT_FALSE(with_markers({}).is_structural(11));
  EXPECT_TRUE(with_markers({"content.split('</think>')"}).is_structural(11));
}

TEST(Markers, WithoutTextsEveryAddedTokenIsOne) {
  const Tokenizer tokenizer = Tokenizer::from_json(kFile, "test");
  for (int32_t id = 10; id < 18; ++id) {
    EXPECT_TRUE(tokenizer.is_structural(id)) << id;
    const std::string text(tokenizer.token_text(id));
    const Ids ids = tokenizer.encode(caller(text));
    EXPECT_TRUE(std::all_of(ids.begin(), ids.end(), [](int32_t i) { return i < 10; })) << id;
    EXPECT_EQ(tokenizer.encode(by_template(text)), Ids{id});
  }
}

TEST(Markers, CallersCannotWriteThemAndCanWriteOtherAddedTokens) {
  const Tokenizer tokenizer = with_markers({"<think>"});
  EXPECT_EQ(tokenizer.encode(caller("a<h1>a\n\n")), (Ids{6, 12, 6, 13}));
  EXPECT_EQ(tokenizer.encode(caller("<s>\n\n\n")), (Ids{0, 2, 1, 13, 5}));
  EXPECT_EQ(tokenizer.encode(caller("<think>")), (Ids{0, 3, 1}));
  EXPECT_EQ(tokenizer.encode(by_template("<think><h1>")), (Ids{11, 12}));
  // Without `parse_special` nothing matches.
  EXPECT_EQ(tokenizer.encode("<h1>", {false, false}), (Ids{0, 3, 4, 1}));
}

TEST(Markers, OtherAddedTokensMatchAcrossOrigins) {
  const Tokenizer tokenizer = with_markers({"<think>"});
  const std::string text = "<h1>\n\n";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    for (const Origin first : {Origin::kTemplate, Origin::kCaller}) {
      MarkedText marked(text.substr(0, cut), first);
      marked.append(text.substr(cut),
                    first == Origin::kCaller ? Origin::kTemplate : Origin::kCaller);
      EXPECT_EQ(tokenizer.encode(marked), (Ids{12, 13})) << cut;
    }
  }
}

TEST(Markers, OneThatCallersWriteHidesOnlyWhatTheyWrote) {
  const Tokenizer tokenizer = with_markers({"<think>"});
  // As in the reference the longest match counts, and one that is refused is plain text.
  EXPECT_EQ(tokenizer.encode(caller("<h1><s>")), (Ids{0, 3, 4, 1, 0, 2, 1}));
  EXPECT_EQ(tokenizer.encode(caller("<s><h1>")), (Ids{0, 2, 1, 12}));
  // The template's part of it is still the template's.
  MarkedText text = caller("<h1>");
  text.append(by_template("<s>"));
  EXPECT_EQ(tokenizer.encode(text), (Ids{12, 10}));
  text = by_template("<h1><s>");
  EXPECT_EQ(tokenizer.encode(text), (Ids{16}));
  text.append(caller("<s>"));
  text.append(by_template("<s>"));
  EXPECT_EQ(tokenizer.encode(text), (Ids{16, 0, 2, 1, 10}));
}

TEST(Markers, AreAllThatATemplateOfToolsAndThoughtsNames) {
  const auto folder = shared_data() / "models/nano";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "not found: " << folder;
  const std::string source = read_text_file(folder / "chat_template.jinja");
  const Tokenizer tokenizer =
      Tokenizer::from_json(read_text_file(folder / "tokenizer.json"), "nano", {source});
  size_t seen = 0;
  for (int32_t id = 0; id < tokenizer.id_limit(); ++id) {
    EXPECT_EQ(tokenizer.is_structural(id), tokenizer.is_added(id)) << id;
    seen += tokenizer.is_structural(id);
  }
  EXPECT_EQ(seen, 12u);
}

TEST(Markers, FollowNormalizedText) {
  const std::string file = R"({
    "added_tokens": [{"id": 4, "content": "<Sep>", "normalized": true, "special": true},
                     {"id": 8, "content": "<PE>", "normalized": true, "special": false}],
    "normalizer": {"type": "Lowercase"}, "pre_tokenizer": null, "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "merges": [], "vocab":
      {"<": 0, "s": 1, "e": 2, "p": 3, ">": 5}}})";
  const Tokenizer tokenizer = Tokenizer::from_json(file, "test", {});
  EXPECT_EQ(tokenizer.encode(caller("<Pe><SEP>")), (Ids{8, 0, 1, 2, 3, 5}));
  EXPECT_EQ(tokenizer.encode(by_template("<Pe><SEP>")), (Ids{8, 4}));
}

}  // namespace
}  // namespace flare::frontend
