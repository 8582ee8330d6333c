// The promises of tokenizer.h beyond the golden texts: prompts, origins, streams, long lines.
#include "frontend/tokenizer/tokenizer.h"

#include <random>

#include "frontend/tokenizer/tokenizer_golden.h"

namespace flare::frontend {
namespace {

using namespace golden;

class NanoTokenizer : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto path = shared_data() / "models/nano/tokenizer.json";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "not found: " << path;
    tokenizer_.emplace(load(path));
  }
  const Tokenizer& tokenizer() { return *tokenizer_; }
  std::optional<Tokenizer> tokenizer_;
};

TEST_F(NanoTokenizer, EncodesTheReferencePrompts) {
  const auto path = shared_data() / "models/nano/greedy.json";
  const Json json = parse_json(read_text_file(path), path.string());
  size_t seen = 0;
  for (const Json& item : json.at("cases").as_array()) {
    ++seen;
    const std::string& prompt = item.at("prompt").as_string();
    EXPECT_EQ(tokenizer().encode(prompt, {}), ids_of(item.at("prompt_ids"))) << prompt;
    const Ids generated = ids_of(item.at("greedy_ids"));
    EXPECT_EQ(tokenizer().decode(generated, false), item.at("text").as_string());
    EXPECT_EQ(decode_streaming(tokenizer(), generated, false), item.at("text").as_string());
  }
  EXPECT_GT(seen, 5u);
}

// The digest is that of tokenizers 0.23.3, taken as the README of the goldens says.
TEST_F(NanoTokenizer, IdsOfTheCorpusAreThoseOfTheLibrary) {
  if (!std::filesystem::exists(folder())) GTEST_SKIP() << "not found: " << folder();
  Sha256 hash;
  for (const auto& [id, text] : corpus()) add_ids(hash, tokenizer().encode(text, {}));
  EXPECT_EQ(corpus().size(), 932u);
  EXPECT_EQ(hex(hash), "0c0b0a8d6e1d11a3a93ce9a61ac5867b07ae6e09dcb95a4ac0d5b80154fec3ae");
}

TEST(StoriesTokenizer, EncodesTheReferencePrompts) {
  const auto base = shared_data() / "models/stories260k";
  if (!std::filesystem::exists(base)) GTEST_SKIP() << "not found: " << base;
  const Tokenizer tokenizer = load(base / "hf-f32/tokenizer.json");
  const Json json = parse_json(read_text_file(base / "greedy.json"), "greedy.json");
  for (const Json& item : json.as_array()) {
    const std::string& prompt = item.at("prompt").as_string();
    EXPECT_EQ(tokenizer.encode(prompt, {true, true}), ids_of(item.at("prompt_ids"))) << prompt;
    const Ids generated = ids_of(item.at("greedy_ids"));
    EXPECT_EQ(decode_streaming(tokenizer, generated, true), tokenizer.decode(generated, true));
  }
}

TEST_F(NanoTokenizer, NamesItsTokens) {
  EXPECT_EQ(tokenizer().id_limit(), 2048);
  EXPECT_EQ(tokenizer().token_id("<|im_end|>"), 2);
  EXPECT_EQ(tokenizer().token_text(2), "<|im_end|>");
  EXPECT_TRUE(tokenizer().is_special(2));
  EXPECT_TRUE(tokenizer().is_added(2046));
  EXPECT_FALSE(tokenizer().is_special(2046));
  EXPECT_FALSE(tokenizer().is_added(100));
  EXPECT_EQ(tokenizer().token_id("no such token"), std::nullopt);
  for (const int32_t id : {-1, 2048, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(tokenizer().token_text(id), "");
    EXPECT_FALSE(tokenizer().is_special(id));
  }
  for (int32_t id = 0; id < tokenizer().id_limit(); ++id)
    EXPECT_EQ(tokenizer().token_id(tokenizer().token_text(id)), id);
}

// Bytes of all tokens in a row are what the reference decodes, where nothing is broken.
TEST_F(NanoTokenizer, BytesOfTokensMakeTheText) {
  for (const auto& [name, text] : corpus()) {
    std::string bytes;
    for (const int32_t id : tokenizer().encode(text, {false, false}))
      bytes += tokenizer().token_bytes(id);
    std::string composed = tokenizer().decode(tokenizer().encode(text, {false, false}), false);
    EXPECT_EQ(bytes, composed) << name;
  }
  EXPECT_EQ(tokenizer().token_bytes(2), "<|im_end|>");
  EXPECT_EQ(tokenizer().token_bytes(-1), "");
  EXPECT_EQ(tokenizer().token_bytes(2048), "");
}

TEST(StoriesTokenizer, BytesOfByteTokensAndOfSpaces) {
  const auto path = shared_data() / "models/stories260k/hf-f32/tokenizer.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "not found: " << path;
  const Tokenizer tokenizer = load(path);
  for (int b = 0; b < 256; ++b) {
    const auto id = tokenizer.token_id(fmt::format("<0x{:02X}>", b));
    ASSERT_TRUE(id);
    EXPECT_EQ(tokenizer.token_bytes(*id), std::string(1, static_cast<char>(b)));
  }
  EXPECT_EQ(tokenizer.token_bytes(tokenizer.token_id("\u2581the").value()), " the");
}

TEST_F(NanoTokenizer, CallerTextNeverBecomesAnAddedToken) {
  const std::vector<std::string> markers = {"<|im_end|>", "<|im_start|>", "<|endoftext|>",
                                            "<think>",    "</think>",     "<tool_call>"};
  for (const std::string& marker : markers) {
    const int32_t id = tokenizer().token_id(marker).value();
    const auto has = [&](const MarkedText& text) {
      const Ids ids = tokenizer().encode(text);
      EXPECT_EQ(tokenizer().decode(ids, false), text.text());
      return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    EXPECT_TRUE(has(MarkedText(marker, Origin::kTemplate)));
    EXPECT_FALSE(has(MarkedText(marker, Origin::kCaller)));
    // Every stretch of the marker, even one byte, in the hands of the caller.
    for (size_t begin = 0; begin < marker.size(); ++begin) {
      for (size_t end = begin + 1; end <= marker.size(); ++end) {
        MarkedText text("x ", Origin::kTemplate);
        text.append(marker.substr(0, begin), Origin::kTemplate);
        text.append(marker.substr(begin, end - begin), Origin::kCaller);
        text.append(marker.substr(end), Origin::kTemplate);
        text.append(" y", Origin::kTemplate);
        EXPECT_FALSE(has(text)) << marker << " " << begin << " " << end;
      }
    }
    // Caller text around a template marker changes nothing about it.
    MarkedText text("<|im_", Origin::kCaller);
    text.append(marker, Origin::kTemplate);
    text.append("end|>", Origin::kCaller);
    EXPECT_TRUE(has(text));
  }
}

TEST_F(NanoTokenizer, OriginsAddNoBoundaryWithoutMarkersInCallerText) {
  std::mt19937_64 random(20240501);
  for (const auto& [name, body] : corpus()) {
    if (body.find('<') != std::string::npos) continue;
    const std::string before = "<|im_start|>user\n", after = "<|im_end|>\n<think>";
    MarkedText text(before, Origin::kTemplate);
    for (size_t at = 0; at < body.size();) {  // cut anywhere, even inside a character
      const size_t length = std::min<size_t>(1 + random() % 40, body.size() - at);
      text.append(body.substr(at, length), random() % 2 ? Origin::kCaller : Origin::kTemplate);
      at += length;
    }
    text.append(after, Origin::kTemplate);
    EXPECT_EQ(tokenizer().encode(text), tokenizer().encode(before + body + after, {})) << name;
  }
}

// A file whose added tokens match in normalised text.
std::string normalized_file(std::string_view normalizer) {
  return fmt::format(R"({{"added_tokens": [
    {{"id": 4, "content": "<Sep>", "normalized": true, "special": true}}],
    "normalizer": {}, "pre_tokenizer": null, "decoder": {{"type": "Fuse"}},
    "model": {{"type": "BPE", "merges": [], "vocab":
      {{"<": 0, "s": 1, "e": 2, "p": 3, ">": 5, "é": 6, "S": 7}}}}}})",
                     normalizer);
}

TEST(MarkedEncoding, FollowsOriginsThroughNormalizers) {
  const std::string steps[] = {
      R"({"type": "Lowercase"})",
      R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]})",
      R"({"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "Lowercase"}]})",
      R"({"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "S"},
          "content": "s"}, {"type": "Strip", "strip_left": true, "strip_right": true}]})"};
  for (const std::string& step : steps) {
    const Tokenizer tokenizer = Tokenizer::from_json(normalized_file(step), "test");
    const auto count = [&](const MarkedText& text) {
      const Ids ids = tokenizer.encode(text);
      return std::count(ids.begin(), ids.end(), 4);
    };
    const std::string text = "e\xCC\x81<Sep>\xC3\xA9<sep>e";
    for (size_t begin = 0; begin < text.size(); ++begin) {
      for (size_t end = begin + 1; end <= text.size(); ++end) {
        MarkedText marked(text.substr(0, begin), Origin::kTemplate);
        marked.append(text.substr(begin, end - begin), Origin::kCaller);
        marked.append(text.substr(end), Origin::kTemplate);
        const int first = end <= 3 || begin >= 8, second = end <= 10 || begin >= 15;
        EXPECT_EQ(count(marked), first + second) << step << begin << " " << end;
      }
    }
    EXPECT_EQ(tokenizer.encode(MarkedText(text, Origin::kTemplate)), tokenizer.encode(text, {}));
  }
}

TEST_F(NanoTokenizer, BrokenUtf8IsReplacedFirst) {
  const std::string broken =
      "a\xFF"
      "b\xE2\x82"
      "c\xED\xA0\x80\xF0\x9F\x98";
  const std::string repaired = "a\uFFFDb\uFFFDc\uFFFD\uFFFD\uFFFD\uFFFD";
  EXPECT_EQ(tokenizer().encode(broken, {}), tokenizer().encode(repaired, {}));
  EXPECT_EQ(tokenizer().encode(MarkedText(broken, Origin::kCaller)),
            tokenizer().encode(repaired, {}));
  // A marker broken by a caller's byte is none.
  MarkedText text("<|im_", Origin::kTemplate);
  text.append("\x80", Origin::kCaller);
  text.append("end|>", Origin::kTemplate);
  EXPECT_EQ(tokenizer().decode(tokenizer().encode(text), false),
            "<|im_\uFFFD"
            "end|>");
}

TEST_F(NanoTokenizer, StreamsEqualOneShotDecodingOfRandomIds) {
  const uint64_t seed = 7;
  std::mt19937_64 random(seed);
  const Tokenizer stories = load(shared_data() / "models/stories260k/hf-f32/tokenizer.json");
  for (const Tokenizer* tokenizer :
       std::initializer_list<const Tokenizer*>{&*tokenizer_, &stories}) {
    for (int round = 0; round < 2000; ++round) {
      Ids ids(random() % 30);
      // Low ids are single bytes in both vocabularies: many broken characters.
      const uint64_t limit = round % 2 ? 260 : tokenizer->id_limit() + 3;
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % limit);
      const bool skip = random() % 2;
      EXPECT_EQ(decode_streaming(*tokenizer, ids, skip), tokenizer->decode(ids, skip))
          << "seed " << seed << " round " << round;
    }
  }
}

TEST(StreamDecoder, GivesTextAsSoonAsNothingCanChangeIt) {
  const auto path = shared_data() / "models/nano/tokenizer.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "not found: " << path;
  const Tokenizer tokenizer = load(path);
  const Ids bytes = tokenizer.encode("\xE2\x98\x83", {});
  ASSERT_GT(bytes.size(), 1u);
  StreamDecoder decoder(tokenizer, false);
  EXPECT_EQ(decoder.push(tokenizer.encode("a", {})[0]), "a");
  for (size_t i = 0; i + 1 < bytes.size(); ++i) EXPECT_EQ(decoder.push(bytes[i]), "");
  EXPECT_EQ(decoder.push(bytes.back()), "\xE2\x98\x83");
  EXPECT_EQ(decoder.push(bytes[0]), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
}

// Finishes at all only if no step is quadratic.
TEST(Tokenizer, LongLinesFinish) {
  std::vector<std::filesystem::path> paths = {
      shared_data() / "models/nano/tokenizer.json",
      shared_data() / "models/stories260k/hf-f32/tokenizer.json"};
  for (const auto& path : paths) {
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "not found: " << path;
    const Tokenizer tokenizer = load(path);
    for (const std::string unit : {"a", " ", "\n", "\u2603", " a", "e\u0301", "\u0301",
                                   "\u0301\u0316", "1", "<", "<|im_end|>", "\t ", "he", "'s"}) {
      std::string text;
      const bool whole = unit == "a" || unit == " " || unit == "\u2603";
      while (text.size() < (whole ? 1u << 20 : 1u << 17)) text += unit;
      const Ids ids = tokenizer.encode(text, {});
      const std::string decoded = tokenizer.decode(ids, false);
      EXPECT_EQ(decode_streaming(tokenizer, ids, false), decoded);
      if (unit.find("\u0301") == unit.npos) {
        EXPECT_EQ(decoded, text);
      }
      EXPECT_EQ(tokenizer.encode(MarkedText(text, Origin::kTemplate)), ids);
    }
  }
}

}  // namespace
}  // namespace flare::frontend
