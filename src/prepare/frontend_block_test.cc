// The frontend block from every form of tokenizer and generation config, and from broken ones.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/file.h"
#include "prepare/frontend_notes.h"
#include "prepare/prepare.h"

namespace flare::prepare {
namespace {

// A source of nothing but text files.
class Files final : public ParameterSource {
 public:
  explicit Files(std::map<std::string, std::string> files) : files_(std::move(files)) {}
  std::string name() const override { return "files"; }
  std::filesystem::path path() const override { return "folder"; }
  std::vector<std::filesystem::path> files() const override { return {}; }
  const Json& config(std::string_view) const override { return none_; }
  bool has(std::string_view) const override { return false; }
  std::vector<std::string> parameters(std::string_view) const override { return {}; }
  codec::Matrix matrix(std::string_view, codec::Geometry) override { return {}; }
  std::vector<float> values(std::string_view, uint64_t) override { return {}; }
  graph::Policy policy(std::string_view, std::string_view) const override {
    return graph::Policy::kExact;
  }
  std::vector<int32_t> input_columns(std::string_view, std::string_view) override { return {}; }
  std::optional<std::string> resource(std::string_view role) const override {
    const auto it = files_.find(std::string(role));
    return it == files_.end() ? std::nullopt : std::optional(it->second);
  }
  void release(Bytes) override {}
  void fill() override {}

 private:
  std::map<std::string, std::string> files_;
  Json none_;
};

package::FrontendBlock block(std::map<std::string, std::string> files) {
  return make_frontend_block(Files(std::move(files)));
}
package::FrontendBlock with_tokenizer(const std::string& config) {
  return block({{"tokenizer_config.json", config}});
}
package::FrontendBlock with_generation(const std::string& config) {
  return block({{"generation_config.json", config}});
}

TEST(FrontendBlock, IsNeutralWithoutFiles) {
  const auto b = block({});
  EXPECT_FALSE(b.tokenizer_json || b.chat_template || b.tool_template);
  EXPECT_EQ(b.bos_token + b.eos_token, "");
  EXPECT_TRUE(b.stop_ids.empty());
  EXPECT_EQ(b.sampling.temperature, 1);
  EXPECT_EQ(b.sampling.top_k, 0);
  EXPECT_EQ(b.sampling.top_p, 1);
}

TEST(FrontendBlock, ReadsSpecialTokensAsTextOrObject) {
  const auto b = with_tokenizer(R"({"bos_token":{"content":"<s>","lstrip":false},
                                    "eos_token":"</s>","unk_token":4})");
  EXPECT_EQ(b.bos_token, "<s>");
  EXPECT_EQ(b.eos_token, "</s>");
  EXPECT_EQ(with_tokenizer(R"({"bos_token":null})").bos_token, "");
}

TEST(FrontendBlock, ReadsTheTemplateAsTextOrNamedList) {
  EXPECT_EQ(with_tokenizer(R"({"chat_template":"A"})").chat_template, "A");
  EXPECT_FALSE(with_tokenizer(R"({"chat_template":null})").chat_template);
  const auto b = with_tokenizer(R"({"chat_template":[{"name":"rag","template":"R"},
      {"name":"default","template":"D"},{"name":"tool_use","template":"T"}]})");
  EXPECT_EQ(b.chat_template, "D");
  EXPECT_EQ(b.tool_template, "T");
  EXPECT_FALSE(with_tokenizer(R"({"chat_template":[]})").chat_template);
}

TEST(FrontendBlock, ATemplateFileWinsOverTheConfig) {
  const auto b = block({{"tokenizer_config.json",
                         R"({"chat_template":[{"name":"default","template":"D"},
                                              {"name":"tool_use","template":"T"}]})"},
                        {"chat_template.jinja", "F"}});
  EXPECT_EQ(b.chat_template, "F");
  EXPECT_FALSE(b.tool_template);
}

TEST(FrontendBlock, ReadsStopIdsAsNumberOrList) {
  EXPECT_EQ(with_generation(R"({"eos_token_id":7})").stop_ids, (std::vector<int32_t>{7}));
  EXPECT_EQ(with_generation(R"({"eos_token_id":[7,9,7]})").stop_ids, (std::vector<int32_t>{7, 9}));
  EXPECT_TRUE(with_generation(R"({"eos_token_id":null})").stop_ids.empty());
  EXPECT_TRUE(with_generation(R"({})").stop_ids.empty());
}

TEST(FrontendBlock, TheTokenizersEndTokenStopsWhereNothingElseIsSaid) {
  const std::string tokenizer =
      read_text_file(std::filesystem::path(FLARE_SOURCE_DIR) / "models/nano/tokenizer.json");
  const auto b = block(
      {{"tokenizer.json", tokenizer}, {"tokenizer_config.json", R"({"eos_token":"<|im_end|>"})"}});
  EXPECT_EQ(b.stop_ids, (std::vector<int32_t>{2}));
  const auto other = block({{"tokenizer.json", tokenizer},
                            {"tokenizer_config.json", R"({"eos_token":"<|im_end|>"})"},
                            {"generation_config.json", R"({"eos_token_id":[5]})"}});
  EXPECT_EQ(other.stop_ids, (std::vector<int32_t>{5}));
}

TEST(FrontendBlock, ASentencePieceModelServesWithoutTokenizerJson) {
  const auto path = std::filesystem::path(FLARE_SOURCE_DIR) /
                    "../shared/data/goldens/tokenizers/sentencepiece/bpe_llama.model";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  const std::string model = read_text_file(path);
  const auto b = block({{"tokenizer.model", model},
                        {"tokenizer_config.json", R"({"eos_token":"</s>","add_eos_token":true})"}});
  EXPECT_EQ(b.sentencepiece_model, model);
  EXPECT_FALSE(b.tokenizer_json);
  EXPECT_TRUE(b.add_bos);
  EXPECT_TRUE(b.add_eos);
  EXPECT_EQ(b.stop_ids, (std::vector<int32_t>{2}));
  const auto both = block({{"tokenizer.model", model}, {"tokenizer.json", "{}"}});
  EXPECT_FALSE(both.sentencepiece_model);
}

TEST(FrontendBlock, ReadsSamplingDefaults) {
  const auto s = with_generation(R"({"do_sample":true,"temperature":0.5,"top_k":20,"top_p":0.75,
                                     "min_p":0.25,"repetition_penalty":1.5})")
                     .sampling;
  EXPECT_EQ(s.temperature, 0.5f);
  EXPECT_EQ(s.top_k, 20);
  EXPECT_EQ(s.top_p, 0.75f);
  EXPECT_EQ(s.min_p, 0.25f);
  EXPECT_EQ(s.repetition_penalty, 1.5f);
  const auto nulls = with_generation(R"({"do_sample":null,"temperature":null,"top_k":null})");
  EXPECT_EQ(nulls.sampling.temperature, 1);
  EXPECT_EQ(nulls.sampling.top_k, 0);
}

TEST(FrontendBlock, WithoutSamplingTheModelIsGreedy) {
  const auto s = with_generation(R"({"do_sample":false,"temperature":0.5,"top_k":20})").sampling;
  EXPECT_EQ(s.temperature, 0);
  EXPECT_EQ(s.top_k, 0);
}

const char* const kToolTemplate =
    "{% for m in messages %}<{{ m.role }}>{% if m.tool_calls %}<tool_call>\n"
    "{\"name\": \"{{ m.tool_calls[0].function.name }}\", \"arguments\": "
    "{{ m.tool_calls[0].function.arguments|tojson }}}\n</tool_call>{% endif %}{{ m.content }}"
    "{% endfor %}{% if add_generation_prompt %}<assistant><think>\n{% endif %}";

TEST(FrontendBlock, TheTemplateTellsFormatsAndRules) {
  const auto b = block({{"chat_template.jinja", kToolTemplate}});
  EXPECT_EQ(b.tool_format, "hermes");
  EXPECT_EQ(b.reasoning_format, "think");
  EXPECT_EQ(b.reasoning.prompt, frontend::ReasoningPrompt::kOpens);
  EXPECT_TRUE(b.rules.late_system && b.rules.adjacent_users && b.rules.continues);
  EXPECT_EQ(block({}).tool_format, "");
  // One that cannot be parsed says nothing here; the server refuses it by line.
  const auto broken = block({{"chat_template.jinja", "{% nonsense %} <think> tools [TOOL_CALLS]"}});
  EXPECT_EQ(broken.tool_format + broken.reasoning_format, "");
  EXPECT_EQ(broken.chat_template, "{% nonsense %} <think> tools [TOOL_CALLS]");
}

TEST(FrontendBlock, ChoicesOverruleFilesAndDetector) {
  const Files files({{"chat_template.jinja", kToolTemplate},
                     {"tokenizer_config.json",
                      R"({"chat_template":[{"name":"default","template":"D"},
                                           {"name":"tool_use","template":"T"}]})"}});
  const auto other = make_frontend_block(files, {.chat_template = "{{ messages[0].content }}"});
  EXPECT_EQ(other.chat_template, "{{ messages[0].content }}");
  EXPECT_FALSE(other.tool_template);
  EXPECT_EQ(other.tool_format + other.reasoning_format, "");
  const auto named =
      make_frontend_block(files, {.tool_format = "qwen_xml", .reasoning_format = "none"});
  EXPECT_EQ(named.tool_format, "qwen_xml");
  EXPECT_EQ(named.reasoning_format, "");
  const auto channels = make_frontend_block(Files({}), {.tool_format = "harmony"});
  EXPECT_EQ(channels.reasoning_format, "think_harmony");  // the family has no other
  try {
    make_frontend_block(files, {.tool_format = "nonsense"});
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    EXPECT_NE(error.message().find("hermes"), std::string::npos);
  }
}

constexpr std::string_view kOwnWords =
    "{% for m in messages %}{% if m.tool_calls %}@run {{ m.tool_calls[0].function.name }}@"
    "{% else %}{% if m.reasoning_content %}%%{{ m.reasoning_content }}%%{% endif %}"
    "{{ m.content }}{% endif %}{% endfor %}";

TEST(FrontendNotes, CallsAndThoughtsInNoKnownFormatAreNamed) {
  const auto own = block({{"chat_template.jinja", std::string(kOwnWords)}});
  EXPECT_EQ(own.tool_format + own.reasoning_format, "");
  const auto notes = frontend_notes(own, {});
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("@run flare_probe@"), std::string::npos) << notes[0];
  EXPECT_NE(notes[0].find("--tool-format"), std::string::npos) << notes[0];
  EXPECT_NE(notes[1].find("%%flare-thought%%"), std::string::npos) << notes[1];
  EXPECT_NE(notes[1].find("--reasoning-format"), std::string::npos) << notes[1];
  EXPECT_EQ(frontend_notes(own, {.tool_format = "none"}).size(), 1u);
  EXPECT_EQ(frontend_notes(own, {.tool_format = "none", .reasoning_format = "none"}).size(), 0u);
}

TEST(FrontendNotes, AKnownFormatAndNoTemplateNeedNone) {
  EXPECT_EQ(frontend_notes(block({{"chat_template.jinja", kToolTemplate}}), {}).size(), 0u);
  EXPECT_EQ(frontend_notes(block({}), {}).size(), 0u);
  const auto resources = [](std::string config) {
    return [=](std::string_view role) -> std::optional<std::string> {
      if (role == "tokenizer_config.json") return config;
      return std::nullopt;
    };
  };
  EXPECT_EQ(frontend_notes(resources("{}"), "here").size(), 0u);
  const auto broken = frontend_notes(resources("[]"), "here");
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_NE(broken[0].find("here: tokenizer_config.json"), std::string::npos) << broken[0];
}

void expect_refused(const std::string& file, const std::string& text,
                    const std::vector<std::string>& words) {
  try {
    block({{file, text}});
    ADD_FAILURE() << text << " was taken";
  } catch (const Error& e) {
    EXPECT_TRUE(e.code() == Code::kInvalid || e.code() == Code::kDirectory) << e.message();
    EXPECT_NE(e.message().find("folder: " + file), std::string::npos) << e.message();
    for (const std::string& word : words)
      EXPECT_NE(e.message().find(word), std::string::npos) << word << " in " << e.message();
  }
}

TEST(FrontendBlock, NamesFileAndFieldOfAWrongTokenizerConfig) {
  const std::string file = "tokenizer_config.json";
  expect_refused(file, "{", {"byte"});
  expect_refused(file, "[]", {"object"});
  expect_refused(file, R"({"bos_token":7})", {"bos_token", "string"});
  expect_refused(file, R"({"eos_token":{"text":"x"}})", {"eos_token", "content"});
  expect_refused(file, R"({"eos_token":{"content":1}})", {"eos_token.content", "string"});
  expect_refused(file, R"({"chat_template":5})", {"chat_template", "string"});
  expect_refused(file, R"({"chat_template":["x"]})", {"chat_template", "object"});
  expect_refused(file, R"({"chat_template":[{}]})", {"chat_template", "name"});
  expect_refused(file, R"({"chat_template":[{"name":"default"}]})", {"chat_template", "template"});
  expect_refused(file, R"({"chat_template":[{"name":"default","template":1}]})",
                 {"chat_template.template", "string"});
}

TEST(FrontendBlock, NamesFileAndFieldOfAWrongGenerationConfig) {
  const std::string file = "generation_config.json";
  expect_refused(file, "", {"byte"});
  expect_refused(file, "3", {"object"});
  expect_refused(file, R"({"eos_token_id":"7"})", {"eos_token_id", "integer"});
  expect_refused(file, R"({"eos_token_id":-1})", {"eos_token_id", "-1"});
  expect_refused(file, R"({"eos_token_id":[1,[2]]})", {"eos_token_id"});
  expect_refused(file, R"({"eos_token_id":4294967296})", {"eos_token_id", "4294967296"});
  expect_refused(file, R"({"do_sample":"no"})", {"do_sample", "boolean"});
  expect_refused(file, R"({"temperature":"hot"})", {"temperature", "number"});
  expect_refused(file, R"({"temperature":-1})", {"temperature", "-1"});
  expect_refused(file, R"({"top_k":1e300})", {"top_k"});
  expect_refused(file, R"({"top_p":1.5})", {"top_p", "1.5"});
  expect_refused(file, R"({"min_p":-0.5})", {"min_p", "-0.5"});
  expect_refused(file, R"({"repetition_penalty":0})", {"repetition_penalty"});
}

}  // namespace
}  // namespace flare::prepare
