// Files from outside that are wrong: each is kInvalid and says where.
#include <functional>
#include <random>

#include "frontend/tokenizer/tokenizer_golden.h"

namespace flare::frontend {
namespace {

using namespace golden;

constexpr std::string_view kGood = R"({
  "added_tokens": [{"id": 6, "content": "<x>", "special": true, "normalized": false}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"},
    {"type": "Replace", "pattern": {"Regex": " +"}, "content": "_"}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"String": "b"}, "behavior": "Isolated", "invert": false},
    {"type": "Metaspace", "replacement": "_", "prepend_scheme": "never", "split": true}]},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<x>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"<x>": {"id": "<x>", "ids": [6], "tokens": ["<x>"]}}},
  "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
  "model": {"type": "BPE", "unk_token": "u", "fuse_unk": true, "byte_fallback": true,
    "vocab": {"a": 0, "b": 1, "ab": 2, "u": 3, "_": 4, "_a": 5}, "merges": ["a b", ["_", "a"]]}
})";

std::string replaced(std::string_view from, std::string_view to) {
  std::string text(kGood);
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error(std::string(from));
  return text.replace(at, from.size(), to);
}

void expect_invalid(const std::string& text, std::string_view fragment) {
  try {
    Tokenizer::from_json(text, "t.json");
    ADD_FAILURE() << "accepted: " << text.substr(0, 400);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid) << error.message();
    EXPECT_TRUE(error.message().starts_with("t.json: ")) << error.message();
    EXPECT_NE(error.message().find(fragment), std::string::npos) << error.message();
  }
}

TEST(HostileTokenizer, TheUnchangedFileLoads) {
  const Tokenizer tokenizer = Tokenizer::from_json(kGood, "t.json");
  EXPECT_EQ(tokenizer.encode("ab  a<x>?", {true, true}), (Ids{6, 0, 1, 5, 6, 3}));
}

TEST(HostileTokenizer, BrokenJsonIsInvalid) {
  for (const char* text : {"", "{", "[]", "null", "\"x\"", "{} {}", "{\"a\":1,\"a\":2}", "\xFF"})
    expect_invalid(text, "");
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += R"({"type":"Sequence","normalizers":[)";
  expect_invalid(deep, "");
  expect_invalid(replaced(R"("normalizer": {)", R"("normalizer": )" + deep), "");
}

TEST(HostileTokenizer, IdsMustBeSmallAndUnique) {
  expect_invalid(replaced(R"("b": 1)", R"("b": 4294967296)"), "model.vocab");
  expect_invalid(replaced(R"("b": 1)", R"("b": 2147483647)"), "model.vocab");
  expect_invalid(replaced(R"("b": 1)", R"("b": -1)"), "model.vocab");
  expect_invalid(replaced(R"("b": 1)", R"("b": 1.5)"), "model.vocab");
  expect_invalid(replaced(R"("b": 1)", R"("b": "1")"), "model.vocab");
  expect_invalid(replaced(R"("b": 1)", R"("b": 0)"), "model.vocab");
  expect_invalid(replaced(R"({"id": 6)", R"({"id": 99999999999)"), "added_tokens[0].id");
  expect_invalid(replaced(R"({"id": 6)", R"({"id": -6)"), "added_tokens[0].id");
  expect_invalid(replaced(R"({"id": 6)", R"({"id": 5)"), "added_tokens[0]");
  expect_invalid(replaced(R"("content": "<x>")", R"("content": "ab")"), "added_tokens[0]");
  expect_invalid(replaced("\"added_tokens\": [",
                          R"("added_tokens": [{"id": 6, "content": "<y>", "special": true},)"),
                 "added_tokens[1]");
  expect_invalid(replaced("\"ids\": [6]", "\"ids\": [7]"), "post_processor");
  expect_invalid(replaced("\"ids\": [6]", "\"ids\": [-7]"), "post_processor");
}

TEST(HostileTokenizer, MergesMustNameTokens) {
  expect_invalid(replaced("\"a b\"", "\"a z\""), "model.merges[0]");
  expect_invalid(replaced("\"a b\"", "\"b a\""), "model.merges[0]");
  expect_invalid(replaced("\"a b\"", "\"ab\""), "model.merges");
  expect_invalid(replaced("\"a b\"", "\"a b \""), "model.merges");
  expect_invalid(replaced("\"a b\"", "\"\""), "model.merges");
  expect_invalid(replaced("\"a b\"", "5"), "model.merges[0]");
  expect_invalid(replaced("[\"_\", \"a\"]", "[\"_\", \"a\", \"b\"]"), "model.merges[1]");
  expect_invalid(replaced("[\"_\", \"a\"]", "[\"_\", 1]"), "model.merges[1]");
  expect_invalid(replaced("\"fuse_unk\": true", "\"continuing_subword_prefix\": \"##\""),
                 "model.merges[0]");
}

TEST(HostileTokenizer, UnknownKindsAreNamed) {
  expect_invalid(replaced("\"NFC\"", "\"Nfc\""), "normalizer.normalizers[0]: type 'Nfc'");
  expect_invalid(replaced("\"Metaspace\"", "\"Meta\""), "pre_tokenizer.pretokenizers[1]");
  expect_invalid(replaced("\"TemplateProcessing\"", "\"T\""), "post_processor: type 'T'");
  expect_invalid(replaced("\"ByteFallback\"", "\"B\""), "decoder.decoders[0]: type 'B'");
  expect_invalid(replaced("\"BPE\"", "\"XPE\""), "model: type 'XPE'");
  expect_invalid(replaced("\"Isolated\"", "\"Alone\""), "pretokenizers[0].behavior");
  expect_invalid(replaced("\"never\"", "\"sometimes\""), "pretokenizers[1].prepend_scheme");
}

TEST(HostileTokenizer, WrongTypesAreNamed) {
  // Every value of the file in turn becomes a value of another kind.
  const Json good = parse_json(kGood, "t.json");
  size_t changed = 0, accepted = 0;
  const Json others[] = {Json(),
                         Json(true),
                         Json(-3),
                         Json(1e300),
                         Json("\xC3\xA9\xC3\xA9"),
                         Json::array({Json::array({1})}),
                         Json::object({{"type", "Sequence"}})};
  std::function<void(Json&, const Json&)> visit = [&](Json& node, const Json& root) {
    const Json saved = node;
    for (const Json& other : others) {
      node = other;
      ++changed;
      try {
        const Tokenizer tokenizer = Tokenizer::from_json(root.to_text(), "t.json");
        ++accepted;
        tokenizer.decode(tokenizer.encode("ab <x>\xC3\xA9", {true, true}), false);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kInvalid) << error.message();
      }
    }
    node = saved;
    if (node.is_array())
      for (Json& item : node.mutable_array()) visit(item, root);
    if (node.is_object())
      for (auto& [name, value] : node.mutable_object()) visit(value, root);
  };
  Json root = good;
  visit(root, root);
  EXPECT_GT(changed, 300u);
  EXPECT_LT(accepted, changed / 2);
}

TEST(HostileTokenizer, DamagedBytesNeverCrash) {
  const uint64_t seed = 99;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::string text(kGood);
    for (int k = 1 + random() % 3; k > 0; --k) {
      const size_t at = random() % text.size();
      if (random() % 2)
        text[at] = text[random() % text.size()];
      else
        text.erase(at, 1 + random() % 4);
    }
    try {
      const Tokenizer tokenizer = Tokenizer::from_json(text, "t.json");
      const Ids ids = tokenizer.encode("ab <x>\xC3\xA9 b_a", {true, true});
      EXPECT_EQ(decode_streaming(tokenizer, ids, false), tokenizer.decode(ids, false))
          << "seed " << seed << " round " << round;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalid) << error.message();
    }
  }
}

TEST(HostileTokenizer, AnUnknownCharacterWithoutUnkTokenIsAnErrorOnlyIfItIsNamed) {
  const Tokenizer named =
      Tokenizer::from_json(replaced("\"unk_token\": \"u\"", "\"unk_token\": \"?\""), "t.json");
  EXPECT_EQ(named.encode("ab", {}), (Ids{0, 1}));
  EXPECT_THROW(named.encode("z", {}), Error);
  const Tokenizer none =
      Tokenizer::from_json(replaced("\"unk_token\": \"u\"", "\"unk_token\": null"), "t.json");
  EXPECT_EQ(none.encode("aza", {}), (Ids{0, 0}));
}

}  // namespace
}  // namespace flare::frontend
