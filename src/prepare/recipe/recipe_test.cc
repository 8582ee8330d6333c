// Rules: what patterns select, what rules decide, and what is refused by file and line.
#include "prepare/recipe/recipe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>

#include "artifact/reader.h"
#include "artifact/writer.h"
#include "base/file.h"
#include "base/float_types.h"
#include "base/hash/sha256.h"
#include "prepare/import/import.h"
#include "prepare/recipe/build.h"
#include "prepare/recipe/plan.h"
#include "prepare/recipe/verify_deep.h"
#include "prepare/test_support.h"

namespace flare::prepare {
namespace {

using test::fs::path;

const path kNano = path(FLARE_SOURCE_DIR) / "models/nano";

template <typename Work>
std::string error_of(Code code, Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(code_name(error.code()), code_name(code)) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "no error";
  return {};
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

TEST(NamePattern, SelectsByTheWholeName) {
  const auto matches = [](std::string_view pattern, std::string_view name) {
    return NamePattern(pattern).matches(name);
  };
  EXPECT_TRUE(matches("text/final_norm", "text/final_norm"));
  EXPECT_FALSE(matches("text/final", "text/final_norm"));
  EXPECT_FALSE(matches("final_norm", "text/final_norm"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*/down", "text/layers/3/mlp/down"));
  EXPECT_TRUE(matches("text/layers/?/mlp/*", "text/layers/3/mlp/down"));
  EXPECT_FALSE(matches("text/layers/?/mlp/*", "text/layers/30/mlp/down"));
  EXPECT_TRUE(matches("*/{gate,up}", "text/layers/3/mlp/up"));
  EXPECT_FALSE(matches("*/{gate,up}", "text/layers/3/mlp/down"));
  EXPECT_TRUE(matches("*/mlp/{g,gate}", "text/layers/3/mlp/gate"));
  EXPECT_TRUE(matches("a{,b}c", "abc"));
  for (int layer = 0; layer < 70; ++layer)
    EXPECT_EQ(matches("text/layers/{7-56,60}/mlp/up", fmt::format("text/layers/{}/mlp/up", layer)),
              (layer >= 7 && layer <= 56) || layer == 60)
        << layer;
  EXPECT_FALSE(matches("l/{0-9}", "l/07"));
  EXPECT_TRUE(matches("{q-k,v}_proj", "q-k_proj"));
  EXPECT_FALSE(matches("l/{0-18446744073709551615}", "l/99999999999999999999"));
}

TEST(NamePattern, RefusesBracesThatMeanNothing) {
  for (const char* pattern : {"a{", "a{b", "{}", "{a,{b}}", "{9-3}"})
    EXPECT_TRUE(has(error_of(Code::kUsage, [&] { NamePattern made(pattern); }), pattern))
        << pattern;
}

// Quadratic at worst: patterns of stars are where backtracking never ends.
TEST(NamePattern, TakesBoundedTime) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(NamePattern(pattern + "b").matches(std::string(2000, 'a')));
}

// spec/artifact.md §18.2: the same layer with query and key q4, gate and value q5, by its digest.
TEST(Rules, GiveTheSpecifiedDirectoryOfTheMixedExample) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder.path(), test::one_layer_qwen3_5_config(),
                         test::one_layer_qwen3_5_tensors());
  const auto checkpoint = checkpoint::Checkpoint::open(folder.path());
  const ImportedModel model = import_checkpoint(checkpoint);
  Chooser chooser(find_recipe("direct"), parse_rules(R"(
["*/attention/*"]
kind = "projection"
format = "q5"
policy = "A16Only"
["*/attention/{query,key}"]
format = "q4_g64_fp16"
layout = "row_split_k128_v1"
policy = "A16Only"
["*/attention/output"]
format = "direct"
)",
                                                     "rules"));
  ArtifactPlan plan = plan_artifact(model, chooser, {"text"},
                                    {{"tokenizer.json", std::string(9000001, 'x')},
                                     {"tokenizer_config.json", std::string(12345, 'x')},
                                     {"chat_template.jinja", std::string(4096, 'x')},
                                     {"generation_config.json", std::string(181, 'x')}});
  plan.directory.metadata = Json::object({{"name", "example-one-layer"}});
  const artifact::FilePlan files =
      artifact::plan_files(plan.directory, 136426240, "example.ninfer",
                           {.max_file_bytes = 64000000, .min_json_bytes = 65504});
  EXPECT_EQ(files.text.size(), 5037u);
  EXPECT_EQ(sha256_hex(as_bytes(files.text)),
            "6da670943fa99478a94652f0c723f63a12584b2e7907184daef29ab7c158a7a4")
      << files.text;
}

// The decision about every parameter of nano by the recipe and these rules.
std::map<std::string, Decision> decide(const std::string& recipe, const std::string& rules,
                                       const path& source = kNano) {
  const auto checkpoint = checkpoint::Checkpoint::open(source);
  const ImportedModel model = import_checkpoint(checkpoint);
  Chooser chooser(find_recipe(recipe), parse_rules(rules, "rules.toml"));
  std::map<std::string, Decision> out;
  for (const ImportedParameter& parameter : model.components[0].parameters)
    out[parameter.name] = chooser.decide(model.components[0], parameter);
  chooser.finish();
  return out;
}

TEST(Rules, TheLastOneWinsMemberByMember) {
  const auto made = decide("q4", R"(
["*/mlp/*"]
kind = "projection"
format = "q6"
policy = "A16Only"
["text/layers/{1-2}/mlp/down"]
policy = "AllowA8"
["text/layers/2/mlp/down"]
format = "q5"
)");
  EXPECT_EQ(made.at("text/layers/0/mlp/down").choice.format, codec::FormatId::kQ6G64);
  EXPECT_EQ(made.at("text/layers/0/mlp/down").choice.policy, graph::Policy::kA16Only);
  EXPECT_EQ(made.at("text/layers/1/mlp/down").choice.format, codec::FormatId::kQ6G64);
  EXPECT_EQ(made.at("text/layers/1/mlp/down").choice.policy, graph::Policy::kAllowA8);
  // A format makes the policy of earlier rules void.
  EXPECT_EQ(made.at("text/layers/2/mlp/down").choice.format, codec::FormatId::kQ5G64);
  EXPECT_EQ(made.at("text/layers/2/mlp/down").choice.policy, graph::Policy::kAllowA8);
  EXPECT_EQ(made.at("text/layers/0/mlp/down").choice.encoder, Encoder::kAbsmax);
  EXPECT_EQ(made.at("text/final_norm").choice.format, codec::FormatId::kBf16);
}

TEST(Rules, AreRefusedByFileAndLine) {
  const auto refused = [](const std::string& rules) {
    return error_of(Code::kUsage, [&] { decide("q4", rules); });
  };
  EXPECT_TRUE(has(refused("\n[\"*/mlp/side\"]\nformat = \"q6\"\n"), "rules.toml:3"));
  EXPECT_TRUE(has(refused("[\"*/mlp/side\"]\nformat = \"q6\"\n"), "*/mlp/side"));
  EXPECT_TRUE(has(refused("[\"*\"]\nformat = \"q6\"\nformt = \"q6\"\n"), "rules.toml:3"));
  EXPECT_TRUE(has(refused("[\"*\"]\nformt = \"q6\"\n"), "formt"));
  EXPECT_TRUE(has(refused("[\"*\"]\nformat = \"q7\"\n"), "q7"));
  EXPECT_TRUE(has(refused("[\"*\"]\nformat = 6\n"), "rules.toml:2"));
  EXPECT_TRUE(has(refused("[\"*\"]\nformat = [\"q6\", \"q8\"]\n"), "rules.toml:2"));
  EXPECT_TRUE(has(refused("[\"*\"]\npolicy = \"AllowA2\"\n"), "A16Only, AllowA8, AllowA4"));
  EXPECT_TRUE(has(refused("[\"*\"]\nencoder = \"best\"\n"), "grouped_absmax"));
  EXPECT_TRUE(has(refused("[\"*\"]\nencoder = \"fp8_row_maxabs\"\n"), "does not make"));
  EXPECT_TRUE(
      has(refused("[\"*\"]\nformat = \"q6\"\nlayout = \"row_scale_v1\"\n"), "rules.toml:3"));
  EXPECT_TRUE(has(refused("[\"*\"]\nseparate = \"perhaps\"\n"), "perhaps"));
  EXPECT_TRUE(has(refused("[\"*\"]\ngroup = [\"gate\"]\n"), "at least two"));
  EXPECT_TRUE(has(refused("format = \"q6\"\n"), "rules.toml:1"));
  EXPECT_TRUE(has(refused("[\"{a\"]\nformat = \"q6\"\n"), "rules.toml:2"));
  EXPECT_TRUE(has(refused("[\"*\"]\n[\"*\"]\nformat = \"q6\"\n"), "rules.toml:2"));
  EXPECT_TRUE(has(refused("\n[\"*/down\"]\n[\"*\"]\nformat = \"q6\"\n"),
                  "rules.toml:2: rule '*/down' has no keys"));
  EXPECT_TRUE(has(refused("[\"*\"]\nkind = \"head\"\n"), "rules.toml:2: rule '*' has only kind"));
}

// What is printed can be given back as a file of rules.
TEST(Recipes, ReadBackAsTheyArePrinted) {
  for (const Recipe& recipe : all_recipes()) {
    const std::string text = rules_text(recipe.rules);
    const std::vector<Rule> again = parse_rules(text, recipe.name);
    ASSERT_EQ(again.size(), recipe.rules.size()) << recipe.name;
    for (size_t i = 0; i < again.size(); ++i) {
      EXPECT_EQ(again[i].pattern.text(), recipe.rules[i].pattern.text());
      EXPECT_EQ(rule_members(again[i]), rule_members(recipe.rules[i])) << recipe.name;
    }
  }
}

// spec/artifact.md §16 for the parameters of one full-attention layer.
TEST(Recipes, GiveTheFormatsOfTheTable) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder.path(), test::one_layer_qwen3_5_config(),
                         test::one_layer_qwen3_5_tensors());
  struct Row {
    const char *recipe, *query, *gate, *output, *up, *down, *embedding, *head;
    graph::Policy policy;
  };
  constexpr const char *q4 = "q4_g64_fp16", *q5 = "q5_g64_fp16", *q6 = "q6_g64_fp16",
                       *q8 = "q8_g32_fp16", *bf16 = "bf16", *fp8 = "fp8_e4m3fn_row_bf16";
  using enum graph::Policy;
  for (const Row& row : std::initializer_list<Row>{
           {"direct", bf16, bf16, bf16, bf16, bf16, bf16, bf16, kA16Only},
           {"q8", q8, q8, q8, q8, q8, q8, q8, kAllowA8},
           {"q4", q4, q4, q4, q4, q4, q6, q6, kAllowA8},
           {"q5", q5, q5, q5, q5, q5, q6, q6, kAllowA8},
           {"q6", q6, q6, q6, q6, q6, q6, q6, kAllowA8},
           {"fp8", fp8, fp8, fp8, fp8, fp8, fp8, fp8, kAllowA8},
           {"nvfp4", "nvfp4", "nvfp4", "nvfp4", "nvfp4", "nvfp4", q8, q8, kAllowA8},
           {"qwen3_6_27b", q4, q5, q5, q4, q5, q6, q6, kA16Only},
           {"qwen3_8_27b", q4, q5, q5, q4, q5, q8, q8, kA16Only},
           {"qwen3_8_27b_q6", q4, q5, q5, q6, q5, q8, q8, kA16Only},
       }) {
    const auto made = decide(row.recipe, "", folder.path());
    const auto format = [&](const char* name) {
      return codec::format(made.at(name).choice.format).name;
    };
    const std::string l = "text/layers/0/";
    EXPECT_EQ(format("text/layers/0/attention/query"), row.query) << row.recipe;
    EXPECT_EQ(format("text/layers/0/attention/key"), row.query) << row.recipe;
    EXPECT_EQ(format("text/layers/0/attention/gate"), row.gate) << row.recipe;
    EXPECT_EQ(format("text/layers/0/attention/value"), row.gate) << row.recipe;
    EXPECT_EQ(format("text/layers/0/attention/output"), row.output) << row.recipe;
    EXPECT_EQ(format("text/layers/0/mlp/up"), row.up) << row.recipe;
    EXPECT_EQ(format("text/layers/0/mlp/down"), row.down) << row.recipe;
    EXPECT_EQ(format("text/token_embedding"), row.embedding) << row.recipe;
    EXPECT_EQ(format("text/output_head"), row.head) << row.recipe;
    EXPECT_EQ(format("text/layers/0/input_norm"), bf16) << row.recipe;
    EXPECT_EQ(made.at("text/layers/0/mlp/down").choice.policy, row.policy) << row.recipe;
  }
}

struct Built {
  Built(const std::string& recipe, const std::string& rules,
        std::vector<std::pair<std::string, path>> sources = {}, const path& source = kNano) {
    test::write_file(folder.path() / "rules.toml", rules);
    report = build_artifact(source, folder.path() / "made.ninfer",
                            {.recipe = recipe,
                             .overrides = folder.path() / "rules.toml",
                             .sources = std::move(sources),
                             .threads = 2});
    reader.emplace(artifact::Reader::open(folder.path() / "made.ninfer"));
    artifact::verify(folder.path() / "made.ninfer", 1, false, {});
  }
  // The object of a parameter.
  std::string object(std::string_view name) const {
    const artifact::Binding& binding = *reader->directory().find_binding(name);
    return binding.parts.empty() ? binding.object : binding.parts.at(0).object;
  }
  test::TemporaryFolder folder;
  BuildReport report;
  std::optional<artifact::Reader> reader;
};

TEST(Rules, SeparateGroupAndSharePlaceParameters) {
  const Built plain("q4", "");
  EXPECT_EQ(plain.object("text/layers/0/mlp/gate"), plain.object("text/layers/0/mlp/up"));
  const Built separate("q4", "[\"*/0/mlp/up\"]\nseparate = true\n");
  EXPECT_NE(separate.object("text/layers/0/mlp/gate"), separate.object("text/layers/0/mlp/up"));
  EXPECT_EQ(separate.object("text/layers/1/mlp/gate"), separate.object("text/layers/1/mlp/up"));
  const Built grouped("q4", "[\"*/{0-1}/mlp/{gate,up}\"]\ngroup = [\"up\", \"gate\"]\n");
  EXPECT_EQ(grouped.object("text/layers/0/mlp/gate"), "weight/000000");
  EXPECT_EQ(grouped.object("text/layers/1/mlp/up"), "weight/000001");
  EXPECT_EQ(grouped.reader->directory().find_binding("text/layers/0/mlp/up")->parts.at(0).begin,
            0u);
  const Built untied("q4", "[\"text/output_head\"]\nseparate = true\nformat = \"q8\"\n");
  EXPECT_NE(untied.object("text/output_head"), untied.object("text/token_embedding"));
}

TEST(Rules, RefuseGroupsAndSharesThatCannotBe) {
  const auto refused = [](const std::string& rules) {
    return error_of(Code::kUsage, [&] { Built made("q4", rules); });
  };
  EXPECT_TRUE(has(refused("[\"*/0/mlp/{gate,down}\"]\ngroup = [\"gate\", \"down\"]\n"), "width"));
  EXPECT_TRUE(has(refused("[\"*/0/mlp/gate\"]\ngroup = [\"gate\", \"up\"]\n"), "not selected"));
  EXPECT_TRUE(has(refused("[\"*/0/mlp/*\"]\ngroup = [\"gate\", \"side\"]\n"), "does not exist"));
  EXPECT_TRUE(has(refused("[\"*/0/mlp/gate\"]\nshare = \"up\"\n"), "other data"));
  EXPECT_TRUE(has(refused("[\"*/0/mlp/gate\"]\nshare = \"side\"\n"), "no other parameter"));
  EXPECT_TRUE(has(refused("[\"*/0/mlp/gate\"]\nencoder = \"import_encoded\"\n"), "in the source"));
}

TEST(Rules, EncodeMxFormatsAndRefuseThoseThatOnlyFilesHave) {
  for (const char* name : {"mxfp4", "mxfp8_e4m3fn"}) {
    Built made("q8", fmt::format("[\"*/mlp/up\"]\nformat = \"{}\"\n", name));
    EXPECT_TRUE(std::ranges::any_of(made.report.groups, [&](const GroupTotal& total) {
      return total.format == name && total.encoder == "mx_maxabs";
    })) << name;
    const auto report = verify_deep(made.folder.path() / "made.ninfer", kNano, 2, {});
    const auto total = std::ranges::find(report.totals, name, &DeepTotal::format);
    ASSERT_NE(total, report.totals.end()) << name;
    EXPECT_GT(total->worst, 0.5) << name;
  }
  for (const char* name : {"q2_g64_fp16", "t2_g128_fp16", "u4z4_g32_fp16", "i8_row_fp32",
                           "fp8_e4m3fn_g128_fp32", "gguf_iq1_s"}) {
    const std::string text = error_of(Code::kUsage, [&] {
      Built made("q8", fmt::format("[\"*/mlp/up\"]\nformat = \"{}\"\n", name));
    });
    EXPECT_TRUE(has(text, "text/layers/0/mlp/up") && has(text, name) && has(text, "never encoded"))
        << text;
  }
}

TEST(Rules, TakeParametersFromAnotherSource) {
  // The other checkpoint is the same model with another last layer's way out.
  const test::TemporaryFolder other;
  for (const char* name : {"config.json", "model.safetensors"})
    test::fs::copy_file(kNano / name, other.path() / name);
  const auto original = checkpoint::Checkpoint::open(kNano);
  const checkpoint::Tensor* tensor = original.find("model.layers.1.mlp.down_proj.weight");
  ASSERT_NE(tensor, nullptr);
  const auto at = tensor->bytes.data() - original.mapping(*tensor).bytes().data();
  {
    std::fstream file(other.path() / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.write("\x80\x3f", 2);  // 1.0
  }
  const std::string rule = "[\"*/{0-1}/mlp/down\"]\nsource = \"other\"\n";
  EXPECT_TRUE(has(error_of(Code::kUsage, [&] { Built made("bf16", rule); }), "other"));
  Built made("bf16", rule, {{"other", other.path()}});
  const auto first = [&](const std::string& name) {
    return load_le<uint16_t>(made.reader->mapped(made.object(name)).data());
  };
  EXPECT_EQ(first("text/layers/1/mlp/down"), 0x3F80u);
  EXPECT_EQ(made.report.groups.empty(), false);
}

// The numbers of every recipe's artifact lie as near to the source's as the format allows.
TEST(Recipes, EncodeWithinTheStepOfTheirFormat) {
  const auto checkpoint = checkpoint::Checkpoint::open(kNano);
  const ImportedModel model = import_checkpoint(checkpoint);
  for (const auto& [recipe, relative] : {std::pair{"q5", 1 / 24.0},
                                         {"q6", 1 / 48.0},
                                         {"fp8", 1 / 15.0},
                                         {"nvfp4", 1 / 5.0},
                                         {"default", 1 / 11.0}}) {
    Built made(recipe, "");
    for (const ImportedParameter& parameter : model.components[0].parameters) {
      const codec::Geometry g = codec::geometry_of(parameter.shape);
      if (parameter.shape.size() != 2 || parameter.kind != ParameterKind::kProjection) continue;
      const codec::Matrix stored = made.reader->matrix(parameter.name, g);
      std::vector<float> row(g.cols);
      // Oracle: the words of the checkpoint itself, one piece per row range.
      uint64_t r = 0;
      for (const Piece& piece : parameter.pieces)
        for (uint64_t s = piece.row_begin; s < piece.row_end; ++s, ++r) {
          codec::decode_row(stored, r, row.data());
          float largest = 0;
          std::vector<float> source(g.cols);
          for (uint64_t c = 0; c < g.cols; ++c) {
            source[c] =
                bf16_to_f32(load_le<uint16_t>(piece.tensor->bytes.data() + 2 * (s * g.cols + c)));
            largest = std::max(largest, std::fabs(source[c]));
          }
          for (uint64_t c = 0; c < g.cols; ++c)
            ASSERT_NEAR(row[c], source[c], relative * largest)
                << recipe << " " << parameter.name << " " << r << "," << c;
        }
    }
  }
}

}  // namespace
}  // namespace flare::prepare
