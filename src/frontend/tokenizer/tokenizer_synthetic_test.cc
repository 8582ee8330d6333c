// Small files of one feature each: everything the reference does with them.
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "frontend/tokenizer/normalizer.h"
#include "frontend/tokenizer/pre_tokenizer.h"
#include "frontend/tokenizer/tokenizer_golden.h"

namespace flare::frontend {
namespace {

using namespace golden;

class Synthetic : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder())) GTEST_SKIP() << "goldens not found at " << folder();
    const auto lines = read_lines(folder() / "synthetic_expected.jsonl");
    for (const Json& id : lines[0].at("meta").at("texts").as_array())
      texts_.push_back(corpus_text(id.as_string()));
    for (size_t i = 1; i < lines.size(); ++i)
      expected_[lines[i].at("f").as_string()].push_back(lines[i]);
  }

  void check_line(const Tokenizer& tokenizer, const Json& file, const Json& line) {
    if (const Json* list = line.find("decode"))
      return check_decoding(tokenizer, ids_of(*list), line);
    const size_t number = line.at("t").as_u64();
    const std::string& text = texts_.at(number - 1);
    SCOPED_TRACE(line.at("t").to_text() + " " + quote_json(text));
    check_steps(text, file, line);
    if (const Json* pair = line.find("pair")) {
      ++pairs_;
      const auto got = tokenizer.encode_pair(text, texts_.at(number % texts_.size()));
      EXPECT_EQ(got.ids, ids_of(*pair));
      EXPECT_EQ(got.types, ids_of(line.at("pair_types")));
    }
    if (line.find("error") != nullptr) {
      EXPECT_THROW(tokenizer.encode(text, {}), Error);
      return;
    }
    EXPECT_TRUE(same_ids(tokenizer.encode(text, {}), line.at("ids")));
    EXPECT_EQ(tokenizer.encode(MarkedText(text, Origin::kTemplate)), tokenizer.encode(text, {}));
    const Json* special = line.find("ids_special");
    const Ids ids = tokenizer.encode(text, {true, true});
    EXPECT_TRUE(same_ids(ids, special ? *special : line.at("ids")));
    Json complete = line;
    if (line.find("dec") == nullptr) complete.set("dec", text);
    check_decoding(tokenizer, ids, complete);
  }

  // What the normalizer and the pre-tokenizer do, each by itself.
  void check_steps(const std::string& text, const Json& file, const Json& line) {
    tokenizer::MatchScratch scratch;
    tokenizer::NormalizedText normalized{text, {}, true};
    if (!file.at("normalizer").is_null()) {
      ++normalized_;
      const auto step = tokenizer::Normalizer::from_json({file.at("normalizer"), "normalizer"});
      step.apply(normalized, scratch);
      const Json* expected = line.find("norm");
      EXPECT_EQ(normalized.text, expected ? expected->as_string() : text);
      // The record of origins goes along with every byte.
      for (const char mark : {'\0', '\1'}) {
        tokenizer::NormalizedText marked{text, std::string(text.size(), mark), true};
        step.apply(marked, scratch);
        EXPECT_EQ(marked.text, normalized.text);
        EXPECT_EQ(marked.caller.size(), marked.text.size());
      }
    }
    const Json* pieces = line.find("pre");
    if (pieces == nullptr) return;
    ++cut_;
    tokenizer::PieceBuffer buffer;
    buffer.text = normalized.text;
    buffer.starts_input = true;
    if (!buffer.text.empty())
      buffer.pieces.push_back({0, static_cast<uint32_t>(buffer.text.size())});
    tokenizer::PreTokenizer::from_json({file.at("pre_tokenizer"), "pre_tokenizer"})
        .apply(buffer, scratch);
    std::vector<std::string> got, expected;
    for (const tokenizer::Piece& piece : buffer.pieces) got.emplace_back(buffer.view(piece));
    for (const Json& piece : pieces->as_array()) expected.push_back(piece.as_string());
    EXPECT_EQ(got, expected);
  }

  void check_decoding(const Tokenizer& tokenizer, const Ids& ids, const Json& line) {
    const std::string all = tokenizer.decode(ids, false), some = tokenizer.decode(ids, true);
    EXPECT_EQ(decode_streaming(tokenizer, ids, false), all);
    EXPECT_EQ(decode_streaming(tokenizer, ids, true), some);
    if (line.at("dec").is_null()) return;  // the reference crashes
    EXPECT_TRUE(same_text(all, line.at("dec"))) << ::testing::PrintToString(ids);
    const Json* skip = line.find("dec_skip");
    if (skip && skip->is_null()) return;
    EXPECT_TRUE(same_text(some, skip ? *skip : line.at("dec"))) << ::testing::PrintToString(ids);
  }

  std::vector<std::string> texts_;
  std::map<std::string, std::vector<Json>> expected_;
  size_t pairs_ = 0, normalized_ = 0, cut_ = 0;
};

TEST_F(Synthetic, FilesGiveTheIdsAndTextsOfTheReference) {
  size_t refused = 0;
  for (const auto& [name, lines] : expected_) {
    SCOPED_TRACE(name);
    const std::string text = read_text_file(folder() / "synthetic" / (name + ".json"));
    if (lines[0].find("load_error") != nullptr) {
      ++refused;
      EXPECT_THROW(Tokenizer::from_json(text, name), Error);
      continue;
    }
    const Tokenizer tokenizer = Tokenizer::from_json(text, name);
    const Json file = parse_large_json(text, name);
    for (const Json& line : lines) check_line(tokenizer, file, line);
  }
  EXPECT_EQ(expected_.size(), 119u);
  EXPECT_EQ(refused, 1u);
  EXPECT_EQ(pairs_, 300u);
  EXPECT_GT(normalized_, 1000u);
  EXPECT_GT(cut_, 1500u);
}

// Every decoder kind, on ids that no encoder makes.
TEST_F(Synthetic, StreamsEqualOneShotDecodingOfRandomIds) {
  const uint64_t seed = 17;
  std::mt19937_64 random(seed);
  for (const auto& [name, lines] : expected_) {
    if (lines[0].find("load_error") != nullptr) continue;
    SCOPED_TRACE(name);
    const Tokenizer tokenizer = load(folder() / "synthetic" / (name + ".json"));
    for (int round = 0; round < 40; ++round) {
      Ids ids(random() % 16);
      for (size_t i = 0; i < ids.size(); ++i)
        ids[i] = i > 0 && random() % 3 == 0
                     ? ids[i - 1]
                     : static_cast<int32_t>(random() % (tokenizer.id_limit() + 1));
      const bool skip = random() % 2;
      EXPECT_EQ(decode_streaming(tokenizer, ids, skip), tokenizer.decode(ids, skip))
          << "seed " << seed << " round " << round;
    }
  }
}

// Finishes at all only if no model and no pre-tokenizer is quadratic. What the reference refuses
// may be refused.
TEST_F(Synthetic, LongLinesFinish) {
  for (const char* name :
       {"model_bpe_bytes", "model_bpe_fuse_unk", "model_bpe_no_unk", "model_bpe_prefix_suffix",
        "model_bpe_ignore_merges", "model_unigram", "model_unigram_bytes", "model_unigram_ties",
        "model_wordlevel", "model_wordpiece_cased", "model_wordpiece_short", "norm_precompiled",
        "norm_bert_accents", "norm_nfkd", "pre_unicodescripts", "pre_split_lookaround",
        "pre_punctuation_contiguous", "dec_ctc", "added_all"}) {
    SCOPED_TRACE(name);
    const Tokenizer tokenizer = load(folder() / "synthetic" / (std::string(name) + ".json"));
    for (const std::string unit : {"a", " ", "\u2603"}) {
      std::string text;
      while (text.size() < 1u << 20) text += unit;
      try {
        const Ids ids = tokenizer.encode(text, {});
        EXPECT_FALSE(tokenizer.decode(ids, false).size() > 16 * text.size());
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kInvalid) << error.message();
      }
    }
  }
}

TEST_F(Synthetic, ThreadsShareATokenizer) {
  const Tokenizer tokenizer = load(folder() / "synthetic/model_bpe_bytes.json");
  std::vector<Ids> expected;
  for (const std::string& text : texts_) expected.push_back(tokenizer.encode(text, {}));
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round)
        for (size_t i = 0; i < texts_.size(); ++i)
          wrong += tokenizer.encode(texts_[i], {}) != expected[i];
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace flare::frontend
