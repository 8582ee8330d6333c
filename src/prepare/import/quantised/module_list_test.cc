// Lists of modules: names, classes, expressions, wildcards, parts.
#include "prepare/import/quantised/module_list.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_support.h"

namespace flare::prepare {
namespace {

ModuleList list(std::vector<std::string> entries, ModuleSyntax syntax) {
  return ModuleList(entries, syntax, "config.json: ignore");
}

TEST(ModuleList, OfCompressedTensorsHasNamesClassesAndExpressionsFromTheStart) {
  const ModuleList names =
      list({"lm_head", "re:.*mlp.gate$", "re:model\\.layers\\.(0|12)\\..*k_proj"},
           ModuleSyntax::kCompressedTensors);
  EXPECT_TRUE(names.matches("lm_head", true));
  EXPECT_FALSE(names.matches("lm_head.0", true));
  EXPECT_TRUE(names.matches("model.layers.0.mlp.gate", true));
  EXPECT_FALSE(names.matches("model.layers.0.mlp.gate_proj", true));
  EXPECT_TRUE(names.matches("model.layers.12.self_attn.k_proj", true));
  EXPECT_FALSE(names.matches("model.layers.1.self_attn.k_proj", true));
  // re.match begins at the start of the name, and need not reach its end.
  const ModuleList start = list({"re:layers", "re:model"}, ModuleSyntax::kCompressedTensors);
  EXPECT_TRUE(start.matches("model.x", true));
  EXPECT_FALSE(start.matches("my.layers", true));
  const ModuleList look = list({"re:^(?!.*visual).*mlp"}, ModuleSyntax::kCompressedTensors);
  EXPECT_TRUE(look.matches("model.mlp", true));
  EXPECT_FALSE(look.matches("visual.mlp", true));
  const ModuleList linear = list({"Linear"}, ModuleSyntax::kCompressedTensors);
  EXPECT_TRUE(linear.matches("anything", true));
  EXPECT_FALSE(linear.matches("model.embed_tokens", false));
  EXPECT_FALSE(linear.matches_by_name("anything"));
}

TEST(ModuleList, WildcardsCoverWhatLiesBelow) {
  const ModuleList names = list({"lm_head", "model.layers.0.self_attn*", "model.vision", "*.?ate"},
                                ModuleSyntax::kWildcards);
  EXPECT_TRUE(names.matches("lm_head", true));
  EXPECT_TRUE(names.matches("model.layers.0.self_attn.q_proj", true));
  EXPECT_FALSE(names.matches("model.layers.1.self_attn.q_proj", true));
  EXPECT_TRUE(names.matches("model.vision.blocks.0.fc", true));
  EXPECT_FALSE(names.matches("model.visions", true));
  EXPECT_TRUE(names.matches("model.layers.3.mlp.gate", true));
  EXPECT_FALSE(names.matches("model.layers.3.mlp.gate_proj", true));
}

TEST(ModuleList, PartsStandAnywhereBetweenDots) {
  const ModuleList names =
      list({"lm_head", "model.layers.*.self_attn", "gate"}, ModuleSyntax::kParts);
  EXPECT_TRUE(names.matches("model.layers.17.self_attn.o_proj", true));
  EXPECT_FALSE(names.matches("model.layers.17.mlp.up_proj", true));
  EXPECT_TRUE(names.matches("model.layers.1.mlp.gate", true));
  EXPECT_FALSE(names.matches("model.layers.1.mlp.gate_proj", true));
}

TEST(ModuleList, RefusesWhatItCannotRead) {
  for (const char* entry : {"re:(", "re:[z-a]"}) {
    const Error error = error_of([&] { list({entry}, ModuleSyntax::kCompressedTensors); });
    EXPECT_NE(error.message().find("config.json: ignore"), std::string::npos) << error.message();
  }
  const Error set = error_of([] { list({"model.[ab]"}, ModuleSyntax::kWildcards); });
  EXPECT_EQ(set.code(), Code::kSupport);
  const Error many =
      error_of([] { list(std::vector<std::string>(2000, "a*"), ModuleSyntax::kWildcards); });
  EXPECT_EQ(many.code(), Code::kSupport);
}

}  // namespace
}  // namespace flare::prepare
