// Vocabularies of GGUF files against the ids that llama.cpp stores beside them, and against the
// tokenizer.json of the same models.
#include "prepare/import/gguf_vocabulary.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "base/json/json.h"
#include "base/test_support.h"
#include "checkpoint/gguf_fixture.h"
#include "frontend/tokenizer/tokenizer.h"
#include "frontend/tokenizer/tokenizer_golden.h"

namespace flare::prepare {
namespace {

namespace fs = std::filesystem;
using checkpoint::GgufFile;
using frontend::Tokenizer;

const fs::path kShared = fs::path(FLARE_SOURCE_DIR) / "../shared/data";

Tokenizer tokenizer_of(const GgufFile& file) {
  return Tokenizer::from_json(*gguf_resource(file, "tokenizer.json"), file.path().string());
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> out;
  size_t at = 0;
  for (size_t end; (end = text.find(separator, at)) != std::string::npos;
       at = end + separator.size())
    out.push_back(text.substr(at, end - at));
  out.push_back(text.substr(at));
  return out;
}

class GgufVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(GgufVocabulary, GivesTheIdsThatAreStoredBesideIt) {
  const fs::path path =
      kShared / "tokenizers/gguf-vocab" / fmt::format("ggml-vocab-{}.gguf", GetParam());
  if (!fs::exists(path)) GTEST_SKIP() << path << " is absent";
  const auto tokenizer = tokenizer_of(GgufFile::open(path));
  const auto texts = split(read_text_file(path.string() + ".inp"), "\n__ggml_vocab_test__\n");
  const auto lines = split(read_text_file(path.string() + ".out"), "\n");
  ASSERT_GE(lines.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    std::istringstream line(lines[i]);
    std::vector<int32_t> want;
    for (int32_t id; line >> id;) want.push_back(id);
    EXPECT_EQ(tokenizer.encode(texts[i], {false, true}), want) << "text " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GgufVocabulary,
                         testing::Values("gpt-2", "starcoder", "refact", "llama-spm", "phi-3",
                                         "falcon", "mpt", "deepseek-coder", "deepseek-llm",
                                         "bert-bge"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

void expect_same(const fs::path& gguf, const fs::path& folder,
                 const std::vector<std::string>& texts) {
  const auto file = GgufFile::open(gguf);
  const auto got = tokenizer_of(file);
  const auto want =
      Tokenizer::from_json(read_text_file(folder / "tokenizer.json"), folder.string());
  for (const std::string& text : texts)
    for (const bool special : {false, true}) {
      const auto ids = want.encode(text, {special, true});
      EXPECT_EQ(got.encode(text, {special, true}), ids) << text;
      EXPECT_EQ(got.decode(ids, false), want.decode(ids, false)) << text;
      EXPECT_EQ(got.decode(ids, true), want.decode(ids, true)) << text;
    }
}

const std::vector<std::string> kTexts = {"",
                                         " ",
                                         "Once upon a time",
                                         "  two  spaces\n\n\tand a tab",
                                         "Lily and Tim went to the park.",
                                         "caf\xC3\xA9 \xE2\x82\xAC 12345 \xF0\x9F\x98\x80",
                                         "e\xCC\x81 combining",
                                         "<|im_start|>user\nHi<|im_end|>",
                                         "it's <s>not</s> [x]~"};

TEST(GgufVocabularies, OfNanoAndStoriesAreTheirTokenizerJson) {
  if (!fs::exists(kShared / "goldens/gguf")) GTEST_SKIP() << "../shared/data is absent";
  expect_same(kShared / "goldens/gguf/nano-bf16.gguf", fs::path(FLARE_SOURCE_DIR) / "models/nano",
              kTexts);
  expect_same(kShared / "models/stories260k/stories260k-f16.gguf",
              kShared / "models/stories260k/hf-f32", kTexts);
}

TEST(GgufVocabularies, TemplateAndEndsOfNanoAreThoseOfItsFolder) {
  const fs::path path = kShared / "goldens/gguf/nano-bf16.gguf";
  if (!fs::exists(path)) GTEST_SKIP() << path << " is absent";
  const auto file = GgufFile::open(path);
  const fs::path folder = fs::path(FLARE_SOURCE_DIR) / "models/nano";
  EXPECT_EQ(gguf_resource(file, "chat_template.jinja"),
            read_text_file(folder / "chat_template.jinja"));
  const Json got = parse_json(*gguf_resource(file, "generation_config.json"), "got");
  const Json want = parse_json(read_text_file(folder / "generation_config.json"), "want");
  EXPECT_EQ(got.at("eos_token_id"), want.at("eos_token_id"));
  EXPECT_EQ(got.at("top_k"), want.at("top_k"));
  EXPECT_NEAR(got.at("top_p").as_double(), want.at("top_p").as_double(), 1e-6);
  EXPECT_NEAR(got.at("temperature").as_double(), want.at("temperature").as_double(), 1e-6);
  const Json config = parse_json(*gguf_resource(file, "tokenizer_config.json"), "config");
  EXPECT_EQ(config.at("eos_token"), Json("<|im_end|>"));
}

// An answer of gpt-oss is several messages: its ends are those of the family's
// generation_config.json, although files name the end of a message too.
TEST(GgufVocabularies, TheEndOfAMessageIsNoEndOfAnAnswer) {
  const auto ends = [](const std::vector<std::string>& marks) {
    checkpoint::test::GgufBuilder file;
    file.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", marks);
    file.u32s("tokenizer.ggml.token_type", std::vector<uint32_t>(marks.size(), 3));
    file.u32("tokenizer.ggml.eos_token_id", 1).u32("tokenizer.ggml.eot_token_id", 2);
    const TemporaryFolder folder;
    const auto opened = GgufFile::open(folder.write("v.gguf", file.bytes()));
    return parse_json(*gguf_resource(opened, "generation_config.json"), "got")
        .at("eos_token_id")
        .to_text();
  };
  EXPECT_EQ(ends({"<|endoftext|>", "<|return|>", "<|end|>", "<|call|>"}), "[1,0,3]");
  EXPECT_EQ(ends({"<|endoftext|>", "<|user|>", "<|end|>", "<|assistant|>"}), "[1,2,0]");
}

// A GGUF file with the vocabulary of a tokenizer.json, as converters write it.
std::string gguf_of(const Json& tokenizer, const std::string& pre) {
  const Json& model = tokenizer.at("model");
  std::vector<std::string> tokens, merges;
  std::vector<uint32_t> types;
  const auto add = [&](const std::string& token, uint64_t id, uint32_t type) {
    if (tokens.size() <= id) tokens.resize(id + 1), types.resize(id + 1, 5);
    tokens[id] = token;
    types[id] = type;
  };
  for (const auto& [token, id] : model.at("vocab").as_object()) add(token, id.as_u64(), 1);
  for (const Json& token : tokenizer.at("added_tokens").as_array())
    add(token.at("content").as_string(), token.at("id").as_u64(),
        token.at("special").as_bool() ? 3 : 4);
  for (const Json& merge : model.at("merges").as_array())
    merges.push_back(merge.is_string()
                         ? merge.as_string()
                         : merge.as_array()[0].as_string() + " " + merge.as_array()[1].as_string());
  checkpoint::test::GgufBuilder file;
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  file.texts("tokenizer.ggml.tokens", tokens).u32s("tokenizer.ggml.token_type", types);
  return file.texts("tokenizer.ggml.merges", merges).bytes();
}

TEST(GgufVocabularies, OfRealFamiliesGiveTheIdsOfTheReference) {
  namespace golden = frontend::golden;
  if (!fs::exists(golden::folder())) GTEST_SKIP() << golden::folder() << " is absent";
  for (const auto& [family, pre] : {std::pair{"qwen3", "qwen2"},
                                    {"llama3", "llama-bpe"},
                                    {"deepseek_v3", "deepseek-v3"},
                                    {"gptoss", "gpt-4o"}}) {
    const auto lines = golden::read_lines(golden::folder() / (std::string(family) + ".jsonl"));
    const auto path = golden::fetch_family(family, lines[0].at("meta"));
    if (!path) GTEST_SKIP() << "npm cannot fetch the tokenizer of " << family;
    const Json json = parse_large_json(read_text_file(*path), path->string());
    const TemporaryFolder folder;
    const auto file = GgufFile::open(folder.write("v.gguf", gguf_of(json, pre)));
    const auto tokenizer = tokenizer_of(file);
    size_t compared = 0;
    for (const Json& line : lines)
      if (const Json* id = line.find("id"); id != nullptr && line.find("ids") != nullptr) {
        const auto got = tokenizer.encode(golden::corpus_text(id->as_string()), {false, true});
        EXPECT_TRUE(golden::same_ids(got, line.at("ids"))) << family << " " << id->as_string();
        ++compared;
      }
    EXPECT_EQ(compared, golden::corpus().size());
  }
}

TEST(GgufVocabularies, OtherTypesAndPatternsAreRefusedByName) {
  const TemporaryFolder folder;
  for (const auto& [model, pre, part] :
       {std::tuple{"rwkv", "default", "is 'rwkv', only gpt2, llama and bert"},
        std::tuple{"gpt2", "no-such-pattern", "is 'no-such-pattern', expected one of"}}) {
    checkpoint::test::GgufBuilder file;
    file.text("tokenizer.ggml.model", model).text("tokenizer.ggml.pre", pre);
    file.texts("tokenizer.ggml.tokens", {"a"}).texts("tokenizer.ggml.merges", {});
    const fs::path path = folder.write(std::string(model) + ".gguf", file.bytes());
    try {
      gguf_resource(GgufFile::open(path), "tokenizer.json");
      ADD_FAILURE() << model;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kSupport);
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  }
}

}  // namespace
}  // namespace flare::prepare
