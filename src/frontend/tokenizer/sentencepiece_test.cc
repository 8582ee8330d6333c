// SentencePiece .model files: the ids and texts of the library, and files that are wrong.
#include <map>
#include <random>

#include "frontend/tokenizer/tokenizer_golden.h"

namespace flare::frontend {
namespace {

using namespace golden;

std::filesystem::path models() { return folder() / "sentencepiece"; }

// Only control pieces are structural, so that a caller's text is what the library sees.
Tokenizer load_model(const std::string& name) {
  const std::vector<std::string_view> no_texts;
  return Tokenizer::from_sentencepiece(read_text_file(models() / (name + ".model")), name,
                                       &no_texts, {});
}

class SentencePieceGolden : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(models())) GTEST_SKIP() << "goldens not found at " << models();
  }
};

TEST_P(SentencePieceGolden, GivesTheIdsAndTextsOfTheLibrary) {
  const Tokenizer tokenizer = load_model(GetParam());
  size_t seen = 0;
  for (const Json& line : read_lines(models() / "expected.jsonl")) {
    const Json* model = line.find("m");
    if (model == nullptr || model->as_string() != GetParam()) continue;
    ++seen;
    const std::string& text = corpus_text(line.at("id").as_string());
    SCOPED_TRACE(line.at("id").as_string() + " " + quote_json(text).substr(0, 200));
    const Ids ids = tokenizer.encode(MarkedText(text, Origin::kCaller));
    EXPECT_EQ(ids, ids_of(line.at("ids")));
    const Json* decoded = line.find("dec");
    const Ids expected = ids_of(line.at("ids"));
    EXPECT_EQ(tokenizer.decode(expected, true), decoded ? decoded->as_string() : text);
    EXPECT_EQ(decode_streaming(tokenizer, expected, true), tokenizer.decode(expected, true));
    EXPECT_EQ(decode_streaming(tokenizer, expected, false), tokenizer.decode(expected, false));
  }
  EXPECT_GT(seen, 150u);
}

TEST_P(SentencePieceGolden, StreamsEqualOneShotDecodingOfRandomIds) {
  const Tokenizer tokenizer = load_model(GetParam());
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    Ids ids(random() % 20);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % (tokenizer.id_limit() + 1));
    const bool skip = random() % 2;
    EXPECT_EQ(decode_streaming(tokenizer, ids, skip), tokenizer.decode(ids, skip)) << round;
  }
}

// Finishes at all only if no step is quadratic.
TEST_P(SentencePieceGolden, LongLinesFinish) {
  const Tokenizer tokenizer = load_model(GetParam());
  for (const std::string unit : {"a", " ", "\u2603", "<tok>", "\xFF"}) {
    std::string text;
    while (text.size() < 1u << 20) text += unit;
    const Ids ids = tokenizer.encode(text, {});
    tokenizer.decode(ids, false);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SentencePieceGolden,
                         ::testing::Values("bpe_gemma", "bpe_llama", "bpe_no_bytes", "char",
                                           "unigram_identity_bytes", "unigram_nmt_nfkc",
                                           "unigram_no_bytes", "unigram_suffix", "word"),
                         [](const auto& info) { return std::string(info.param); });

std::string bytes_of_hex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

// Cases of tools/sentencepiece_cases.py.
TEST(SentencePieceLibrary, AgreesOnEditedModelsAndBrokenTexts) {
  const auto folder =
      std::filesystem::path(FLARE_SOURCE_DIR) / "src/frontend/tokenizer/testdata/sentencepiece";
  const std::vector<std::string_view> no_texts;
  std::map<std::string, Tokenizer> models;
  size_t seen = 0;
  for (const Json& line : read_lines(folder / "cases.jsonl")) {
    const Json* name = line.find("model");
    if (name == nullptr) continue;
    ++seen;
    auto found = models.find(name->as_string());
    if (found == models.end())
      found = models
                  .emplace(name->as_string(),
                           Tokenizer::from_sentencepiece(
                               read_text_file(folder / (name->as_string() + ".model")),
                               name->as_string(), &no_texts, {true, true}))
                  .first;
    const Tokenizer& tokenizer = found->second;
    SCOPED_TRACE(name->as_string() + " " + line.at("text").as_string());
    const std::string text = bytes_of_hex(line.at("text").as_string());
    if (const Json* ids = line.find("decode")) {
      EXPECT_EQ(tokenizer.decode(ids_of(*ids), true), text);
      EXPECT_EQ(decode_streaming(tokenizer, ids_of(*ids), true), text);
      continue;
    }
    const Ids ids = ids_of(line.at("ids"));
    EXPECT_EQ(tokenizer.encode(MarkedText(text, Origin::kCaller)), ids);
    EXPECT_EQ(tokenizer.encode(text, {false, false}), ids);
    EXPECT_EQ(tokenizer.encode(text, {true, false}), ids_of(line.at("with_ends")));
  }
  EXPECT_EQ(models.size(), 11u);
  EXPECT_EQ(seen, 1100u);
}

class SentencePieceMarkers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(models())) GTEST_SKIP() << "goldens not found at " << models();
  }
};

TEST_F(SentencePieceMarkers, CallersCannotWriteThem) {
  const std::string bytes = read_text_file(models() / "bpe_gemma.model");
  const std::vector<std::string_view> texts = {"a <tok> b"};
  const Tokenizer tokenizer = Tokenizer::from_sentencepiece(bytes, "bpe_gemma", &texts, {});
  const auto count = [&](const MarkedText& text, std::string_view token) {
    const Ids ids = tokenizer.encode(text);
    return std::count(ids.begin(), ids.end(), tokenizer.token_id(token).value());
  };
  // A control piece, a user-defined one that the template names, and one that it does not.
  const std::string text = "x<turn>y<tok>z[MASK]";
  EXPECT_EQ(count(MarkedText(text, Origin::kTemplate), "<turn>"), 1);
  EXPECT_EQ(count(MarkedText(text, Origin::kCaller), "<turn>"), 0);
  EXPECT_EQ(count(MarkedText(text, Origin::kTemplate), "<tok>"), 1);
  EXPECT_EQ(count(MarkedText(text, Origin::kCaller), "<tok>"), 0);
  EXPECT_EQ(count(MarkedText(text, Origin::kCaller), "[MASK]"), 1);
  EXPECT_TRUE(tokenizer.is_structural(tokenizer.token_id("<tok>").value()));
  EXPECT_FALSE(tokenizer.is_structural(tokenizer.token_id("[MASK]").value()));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(MarkedText(text, Origin::kCaller)), false), text);
  EXPECT_EQ(tokenizer.encode(MarkedText(text, Origin::kTemplate)), tokenizer.encode(text, {}));
  for (size_t cut = 0; cut < 5; ++cut) {
    MarkedText part("<tok>", Origin::kTemplate);
    MarkedText mixed(std::string_view("<tok>").substr(0, cut), Origin::kTemplate);
    mixed.append(std::string_view("<tok>").substr(cut), Origin::kCaller);
    EXPECT_EQ(count(mixed, "<tok>"), 0) << cut;
  }
}

TEST_F(SentencePieceMarkers, SpecialTokensStandAround) {
  const std::string bytes = read_text_file(models() / "bpe_llama.model");
  const Tokenizer plain = Tokenizer::from_sentencepiece(bytes, "m");
  const Ids ids = plain.encode("Hello", {});
  Ids with = ids;
  with.insert(with.begin(), plain.token_id("<s>").value());
  EXPECT_EQ(plain.encode("Hello", {true, true}), with);
  with.push_back(plain.token_id("</s>").value());
  const Tokenizer both = Tokenizer::from_sentencepiece(bytes, "m", nullptr, {true, true});
  EXPECT_EQ(both.encode("Hello", {true, true}), with);
  EXPECT_EQ(both.decode(with, true), "Hello");
  EXPECT_EQ(both.token_bytes(both.token_id("<0x0A>").value()), "\n");
}

TEST_F(SentencePieceMarkers, DamagedFilesAreInvalidAndNeverCrash) {
  std::mt19937_64 random(5);
  for (const char* name : {"char", "bpe_no_bytes", "unigram_suffix"}) {
    const std::string good = read_text_file(models() / (std::string(name) + ".model"));
    size_t refused = 0;
    for (int round = 0; round < 1500; ++round) {
      std::string bytes = good;
      for (int k = 1 + random() % 3; k > 0; --k)
        bytes[random() % bytes.size()] ^= 1 << random() % 8;
      if (round % 3 == 0) bytes.resize(random() % bytes.size());
      try {
        const Tokenizer tokenizer = Tokenizer::from_sentencepiece(bytes, "t.model");
        const Ids ids = tokenizer.encode("ab <s> \u00e9 the", {true, true});
        EXPECT_EQ(decode_streaming(tokenizer, ids, false), tokenizer.decode(ids, false));
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(error.code(), Code::kInvalid) << error.message();
      }
    }
    EXPECT_GT(refused, 100u) << name;
  }
}

TEST(SentencePieceFile, ErrorsNameTheFieldAndWhatWasExpected) {
  const auto message = [](std::string_view bytes) -> std::string {
    try {
      Tokenizer::from_sentencepiece(bytes, "t.model");
      return "accepted";
    } catch (const Error& error) {
      return error.message();
    }
  };
  using std::string_literals::operator""s;
  EXPECT_EQ(message(""), "t.model: no pieces, some expected");
  EXPECT_EQ(message("\x0A\x05"), "t.model: 5 bytes wanted, 0 left");
  EXPECT_EQ(message("\x0A\x00"s), "t.model: piece 0: no text, some expected");
  EXPECT_EQ(message("\x08\x01"), "t.model: pieces has wire type 0, 2 expected");
  EXPECT_EQ(message("\x0B"), "t.model: field 1 has wire type 3, 0, 1, 2 or 5 expected");
  EXPECT_EQ(message("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F"),
            "t.model: an integer over 64 bits");
  EXPECT_EQ(message("\x0A\x05\x0A\x01\x61\x18\x07"),
            "t.model: piece 0: type is 7, 1 to 6 expected");
  EXPECT_EQ(message("\x0A\x03\x0A\x01\x61"), "t.model: no unknown piece, one expected");
  EXPECT_EQ(message("\x0A\x03\x0A\x01\xFF"), "t.model: piece 0: piece is not UTF-8 at byte 0");
}

}  // namespace
}  // namespace flare::frontend
