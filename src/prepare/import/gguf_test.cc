// GGUF files imported: the order and numbers of every tensor that the converter changed, refusals
// by name, and hostile metadata.
#include "prepare/import/gguf.h"

#include <gtest/gtest.h>

#include <cmath>

#include "artifact/reader.h"
#include "base/test_support.h"
#include "prepare/checkpoint_source.h"
#include "prepare/import/gguf_model_fixture.h"
#include "prepare/import/import.h"
#include "prepare/prepare.h"
#include "prepare/recipe/build.h"
#include "prepare/recipe/encode.h"
#include "prepare/recipe/verify_deep.h"

namespace flare::prepare {
namespace {

using namespace test;

class Opened {
 public:
  explicit Opened(const GgufBuilder& file)
      : source_(folder_.write("model.gguf", file.bytes()), "", 1) {}
  std::vector<float> values(const std::string& name, uint64_t n) { return source_.values(name, n); }
  CheckpointSource& source() { return source_; }

 private:
  TemporaryFolder folder_;
  CheckpointSource source_;
};

TEST(GgufLlama, HalvesOfRotatedHeadsLieOneAfterTheOther) {
  Opened model(tiny_llama());
  const auto query = model.values("text/layers/0/attention/query", 64);
  // Row p·2 + j of a head of 4 is stored at 2j + p.
  const int stored[] = {0, 2, 1, 3, 4, 6, 5, 7};
  for (int row = 0; row < 8; ++row)
    for (int c = 0; c < 8; ++c)
      EXPECT_EQ(query[static_cast<size_t>(row * 8 + c)], static_cast<float>(stored[row] * 8 + c));
  const auto key = model.values("text/layers/0/attention/key", 32);
  EXPECT_EQ(key[8], 100 + 2 * 8);
  const auto value = model.values("text/layers/0/attention/value", 32);
  EXPECT_EQ(value[8], 200 + 8);
  EXPECT_EQ(model.values("text/layers/0/input_norm", 8)[0], 1);
  EXPECT_EQ(model.source().config("text").at("tie_word_embeddings"), Json(true));
}

TEST(GgufQwen35, ValueHeadsAreGroupedByKeyHead) {
  Opened model(tiny_qwen35());
  const std::string l = "text/layers/0/gdn/";
  const auto value = model.values(l + "value", kValues * 8);
  const auto z = model.values(l + "z", kValues * 8);
  const auto a = model.values(l + "a_projection", kNv * 8);
  const auto b = model.values(l + "b_projection", kNv * 8);
  const auto a_log = model.values(l + "a_log", kNv);
  const auto dt = model.values(l + "dt_bias", kNv);
  for (uint64_t head = 0; head < kNv; ++head) {
    const uint64_t from = tiled(head);
    EXPECT_NEAR(a_log[head], static_cast<float>(from), 1e-6);
    EXPECT_EQ(dt[head], static_cast<float>(30 + from));
    EXPECT_EQ(a[head * 8], static_cast<float>(from * 8));
    EXPECT_EQ(b[head * 8 + 3], static_cast<float>(500 + from * 8 + 3));
    for (uint64_t i = 0; i < kDv; ++i) {
      const uint64_t row = head * kDv + i, stored = from * kDv + i;
      EXPECT_EQ(value[row * 8], static_cast<float>((2 * kKeys + stored) * 8));
      EXPECT_EQ(z[row * 8 + 7], static_cast<float>(stored * 8 + 7));
    }
  }
  EXPECT_EQ(model.values(l + "query", kKeys * 8)[8], 8);
  EXPECT_EQ(model.values(l + "key", kKeys * 8)[0], static_cast<float>(kKeys * 8));
}

TEST(GgufQwen35, ConvolutionChannelsFollowTheirHeads) {
  Opened model(tiny_qwen35());
  const auto taps = model.values("text/layers/0/gdn/convolution", 4 * kChannels);
  for (uint64_t t = 0; t < 4; ++t)
    for (uint64_t c = 0; c < kChannels; ++c) {
      uint64_t from = c;
      if (c >= 2 * kKeys) {
        const uint64_t v = c - 2 * kKeys;
        from = 2 * kKeys + tiled(v / kDv) * kDv + v % kDv;
      }
      ASSERT_EQ(taps[t * kChannels + c], static_cast<float>(from * 4 + t)) << t << " " << c;
    }
}

TEST(GgufQwen35, BlocksOfTheOutputMoveWholeAndKeepTheirBits) {
  Opened model(tiny_qwen35());
  const auto matrix = model.source().matrix("text/layers/0/gdn/output", {8, kValues});
  ASSERT_EQ(matrix.segments.size(), 1u);
  EXPECT_EQ(matrix.segments[0].format, codec::FormatId::kGgufQ8_0);
  const auto out = model.values("text/layers/0/gdn/output", 8 * kValues);
  for (uint64_t row = 0; row < 8; ++row)
    for (uint64_t c = 0; c < kValues; ++c)
      ASSERT_EQ(out[row * kValues + c],
                static_cast<float>((row * 40 + tiled(c / kDv) * 32 + c % kDv) % 120));
}

TEST(GgufQwen35, NormsLoseTheOneThatWasAddedButNotThatOfTheGates) {
  Opened model(tiny_qwen35());
  for (const char* name :
       {"text/final_norm", "text/layers/0/input_norm", "text/layers/0/post_attention_norm"})
    EXPECT_EQ(model.values(name, 8)[3], 3) << name;
  EXPECT_EQ(model.values("text/layers/0/gdn/norm", kDv)[0], 7);
}

// Row `row` of a parameter of `cols` columns counts up from `first`.
void expect_row(Opened& model, const std::string& name, uint64_t rows, uint64_t cols, uint64_t row,
                float first) {
  const auto values = model.values(name, rows * cols);
  for (uint64_t c = 0; c < cols; ++c)
    EXPECT_EQ(values[row * cols + c], first + static_cast<float>(c)) << name << " " << row;
}

// Row `row` of a parameter of component mtp.
std::vector<float> draft_row(const ImportedModel& model, const std::string& name, uint64_t row) {
  const ImportedParameter* parameter = model.find("mtp")->find(name);
  if (parameter == nullptr) throw Error(Code::kBinding, "no {}", name);
  std::vector<float> out(geometry_of(*parameter).cols);
  read_rows(*parameter, row, 1, out.data());
  return out;
}

// Exporters differ in whether they add 1 to the norms of the draft layer (artifact.md §15.3).
TEST(GgufQwen35Draft, IsTheLayerBehindTheOthersWhateverItsNormsAre) {
  for (const float stored : {1.25f, 0.25f}) {
    const TemporaryFolder folder;
    const auto checkpoint = checkpoint::Checkpoint::open(
        folder.write("model.gguf", tiny_qwen35_with_draft(stored).bytes()));
    const ImportedModel model = import_checkpoint(checkpoint, {"text", "mtp"});
    ASSERT_EQ(model.components.size(), 2u);
    EXPECT_TRUE(model.skipped.empty());
    EXPECT_EQ(model.find("mtp")->config.to_text(), R"({"architectures":["Qwen3_5MTP"]})");
    EXPECT_EQ(model.notes.size(), stored < 1 ? 1u : 0u);
    for (const char* norm : {"embedding_norm", "hidden_norm", "final_norm", "layers/0/input_norm",
                             "layers/0/post_attention_norm", "layers/0/attention/query_norm"})
      EXPECT_EQ(draft_row(model, std::string("mtp/") + norm, 0)[0], 0.25f) << norm << " " << stored;
    EXPECT_EQ(draft_row(model, "mtp/input_projection", 1)[0], 716);
    // Query and gate rows of a head lie one after the other, as in checkpoints.
    EXPECT_EQ(draft_row(model, "mtp/layers/0/attention/query", 4)[0], 800 + 8 * 8);
    EXPECT_EQ(draft_row(model, "mtp/layers/0/attention/gate", 0)[0], 800 + 4 * 8);
    EXPECT_EQ(draft_row(model, "mtp/layers/0/attention/key", 1)[0], 908);
    // The text model's own norms stay what they are.
    EXPECT_EQ(model.find("text")->find("text/layers/0/input_norm")->transform,
              Transform::kMinusOne);
  }
}

TEST(GgufQwen35Draft, IsLeftOutWhenNobodyAsksAndOnlyOneIsKnown) {
  const auto imported = [](const GgufBuilder& file, const std::vector<std::string>& components) {
    const TemporaryFolder folder;
    const auto checkpoint = checkpoint::Checkpoint::open(folder.write("model.gguf", file.bytes()));
    return import_checkpoint(checkpoint, components).skipped;
  };
  const auto skipped = imported(tiny_qwen35_with_draft(1), {"text"});
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_EQ(skipped[0].id, "mtp");
  EXPECT_EQ(skipped[0].tensors, 15u);
  GgufBuilder two = tiny_qwen35_with_draft(1);
  two.u32("qwen35.block_count", 3).u32("qwen35.nextn_predict_layers", 2);
  f32_tensor(two, "blk.2.attn_norm.weight", {8}, 1);
  EXPECT_EQ(imported(two, {"text", "mtp"}).size(), 2u);
  GgufBuilder more = tiny_qwen35_with_draft(1);
  f32_tensor(more, "blk.1.nextn.embed_tokens.weight", {4, 8});
  EXPECT_EQ(imported(more, {"text"}).size(), 1u);
  const Error error = error_of([&] { imported(more, {"text", "mtp"}); });
  EXPECT_EQ(error.code(), Code::kBinding);
  EXPECT_NE(error.message().find("blk.1.nextn.embed_tokens.weight' is left over"),
            std::string::npos)
      << error.message();
}

TEST(GgufQwen35Moe, ExpertsComeOutOfTheirStacks) {
  const std::string l = "text/layers/0/moe/";
  for (const bool fused : {false, true}) {
    Opened model(tiny_qwen35moe(fused));
    for (uint64_t e = 0; e < kExperts; ++e) {
      const std::string expert = l + "experts/" + std::to_string(e) + "/";
      const auto element = [&](float base, uint64_t row) {
        return base + static_cast<float>(row * 8);
      };
      const uint64_t apart = e * kExpertWidth + 2, pair = 2 * e * kExpertWidth + 2;
      expect_row(model, expert + "gate", kExpertWidth, 8, 2, element(1000, fused ? pair : apart));
      expect_row(model, expert + "up", kExpertWidth, 8, 2,
                 fused ? element(1000, pair + kExpertWidth) : element(2000, apart));
      expect_row(model, expert + "down", 8, kExpertWidth, 3,
                 3000 + static_cast<float>((e * 8 + 3) * kExpertWidth));
    }
    expect_row(model, l + "router", kExperts, 8, 1, 78);
    expect_row(model, l + "shared_score", 1, 8, 0, 90);
    expect_row(model, l + "shared/gate", 5, 8, 4, 4032);
    expect_row(model, l + "shared/up", 5, 8, 4, 5032);
    expect_row(model, l + "shared/down", 8, 5, 7, 6035);
    // As in a dense file: heads of values regrouped, norms without their one.
    const auto a = model.values("text/layers/0/gdn/a_projection", kNv * 8);
    for (uint64_t head = 0; head < kNv; ++head)
      EXPECT_EQ(a[head * 8], static_cast<float>(tiled(head) * 8));
    EXPECT_EQ(model.values("text/layers/0/post_attention_norm", 8)[3], 3);
    const Json config = model.source().config("text");
    EXPECT_EQ(config.at("architectures").to_text(), R"(["Qwen3_5MoeForCausalLM"])");
    EXPECT_EQ(config.at("num_experts_per_tok"), Json(2));
    EXPECT_EQ(config.at("shared_expert_intermediate_size"), Json(5));
    EXPECT_EQ(config.find("intermediate_size"), nullptr);
  }
}

// Blocks of a stack go into an artifact as they are.
TEST(GgufQwen35Moe, QuantisedStacksKeepTheirBlocks) {
  GgufBuilder file = tiny_qwen35moe();
  file.u32("qwen35moe.expert_feed_forward_length", 32);
  for (const char* role : {"gate", "up"})
    f32_tensor(file, std::string("blk.0.ffn_") + role + "_exps.weight", {kExperts, 32, 8});
  GgufBytes blocks;
  for (uint64_t row = 0; row < kExperts * 8; ++row) {
    blocks.number<uint16_t>(0x3C00);  // 1
    for (uint64_t i = 0; i < 32; ++i) blocks.number(static_cast<int8_t>(row + i));
  }
  file.tensor("blk.0.ffn_down_exps.weight", {kExperts, 8, 32}, kQ8_0, blocks.all());
  Opened model(file);
  const std::string down = "text/layers/0/moe/experts/2/down";
  const auto matrix = model.source().matrix(down, {8, 32});
  ASSERT_EQ(matrix.segments.size(), 1u);
  EXPECT_EQ(matrix.segments[0].format, codec::FormatId::kGgufQ8_0);
  expect_row(model, down, 8, 32, 5, 2 * 8 + 5);
}

TEST(GgufQwen3Moe, ExpertsComeOutOfTheirStacks) {
  Opened model(tiny_qwen3moe());
  const std::string expert = "text/layers/0/moe/experts/3/";
  expect_row(model, expert + "gate", kExpertWidth, 8, 0, 1000 + 3 * 6 * 8);
  expect_row(model, expert + "up", kExpertWidth, 8, 5, 2000 + (3 * 6 + 5) * 8);
  expect_row(model, expert + "down", 8, kExpertWidth, 1, 3000 + (3 * 8 + 1) * 6);
  // No row moved, and norms are as stored.
  expect_row(model, "text/layers/0/attention/query", 8, 8, 1, 8);
  EXPECT_EQ(model.values("text/layers/0/attention/query_norm", 4)[1], 22);
  const Json config = model.source().config("text");
  EXPECT_EQ(config.at("norm_topk_prob"), Json(true));
  EXPECT_EQ(config.at("mlp_layer_types").to_text(), R"(["sparse"])");
}

TEST(GgufGptOss, ExpertsAndBiasesComeOutOfTheirStacks) {
  Opened model(tiny_gpt_oss());
  const std::string l = "text/layers/1/", e = l + "moe/experts/2/";
  expect_row(model, e + "gate", kExpertWidth, 8, 4, 1000 + (2 * 6 + 4) * 8);
  expect_row(model, e + "up", kExpertWidth, 8, 0, 2000 + 2 * 6 * 8);
  expect_row(model, e + "down", 8, kExpertWidth, 7, 3000 + (2 * 8 + 7) * 6);
  expect_row(model, e + "gate_bias", 1, kExpertWidth, 0, 4000 + 2 * 6);
  expect_row(model, e + "up_bias", 1, kExpertWidth, 0, 5000 + 2 * 6);
  expect_row(model, e + "down_bias", 1, 8, 0, 6000 + 2 * 8);
  expect_row(model, l + "moe/router", kExperts, 8, 3, 70 + 3 * 8);
  expect_row(model, l + "moe/router_bias", 1, kExperts, 0, 80);
  // No row moved, and norms are as stored.
  expect_row(model, l + "attention/query", 8, 8, 1, 8);
  for (const auto& [name, first] : {std::pair("query_bias", 11.0f),
                                    {"key_bias", 12.0f},
                                    {"value_bias", 13.0f},
                                    {"output_bias", 14.0f},
                                    {"sinks", 15.0f}})
    EXPECT_EQ(model.values(l + "attention/" + name, std::string(name) == "sinks"       ? 2
                                                    : name[0] == 'q' || name[0] == 'o' ? 8
                                                                                       : 4)[1],
              first + 1)
        << name;
  EXPECT_EQ(model.values(l + "input_norm", 8)[2], 23);
  EXPECT_EQ(model.values(l + "post_attention_norm", 8)[2], 33);
}

TEST(GgufGptOss, ConfigIsThatOfTheFamily) {
  const auto config = [](const GgufBuilder& file) { return Opened(file).source().config("text"); };
  const Json c = config(tiny_gpt_oss());
  EXPECT_EQ(c.at("architectures").to_text(), R"(["GptOssForCausalLM"])");
  EXPECT_EQ(c.at("layer_types").to_text(), R"(["sliding_attention","full_attention"])");
  EXPECT_EQ(c.at("sliding_window"), Json(16));
  EXPECT_EQ(c.at("num_experts"), Json(kExperts));
  EXPECT_EQ(c.at("num_experts_per_tok"), Json(2));
  EXPECT_EQ(c.at("moe_intermediate_size"), Json(kExpertWidth));
  EXPECT_EQ(c.at("tie_word_embeddings"), Json(false));
  EXPECT_EQ(c.at("rope_parameters").to_text(),
            R"({"rope_type":"yarn","rope_theta":150000.0,"factor":32.0,)"
            R"("original_max_position_embeddings":4096,"beta_fast":32.0,"beta_slow":1.0,)"
            R"("truncate":false})");
  // The pattern may be spelled out; another rotation in windows is no model of this family.
  GgufBuilder flags = tiny_gpt_oss();
  flags.flags("gpt-oss.attention.sliding_window_pattern", {false, true});
  EXPECT_EQ(config(flags).at("layer_types").to_text(), R"(["full_attention","sliding_attention"])");
  GgufBuilder local = tiny_gpt_oss();
  local.f32("gpt-oss.rope.freq_base_swa", 150000);
  EXPECT_EQ(config(local), c);
}

TEST(GgufGemma3, EveryNormLosesTheOneThatWasAdded) {
  Opened model(tiny_gemma3());
  const std::string l = "text/layers/1/";
  const std::pair<std::string, float> stored[] = {{"text/final_norm", 1},
                                                  {l + "input_norm", 11},
                                                  {l + "attention_output_norm", 41},
                                                  {l + "post_attention_norm", 51},
                                                  {l + "ffn_output_norm", 61}};
  for (const auto& [name, first] : stored) EXPECT_EQ(model.values(name, 8)[2], first + 1) << name;
  EXPECT_EQ(model.values(l + "attention/query_norm", 4)[1], 21);
  EXPECT_EQ(model.values(l + "attention/key_norm", 4)[1], 31);
  // No row moved: these heads turn by halves.
  EXPECT_EQ(model.values(l + "attention/query", 64)[8], 8);
}

TEST(GgufGemma3, WindowsAndRotationsGoByLayer) {
  const auto config = [](const GgufBuilder& file) { return Opened(file).source().config("text"); };
  const Json c = config(tiny_gemma3());
  EXPECT_EQ(c.at("layer_types").to_text(), R"(["sliding_attention","full_attention"])");
  EXPECT_EQ(c.at("sliding_window"), Json(16));
  EXPECT_EQ(c.at("query_pre_attn_scalar"), Json(4.0));
  EXPECT_EQ(c.at("rope_parameters").to_text(),
            R"({"full_attention":{"rope_type":"default","rope_theta":1000000.0},)"
            R"("sliding_attention":{"rope_type":"default","rope_theta":10000.0}})");
  GgufBuilder scaled = tiny_gemma3();
  scaled.text("gemma3.rope.scaling.type", "linear").f32("gemma3.rope.scaling.factor", 8);
  scaled.flags("gemma3.attention.sliding_window_pattern", {false, true});
  EXPECT_EQ(config(scaled).at("layer_types").to_text(),
            R"(["full_attention","sliding_attention"])");
  EXPECT_EQ(config(scaled).at("rope_parameters").at("full_attention").to_text(),
            R"({"rope_type":"linear","rope_theta":1000000.0,"factor":8.0})");
  // Every sixth, where the file does not say it; none has a window where there is none.
  EXPECT_EQ(config(tiny_gemma3().remove("gemma3.attention.sliding_window_pattern"))
                .at("layer_types")
                .to_text(),
            R"(["sliding_attention","sliding_attention"])");
  GgufBuilder open = tiny_gemma3();
  open.remove("gemma3.attention.sliding_window_pattern").remove("gemma3.attention.sliding_window");
  EXPECT_EQ(config(open).at("layer_types").to_text(), R"(["full_attention","full_attention"])");
  EXPECT_EQ(config(open).find("sliding_window"), nullptr);
}

void expect_refused(const GgufBuilder& file, Code code, const std::vector<std::string>& parts) {
  const TemporaryFolder folder;
  const auto path = folder.write("model.gguf", file.bytes());
  const Error error = error_of([&] { open_source(path, "", 1); });
  EXPECT_EQ(code_name(error.code()), code_name(code)) << error.message();
  EXPECT_NE(error.message().find("model.gguf"), std::string::npos) << error.message();
  for (const std::string& part : parts)
    EXPECT_NE(error.message().find(part), std::string::npos) << part << " in " << error.message();
}

TEST(GgufRefused, WhatIsUnknownMissingOrLeftOverIsNamed) {
  expect_refused(tiny_llama().text("general.architecture", "mamba"), Code::kSupport,
                 {"'mamba'", "llama, qwen2, qwen3, qwen3moe, qwen35, qwen35moe, gemma3, gpt-oss"});
  expect_refused(tiny_llama().u32("llama.expert_count", 8), Code::kBinding,
                 {"unknown key 'llama.expert_count'"});
  expect_refused(tiny_llama().remove("llama.block_count"), Code::kDirectory,
                 {"'llama.block_count' is missing"});
  for (const GgufBuilder& file : {tiny_llama().u32("llama.block_count", 4000000000),
                                  tiny_gemma3().u32("gemma3.block_count", 4000000000),
                                  tiny_gpt_oss().u32("gpt-oss.block_count", 4000000000)})
    expect_refused(file, Code::kBinding, {"block_count", "4000000000", "tensors"});
  expect_refused(tiny_llama().text("llama.block_count", "x"), Code::kDirectory,
                 {"llama.block_count", "integer"});
  expect_refused(tiny_llama().u32("llama.attention.head_count", 0), Code::kBinding,
                 {"llama.attention.head_count", "0"});
  expect_refused(tiny_llama().u32("llama.rope.dimension_count", 2), Code::kSupport,
                 {"rope.dimension_count", "4"});
  expect_refused(tiny_llama().text("llama.rope.scaling.type", "longrope"), Code::kSupport,
                 {"longrope"});
  expect_refused(tiny_llama().u32("split.count", 3), Code::kFileset,
                 {"split.count", "NAME-00001-of-00003.gguf"});
  expect_refused(tiny_qwen35moe().u32("qwen35moe.expert_count", 3), Code::kBinding,
                 {"'blk.0.ffn_gate_inp.weight' has shape [4, 8]", "[3, 8]"});
  expect_refused(tiny_qwen35moe().u32("qwen35moe.expert_used_count", 5), Code::kBinding,
                 {"num_experts_per_tok is 5", "4 experts"});
  expect_refused(tiny_qwen35moe().remove("qwen35moe.expert_feed_forward_length"), Code::kDirectory,
                 {"'qwen35moe.expert_feed_forward_length' is missing"});
  expect_refused(tiny_qwen35moe().remove_tensor("blk.0.ffn_up_exps.weight"), Code::kBinding,
                 {"'blk.0.ffn_up_exps.weight' is missing", "[4, 6, 8]"});
  // Rotated weights beside activations that are not would give nonsense.
  expect_refused(tiny_qwen35().u32("prism.hadamard.block_size", 1024), Code::kSupport,
                 {"'prism.hadamard.block_size'", "rotated"});
  expect_refused(tiny_gpt_oss().f32("gpt-oss.rope.freq_base_swa", 10000), Code::kSupport,
                 {"rope.freq_base_swa' is 10000", "150000"});
  expect_refused(tiny_gpt_oss().remove("gpt-oss.attention.sliding_window"), Code::kDirectory,
                 {"'gpt-oss.attention.sliding_window' is missing"});
  expect_refused(tiny_gpt_oss().remove_tensor("blk.1.ffn_up_exps.bias"), Code::kBinding,
                 {"'blk.1.ffn_up_exps.bias' is missing", "[4, 6]"});
  expect_refused(tiny_gpt_oss().remove_tensor("blk.0.attn_sinks.weight"), Code::kBinding,
                 {"'blk.0.attn_sinks.weight' is missing", "[2]"});
  expect_refused(tiny_gemma3().f32("gemma3.final_logit_softcapping", 30), Code::kSupport,
                 {"final_logit_softcapping", "30"});
  expect_refused(tiny_gemma3().flags("gemma3.attention.sliding_window_pattern", {true}),
                 Code::kBinding, {"sliding_window_pattern", "1 items", "2 layers"});
  expect_refused(tiny_llama().remove_tensor("blk.0.ffn_up.weight"), Code::kBinding,
                 {"'blk.0.ffn_up.weight' is missing", "[12, 8]"});
  GgufBuilder file = tiny_llama();
  f32_tensor(file, "blk.0.ffn_up.weight", {8, 12});
  expect_refused(file, Code::kBinding, {"'blk.0.ffn_up.weight' has shape [8, 12]", "[12, 8]"});
  file = tiny_llama();
  f32_tensor(file, "blk.0.extra.weight", {8});
  expect_refused(file, Code::kBinding, {"'blk.0.extra.weight' is left over"});
  file = tiny_llama();
  file.tensor("blk.0.attn_norm.weight", {32}, 24, std::string(32, '\0'));
  expect_refused(file, Code::kBinding, {"'blk.0.attn_norm.weight' has shape [32]"});
  file = tiny_llama();
  file.tensor("blk.0.ffn_up.weight", {1, 256}, 19, std::string(50, '\0'));
  expect_refused(file, Code::kBinding, {"'blk.0.ffn_up.weight' has shape [1, 256]", "[12, 8]"});
}

// What llama.cpp makes of activations while it runs is in no file of weights.
TEST(GgufRefused, TypesOfActivationsAreNamed) {
  const struct {
    uint32_t id;
    const char* name;
    uint64_t values, bytes;
  } types[] = {{9, "Q8_1", 32, 36}, {15, "Q8_K", 256, 292}};
  for (const auto& type : types) {
    GgufBuilder file = tiny_llama();
    file.tensor("blk.0.ffn_up.weight", {1, type.values}, type.id, std::string(type.bytes, '\0'));
    expect_refused(file, Code::kSupport,
                   {fmt::format("'blk.0.ffn_up.weight' is {}", type.name), "activations", "TQ2_0"});
  }
}

// A model of one layer, 256 wide, whose matrices are of this type: row r consists of bytes r.
GgufBuilder stored_only(uint32_t id, uint64_t block_bytes) {
  constexpr uint64_t kWide = 256;
  GgufBuilder b = tiny_llama();
  b.u32("llama.embedding_length", kWide).u32("llama.feed_forward_length", kWide);
  b.u32("llama.attention.head_count", 4);
  for (const char* norm : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"})
    f32_tensor(b, norm, {kWide}, 1);
  f32_tensor(b, "token_embd.weight", {4, kWide});
  const auto matrix = [&](const char* name, uint64_t rows) {
    std::string bytes;
    for (uint64_t r = 0; r < rows; ++r)
      bytes += std::string(block_bytes, static_cast<char>(r % 64));
    b.tensor(std::string("blk.0.") + name + ".weight", {rows, kWide}, id, bytes);
  };
  for (const char* name : {"attn_k", "attn_v"}) matrix(name, 64);
  for (const char* name : {"attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
    matrix(name, kWide);
  return b;
}

// Types of which the bytes are known and the numbers are not (artifact.md §6.4, marked *).
TEST(GgufStoredOnly, TypesThatNothingDecodesAreKeptAndNotRun) {
  const struct {
    uint32_t id;
    const char* format;
    uint64_t bytes;
  } types[] = {{16, "gguf_iq2_xxs", 66}, {17, "gguf_iq2_xs", 74}, {18, "gguf_iq3_xxs", 98},
               {19, "gguf_iq1_s", 50},   {21, "gguf_iq3_s", 110}, {22, "gguf_iq2_s", 82},
               {29, "gguf_iq1_m", 56}};
  for (const auto& type : types) {
    const TemporaryFolder folder;
    const auto file = folder.write("model.gguf", stored_only(type.id, type.bytes).bytes());
    const auto made = folder / "model.ninfer";
    build_artifact(file, made, {.recipe = "keep"});
    EXPECT_NO_THROW(verify_deep(made, file, 1, {}));
    auto reader = artifact::Reader::open(made);
    const auto object = [&](const char* name) {
      const artifact::Binding* binding = reader.directory().find_binding(name);
      return reader.tensor(binding->parts.empty() ? binding->object : binding->parts[0].object);
    };
    EXPECT_EQ(object("text/layers/0/mlp/down").format->name, type.format);
    const artifact::TensorInfo attention = object("text/layers/0/attention/query");
    const Bytes bytes = reader.mapped(attention.object->id);
    // Row 2j + p of a head of 64 goes to p·32 + j, as in any type.
    EXPECT_EQ(bytes[33 * type.bytes], std::byte{3});
    for (const auto& [source, recipe] : {std::pair(file, ""), std::pair(made, "")}) {
      const Error error = error_of([&] { prepare(open_source(source, recipe, 1), {}); });
      EXPECT_EQ(code_name(error.code()), code_name(Code::kSupport)) << error.message();
      for (const char* part : {"text/layers/0/attention/query", type.format})
        EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
    const Error error =
        error_of([&] { build_artifact(file, folder / "q4.ninfer", {.recipe = "q4"}); });
    const Error again =
        error_of([&] { quantize_artifact(made, folder / "q4.ninfer", {.recipe = "q4"}); });
    for (const Error& refused : {error, again}) {
      EXPECT_EQ(refused.code(), Code::kSupport);
      for (const char* part : {"recipe q4", "parameter 'text/layers/0/", type.format, "keep"})
        EXPECT_NE(refused.message().find(part), std::string::npos) << refused.message();
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "q4.ninfer"));
  }
}

TEST(GgufRefused, ABlockWithoutAFiniteScaleGoesIntoNoArtifact) {
  const TemporaryFolder folder;
  GgufBuilder file = tiny_qwen35();
  std::string blocks(8 * kNv * 34, '\0');
  blocks[5 * kNv * 34 + 1] = 0x7C;  // of row 5
  file.tensor("blk.0.ssm_out.weight", {8, kValues}, kQ8_0, blocks);
  const auto source = folder.write("model.gguf", file.bytes());
  const Error error =
      error_of([&] { build_artifact(source, folder / "model.ninfer", {.recipe = "keep"}); });
  EXPECT_EQ(error.code(), Code::kValue);
  for (const char* part : {"text/layers/0/gdn/output", "row 5", "0x7C00"})
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  EXPECT_FALSE(std::filesystem::exists(folder / "model.ninfer"));
}

GgufBuilder with_divisors(float first, float second) {
  GgufBuilder file = tiny_llama();
  file.tensor("rope_freqs.weight", {2}, kF32, GgufBytes().number(first).number(second).all());
  return file;
}

// Those of the llama3 rule stand in the goldens.
TEST(GgufRope, DivisorsOfOneMeanNothingAndThoseOfAnotherRuleAreRefused) {
  EXPECT_EQ(Opened(with_divisors(1, 1)).source().config("text").at("rope_parameters"),
            Opened(tiny_llama()).source().config("text").at("rope_parameters"));
  for (const float first : {0.5f, 1.0f, 3.0f, 9.0f, NAN, INFINITY})
    expect_refused(with_divisors(first, 8), Code::kSupport, {"rope_freqs.weight", "llama3"});
}

TEST(GgufHostile, AnyByteOfTheHeaderChangedIsRefusedOrRead) {
  const TemporaryFolder folder;
  for (const GgufBuilder& builder : {tiny_llama(), tiny_gemma3(), tiny_qwen35(), wide_qwen35(),
                                     tiny_qwen35moe(), tiny_qwen3moe(), tiny_gpt_oss()}) {
    const std::string whole = builder.bytes();
    for (size_t i = 24; i < builder.header().size(); i += 3) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ (i % 2 == 0 ? 0x01 : 0xFF));
      const auto path = folder.write("model.gguf", changed);
      try {
        const auto source = open_source(path, "", 1);
        for (const char* role : {"tokenizer.json", "tokenizer_config.json",
                                 "generation_config.json", "chat_template.jinja"})
          source->resource(role);
        source->values("text/final_norm", 8);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace flare::prepare
