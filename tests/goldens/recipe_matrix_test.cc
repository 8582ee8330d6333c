// Every kind of source by every general recipe: the artifact is valid to its last byte, each number
// lies within the bound of its format, and the logits are as near to the reference's as the
// recipe's formats let them be (../shared/data/goldens/{models,gguf,quantised}).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "artifact/reader.h"
#include "base/case_sample_fixture.h"
#include "base/file.h"
#include "base/json/json.h"
#include "base/test_support.h"
#include "checkpoint/safetensors.h"
#include "prepare/prepare.h"
#include "prepare/recipe/build.h"
#include "prepare/recipe/verify_deep.h"
#include "tests/goldens/logits.h"

namespace flare {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = fs::path(FLARE_SOURCE_DIR) / "../shared/data/goldens";

struct RecipeBound {
  const char* recipe;
  // Of sqrt(Σ error² / Σ logit²) against fp32 logits of the source's own weights. Frozen at one and
  // a half times to twice the largest that was seen, which is that of the tiny qwen3_5; a wrong
  // scale, sign or order of columns leaves 1 and more.
  double logits;
};
constexpr RecipeBound kRecipes[] = {
    {"keep", 1e-4}, {"direct", 0.01}, {"q8", 0.15}, {"q6", 0.6},        {"q5", 0.7},
    {"q4", 0.9},    {"default", 0.9}, {"fp8", 0.4}, {"gguf_q4_k", 0.6}, {"nvfp4", 0.8}};

struct Source {
  fs::path path;
  fs::path expected;  // with input_ids and logits
};

// By name, so that a sample's choice does not depend on the order of a folder.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path());
  std::ranges::sort(out);
  return out;
}

std::vector<Source> sources(const std::string& kind) {
  std::vector<Source> out;
  if (kind == "gguf") {
    const fs::path index = kGoldens / "gguf/index.json";
    const Json json = parse_json(read_text_file(index), index.string());
    for (const auto& [name, entry] : json.as_object())
      out.push_back(
          {kGoldens / "gguf" / name, kGoldens / "gguf" / entry.at("expected").as_string()});
    return out;
  }
  for (const fs::path& folder : entries(kGoldens / kind))
    if (fs::exists(folder / "config.json"))
      out.push_back({folder, folder / "expected.safetensors"});
  return out;
}

// Architectures without a graph end at their tensors.
bool has_graph(const Source& source) {
  const std::string name = source.path.filename().string();
  return !name.starts_with("qwen3_moe") && !name.starts_with("qwen3_5_moe") &&
         !name.starts_with("gpt_oss");
}

double logit_error(const fs::path& artifact, const fs::path& expected) {
  const auto file = checkpoint::SafetensorsFile::open(expected);
  const checkpoint::Tensor *ids = nullptr, *want = nullptr;
  for (const std::string prefix : {"b.", "a.", ""})
    if (ids == nullptr && find_tensor(file, prefix + "logits") != nullptr) {
      ids = find_tensor(file, prefix + "input_ids");
      want = find_tensor(file, prefix + "logits");
    }
  FLARE_ASSERT(ids != nullptr && want != nullptr);
  prepare::PrepareOptions options;
  options.exact = true;
  return relative_rms(all_logits(prepare::open_source(artifact, "", 2), token_ids(*ids), options),
                      floats(*want));
}

void check(const Source& source, const RecipeBound& recipe) {
  SCOPED_TRACE(fmt::format("{} by recipe {}", source.path.filename().string(), recipe.recipe));
  const TemporaryFolder folder;
  const fs::path made = folder / "made.ninfer";
  prepare::BuildOptions options;
  options.recipe = recipe.recipe;
  options.threads = 2;
  prepare::build_artifact(source.path, made, options);
  artifact::verify(made, 2, false, {});
  for (const prepare::DeepTotal& total : prepare::verify_deep(made, source.path, 2, {}).totals)
    EXPECT_LE(total.worst, 1) << total.format;
  if (!has_graph(source) || source.expected.extension() != ".safetensors") return;
  const double error = logit_error(made, source.expected);
  EXPECT_LE(error, recipe.logits);
  testing::Test::RecordProperty(
      fmt::format("{}:{}", source.path.filename().string(), recipe.recipe),
      fmt::format("{:.5f}", error));
}

class RecipeMatrix : public testing::TestWithParam<const char*> {};

TEST_P(RecipeMatrix, GivesNumbersAndLogitsWithinTheBoundOfTheRecipe) {
  if (!fs::exists(kGoldens)) GTEST_SKIP() << kGoldens << " is absent";
  SampledCases cases(std::ssize(kRecipes));  // every source by one of them
  for (const Source& source : sources(GetParam()))
    for (const RecipeBound& recipe : kRecipes) {
      if (!cases.next()) continue;
      try {
        check(source, recipe);
      } catch (const Error& error) {
        ADD_FAILURE() << source.path << " by recipe " << recipe.recipe << ": " << error.message();
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecipeMatrix, testing::Values("models", "gguf", "quantised"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace flare
