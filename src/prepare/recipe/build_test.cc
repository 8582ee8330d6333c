// Plans and artifacts held to the specified directory, and to what the sources read.
#include "prepare/recipe/build.h"

#include <gtest/gtest.h>

#include "artifact/reader.h"
#include "base/file.h"
#include "base/hash/sha256.h"
#include "prepare/checkpoint_source.h"
#include "prepare/import/import.h"
#include "prepare/recipe/plan.h"
#include "prepare/test_support.h"

namespace flare::prepare {
namespace {

using test::fs::path;

const path kNano = path(FLARE_SOURCE_DIR) / "models/nano";

artifact::ArtifactId fixed_id() {
  return artifact::id_from_hex("000102030405060708090a0b0c0d0e0f");
}

BuildOptions options_of(const std::string& recipe, int threads = 1) {
  return {.recipe = recipe, .artifact_id = fixed_id(), .threads = threads};
}

// spec/artifact.md §18.1: names, order, packing, ranges, uses and config, by the text's digest.
TEST(Plan, GivesTheSpecifiedDirectoryOfTheOneLayerExample) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder.path(), test::one_layer_qwen3_5_config(),
                         test::one_layer_qwen3_5_tensors());
  const auto checkpoint = checkpoint::Checkpoint::open(folder.path());
  const ImportedModel model = import_checkpoint(checkpoint);
  Chooser chooser(find_recipe("direct"));
  ArtifactPlan plan = plan_artifact(model, chooser, {"text"},
                                    {{"tokenizer.json", std::string(9000001, 'x')},
                                     {"tokenizer_config.json", std::string(12345, 'x')},
                                     {"chat_template.jinja", std::string(4096, 'x')},
                                     {"generation_config.json", std::string(181, 'x')}});
  plan.directory.metadata = Json::object({{"name", "example-one-layer"}});
  plan.directory.files = {{.path = "", .payload_bytes = 136518400}};
  const std::string text = artifact::canonical_text(plan.directory);
  EXPECT_EQ(text.size(), 4774u);
  EXPECT_EQ(sha256_hex(as_bytes(text)),
            "e74df51bd7e0b97d357c163f83f69b9f89a738fa04901be58f61f83404dfd982")
      << text;
}

TEST(Plan, SharesOneObjectBetweenTiedEmbeddingAndHead) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder.path(), test::tiny_llama_config(), test::tiny_llama_tensors());
  const auto checkpoint = checkpoint::Checkpoint::open(folder.path());
  const ImportedModel model = import_checkpoint(checkpoint);
  Chooser chooser(find_recipe("q4"));
  const ArtifactPlan plan = plan_artifact(model, chooser, {"text"}, {});
  const artifact::Binding* embedding = plan.directory.find_binding("text/token_embedding");
  const artifact::Binding* head = plan.directory.find_binding("text/output_head");
  ASSERT_NE(embedding, nullptr);
  ASSERT_NE(head, nullptr);
  EXPECT_FALSE(head->object.empty());
  EXPECT_EQ(embedding->object, head->object);
  EXPECT_EQ(plan.directory.find_object(head->object)->format, "q6_g64_fp16");
  // Without a gate the attention group is query|key|value.
  EXPECT_EQ(plan.directory.objects[0].shape, (codec::Shape{16, 8}));
  EXPECT_EQ(plan.directory.find_binding("text/layers/0/attention/value")->parts.at(0).begin, 96u);
}

TEST(Build, GivesTheSameBytesForAnyNumberOfThreads) {
  for (const char* recipe : {"bf16", "keep", "q8", "q4"}) {
    const test::TemporaryFolder folder;
    build_artifact(kNano, folder.path() / "one.ninfer", options_of(recipe, 1));
    build_artifact(kNano, folder.path() / "three.ninfer", options_of(recipe, 3));
    EXPECT_TRUE(read_text_file(folder.path() / "one.ninfer") ==
                read_text_file(folder.path() / "three.ninfer"))
        << recipe;
    EXPECT_NO_THROW(artifact::verify(folder.path() / "one.ninfer", 2, false, {})) << recipe;
  }
}

// The artifact's words are those that the checkpoint source makes in memory, and for recipe keep
// those of the checkpoint itself.
TEST(Build, StoresWhatTheSourceReadsInPlace) {
  for (const char* recipe : {"bf16", "keep", "q8", "q4"}) {
    const test::TemporaryFolder folder;
    const path target = folder.path() / "nano.ninfer";
    build_artifact(kNano, target, options_of(recipe, 2));
    const auto made = open_source(target, "", 1);
    const auto direct = open_source(kNano, recipe, 2);
    EXPECT_EQ(made->config("text"), direct->config("text"));
    EXPECT_EQ(made->parameters("text"), direct->parameters("text"));
    EXPECT_EQ(made->resource("tokenizer.json"), direct->resource("tokenizer.json"));
    EXPECT_EQ(made->resource("chat_template.jinja"), direct->resource("chat_template.jinja"));
    const auto checkpoint = checkpoint::Checkpoint::open(kNano);
    const ImportedModel model = import_checkpoint(checkpoint);
    for (const ImportedParameter& parameter : model.components[0].parameters) {
      const uint64_t n = codec::element_count(parameter.shape);
      ASSERT_EQ(made->values(parameter.name, n), direct->values(parameter.name, n))
          << recipe << " " << parameter.name;
      for (const std::string& input : parameter.inputs)
        ASSERT_EQ(made->policy(parameter.name, input), direct->policy(parameter.name, input));
    }
  }
}

TEST(Build, ReportsSizesAndWhatIsLeftOut) {
  const test::TemporaryFolder folder;
  BuildOptions options = options_of("q4");
  options.dry_run = true;
  const BuildReport report = build_artifact(kNano, folder.path() / "nano.ninfer", options);
  EXPECT_TRUE(folder.names().empty());
  EXPECT_EQ(report.name, "nano");
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_EQ(report.skipped[0].id, "mtp");
  EXPECT_GT(report.bits_per_weight(), 4.2);
  EXPECT_LT(report.bits_per_weight(), 6.0);
  EXPECT_EQ(report.resources.size(), 4u);
}

// Writes a bf16 infinity so many words before the end of a file.
void put_infinity(const path& file, int words_from_end) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-2 * words_from_end, std::ios::end);
  stream.write("\x80\x7f", 2);
}

TEST(Build, LeavesNothingBehindAfterAnError) {
  const test::TemporaryFolder folder;
  const path source = folder.path() / "source", target = folder.path() / "out";
  test::fs::create_directories(source);
  test::fs::create_directories(target);
  test::write_checkpoint(source, test::tiny_llama_config(), test::tiny_llama_tensors());
  // The last words of down_proj [8,12], which final norm [8] follows.
  put_infinity(source / "model.safetensors", 8 + 1);
  // Words of the same type are copied whatever they are.
  EXPECT_NO_THROW(build_artifact(source, folder.path() / "direct.ninfer", options_of("bf16")));
  try {
    build_artifact(source, target / "q4.ninfer", options_of("q4"));
    FAIL() << "an infinite weight was encoded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kValue);
    EXPECT_NE(error.message().find("text/layers/0/mlp/down"), std::string::npos) << error.message();
  }
  EXPECT_TRUE(test::fs::is_empty(target));
}

TEST(Build, StopsWhenAskedAndRemovesItsFiles) {
  const test::TemporaryFolder folder;
  BuildOptions options = options_of("q8");
  int blocks = 0;
  options.check_stop = [&] {
    if (++blocks == 3) throw Error(Code::kCancelled, "stopped");
  };
  EXPECT_THROW(build_artifact(kNano, folder.path() / "nano.ninfer", options), Error);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Build, RefusesUnknownRecipesAndComponents) {
  const test::TemporaryFolder folder;
  const path target = folder.path() / "x.ninfer";
  try {
    build_artifact(kNano, target, options_of("q7"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    EXPECT_NE(error.message().find("bf16, keep, q8, q6, q5, q4"), std::string::npos)
        << error.message();
  }
  BuildOptions options = options_of("q4");
  options.components = {"text", "vision"};
  try {
    build_artifact(kNano, target, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kComponent);
    // The draft component was not asked for, and could be.
    EXPECT_NE(error.message().find("'vision' is not in this checkpoint, only text, mtp can"),
              std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace flare::prepare
