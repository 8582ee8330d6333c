// Import held to the golden checkpoints and to broken ones.
#include "prepare/import/import.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "prepare/test_support.h"

namespace flare::prepare {
namespace {

using test::fs::path;

path golden(const std::string& name) { return path(FLARE_SOURCE_DIR) / "../shared/data" / name; }

#define SKIP_WITHOUT(folder) \
  if (!test::fs::exists(folder)) GTEST_SKIP() << "no " << folder << ": shared data is absent"

// The error of importing a checkpoint made of these parts.
Error import_error(const Json& config, const test::Shapes& tensors) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder.path(), config, tensors);
  try {
    import_checkpoint(checkpoint::Checkpoint::open(folder.path()));
  } catch (const Error& error) {
    return error;
  }
  return Error(Code::kInternal, "no error");
}

Error config_error(const std::string& key, Json value) {
  Json config = test::tiny_llama_config();
  config.set(key, std::move(value));
  return import_error(config, test::tiny_llama_tensors());
}

void expect_error(const Error& error, Code code, const std::vector<std::string>& words) {
  EXPECT_EQ(code_name(error.code()), code_name(code)) << error.message();
  for (const std::string& word : words)
    EXPECT_NE(error.message().find(word), std::string::npos) << word << " in " << error.message();
  EXPECT_EQ(error.message().find('\n'), std::string::npos);
}

TEST(Import, NormalisesTheConfigOfEveryFamily) {
  const struct {
    const char *folder, *config;
  } cases[] = {
      {"goldens/models/llama3",
       R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":128,)"
       R"("vocab_size":512,"num_hidden_layers":4,"max_position_embeddings":4096,)"
       R"("tie_word_embeddings":true,"rms_norm_eps":9.999999747378752e-06,"layer_types":)"
       R"(["full_attention","full_attention","full_attention","full_attention"],)"
       R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":32,"rope_parameters":)"
       R"({"rope_type":"llama3","rope_theta":500000.0,"factor":8.0,"low_freq_factor":1.0,)"
       R"("high_freq_factor":4.0,"original_max_position_embeddings":64},"attention_bias":false,)"
       R"("intermediate_size":256})"},
      {"goldens/models/qwen3_5_vision",
       R"({"architectures":["Qwen3_5ForCausalLM"],"model_type":"qwen3_5_text","hidden_size":128,)"
       R"("vocab_size":512,"num_hidden_layers":4,"max_position_embeddings":4096,)"
       R"("tie_word_embeddings":false,"rms_norm_eps":9.999999974752427e-07,"layer_types":)"
       R"(["linear_attention","linear_attention","linear_attention","full_attention"],)"
       R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"rope_parameters":)"
       R"({"rope_theta":1000000.0,"partial_rotary_factor":0.25,"mrope_section":[4,2,2]},)"
       R"("linear_num_key_heads":2,"linear_key_head_dim":32,"linear_num_value_heads":4,)"
       R"("linear_value_head_dim":32,"linear_conv_kernel_dim":4,"intermediate_size":256})"},
      {"goldens/models/qwen3_5_moe",
       R"({"architectures":["Qwen3_5MoeForCausalLM"],"model_type":"qwen3_5_moe_text",)"
       R"("hidden_size":128,"vocab_size":512,"num_hidden_layers":4,)"
       R"("max_position_embeddings":4096,"tie_word_embeddings":false,)"
       R"("rms_norm_eps":9.999999974752427e-07,"layer_types":)"
       R"(["linear_attention","linear_attention","linear_attention","full_attention"],)"
       R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"rope_parameters":)"
       R"({"rope_theta":1000000.0,"partial_rotary_factor":0.25,"mrope_section":[4,2,2]},)"
       R"("linear_num_key_heads":2,"linear_key_head_dim":32,"linear_num_value_heads":4,)"
       R"("linear_value_head_dim":32,"linear_conv_kernel_dim":4,"num_experts":8,)"
       R"("num_experts_per_tok":2,"moe_intermediate_size":128,)"
       R"("shared_expert_intermediate_size":128})"},
      {"goldens/models/gemma3_text",
       R"({"architectures":["Gemma3ForCausalLM"],"model_type":"gemma3_text","hidden_size":128,)"
       R"("vocab_size":512,"num_hidden_layers":6,"max_position_embeddings":1024,)"
       R"("tie_word_embeddings":true,"rms_norm_eps":9.999999974752427e-07,"layer_types":)"
       R"(["sliding_attention","sliding_attention","full_attention","sliding_attention",)"
       R"("sliding_attention","full_attention"],"num_attention_heads":4,"num_key_value_heads":2,)"
       R"("head_dim":32,"rope_parameters":{"full_attention":{"rope_type":"linear",)"
       R"("rope_theta":1000000.0,"factor":8.0},"sliding_attention":{"rope_type":"default",)"
       R"("rope_theta":10000.0}},"query_pre_attn_scalar":48.0,"sliding_window":8,)"
       R"("intermediate_size":256})"},
  };
  for (const auto& one : cases) {
    SKIP_WITHOUT(golden(one.folder));
    const auto checkpoint = checkpoint::Checkpoint::open(golden(one.folder));
    EXPECT_EQ(import_checkpoint(checkpoint).components[0].config.to_text(), one.config);
  }
}

TEST(Import, ReadsEveryGoldenCheckpointAndCoversItsTensors) {
  const struct {
    const char* folder;
    size_t parameters;
    size_t skipped;
  } cases[] = {
      {"goldens/models/llama2", 3 + 4 * 9, 0},
      {"goldens/models/llama3", 3 + 4 * 9, 0},
      {"goldens/models/mistral", 3 + 4 * 9, 0},
      {"goldens/models/qwen2", 3 + 4 * 12, 0},
      {"goldens/models/qwen3", 3 + 4 * 11, 0},
      {"goldens/models/qwen3_tied_yarn", 3 + 4 * 11, 0},
      // 12 in a full-attention layer, 16 in a linear one.
      {"goldens/models/qwen3_5", 3 + 2 * 12 + 6 * 16, 1},
      {"goldens/models/qwen3_5_vision", 3 + 12 + 3 * 16, 1},
      {"goldens/models/qwen3_moe", 3 + 3 * (9 + 3 * 8) + 11, 0},
      // A mixture has router, score, 3 for each of 8 experts and 3 shared in the place of 3.
      {"goldens/models/qwen3_5_moe", 3 + (12 + 26) + 3 * (16 + 26), 1},
      {"goldens/models/gemma3_text", 3 + 6 * 13, 0},
      {"models/nano", 3 + 2 * 12 + 4 * 16, 1},
      {"models/stories260k/hf-f32", 3 + 5 * 9, 0},
      {"models/stories260k/hf-bf16", 3 + 5 * 9, 0},
  };
  for (const auto& one : cases) {
    SKIP_WITHOUT(golden(one.folder));
    const auto checkpoint = checkpoint::Checkpoint::open(golden(one.folder));
    const ImportedModel model = import_checkpoint(checkpoint);
    ASSERT_EQ(model.components.size(), 1u) << one.folder;
    EXPECT_EQ(model.components[0].parameters.size(), one.parameters) << one.folder;
    EXPECT_EQ(model.skipped.size(), one.skipped) << one.folder;
    EXPECT_TRUE(model.notes.empty()) << one.folder << ": " << model.notes[0];
  }
}

test::Shapes gemma3_tensors(const std::string& prefix, uint64_t layers) {
  test::Shapes out = {{prefix + "embed_tokens.weight", {16, 8}}, {prefix + "norm.weight", {8}}};
  for (uint64_t i = 0; i < layers; ++i) {
    const std::string l = fmt::format("{}layers.{}.", prefix, i);
    for (const char* norm : {"input_layernorm", "post_attention_layernorm",
                             "pre_feedforward_layernorm", "post_feedforward_layernorm"})
      out.push_back({l + norm + ".weight", {8}});
    for (const char* norm : {"q_norm", "k_norm"})
      out.push_back({l + "self_attn." + norm + ".weight", {4}});
    out.push_back({l + "self_attn.q_proj.weight", {32, 8}});
    out.push_back({l + "self_attn.k_proj.weight", {16, 8}});
    out.push_back({l + "self_attn.v_proj.weight", {16, 8}});
    out.push_back({l + "self_attn.o_proj.weight", {8, 32}});
    out.push_back({l + "mlp.gate_proj.weight", {12, 8}});
    out.push_back({l + "mlp.up_proj.weight", {12, 8}});
    out.push_back({l + "mlp.down_proj.weight", {8, 12}});
  }
  return out;
}

// Head counts are left to the class's defaults, as in published files.
Json gemma3_config() {
  return parse_json(R"({"architectures":["Gemma3ForCausalLM"],"model_type":"gemma3_text",
    "hidden_size":8,"intermediate_size":12,"num_hidden_layers":7,"head_dim":4,"vocab_size":16,
    "sliding_window":5,"rope_scaling":{"factor":8.0,"rope_type":"linear"},"rope_theta":1000000,
    "rope_local_base_freq":10000,"hidden_activation":"gelu_pytorch_tanh",
    "sliding_window_pattern":6,"cache_implementation":"hybrid","final_logit_softcapping":null})",
                    "config");
}

Json gemma3_import(const Json& config, const test::Shapes& tensors, size_t skipped = 0) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder.path(), config, tensors);
  const auto checkpoint = checkpoint::Checkpoint::open(folder.path());
  const ImportedModel model = import_checkpoint(checkpoint);
  EXPECT_EQ(model.skipped.size(), skipped);
  EXPECT_EQ(model.components[0].parameters.size(), 3u + 7 * 13);
  return model.components[0].config;
}

TEST(ImportGemma3, ReadsBothSpellingsOfWindowsAndRotations) {
  const Json old = gemma3_import(gemma3_config(), gemma3_tensors("model.", 7));
  EXPECT_EQ(old.at("layer_types").to_text(),
            R"(["sliding_attention","sliding_attention","sliding_attention","sliding_attention",)"
            R"("sliding_attention","full_attention","sliding_attention"])");
  EXPECT_EQ(old.at("rope_parameters").to_text(),
            R"({"full_attention":{"rope_type":"linear","rope_theta":1000000.0,"factor":8.0},)"
            R"("sliding_attention":{"rope_type":"default","rope_theta":10000.0}})");
  EXPECT_EQ(old.at("query_pre_attn_scalar"), Json(256.0));
  EXPECT_EQ(old.at("max_position_embeddings"), Json(131072));
  Json config = gemma3_config();
  for (const char* key :
       {"rope_scaling", "rope_theta", "rope_local_base_freq", "sliding_window_pattern"})
    config.set(key, Json());
  config.set("layer_types", old.at("layer_types"));
  config.set("rope_parameters", parse_json(R"({"full_attention":{"rope_type":"linear","factor":8.0},
                            "sliding_attention":{"rope_type":"default","rope_theta":10000.0}})",
                                           "rope"));
  EXPECT_EQ(gemma3_import(config, gemma3_tensors("model.", 7)), old);
}

TEST(ImportGemma3, FindsTheTextModelBesideATower) {
  const Json inner = gemma3_config();
  const Json alone = gemma3_import(inner, gemma3_tensors("model.", 7));
  const Json outer =
      Json::object({{"architectures", Json::array({"Gemma3ForConditionalGeneration"})},
                    {"model_type", "gemma3"},
                    {"mm_tokens_per_image", 256},
                    {"vision_config", Json::object()},
                    {"text_config", inner}});
  for (const char* prefix : {"model.language_model.", "language_model.model."}) {
    test::Shapes tensors = gemma3_tensors(prefix, 7);
    tensors.push_back({"vision_tower.vision_model.post_layernorm.weight", {4}});
    EXPECT_EQ(gemma3_import(outer, tensors, 1), alone);
  }
}

TEST(ImportGemma3, RefusesMathematicsOfItsRelatives) {
  const auto refused = [](const char* key, Json value) {
    Json config = gemma3_config();
    config.set(key, std::move(value));
    return import_error(config, gemma3_tensors("model.", 7));
  };
  expect_error(refused("final_logit_softcapping", 30.0), Code::kSupport,
               {"final_logit_softcapping", "30"});
  expect_error(refused("use_bidirectional_attention", true), Code::kSupport,
               {"use_bidirectional_attention", "true"});
  expect_error(refused("hidden_activation", "gelu"), Code::kSupport,
               {"hidden_activation", "gelu_pytorch_tanh"});
  expect_error(refused("layer_types", Json(Json::Array(7, Json("linear_attention")))),
               Code::kSupport, {"layer_types", "linear_attention"});
  expect_error(refused("per_layer_config", Json::object({{"0", 1}})), Code::kBinding,
               {"per_layer_config"});
}

TEST(Import, SplitsQueryAndGateRowsPerHead) {
  Json config = test::one_layer_qwen3_5_config();
  config.set("vocab_size", 32);
  config.set("num_attention_heads", 2);
  config.set("head_dim", 64);
  config.set("rope_parameters", parse_json(R"({"mrope_section":[4,2,2]})", "rope"));
  test::Shapes tensors = test::one_layer_qwen3_5_tensors();
  for (auto& [name, shape] : tensors) {
    if (shape[0] == 248320) shape[0] = 32;
    if (name.find("k_proj") != std::string::npos || name.find("v_proj") != std::string::npos)
      shape[0] = 64;
    if (name.find("self_attn.q_norm") != std::string::npos ||
        name.find("self_attn.k_norm") != std::string::npos)
      shape[0] = 64;
  }
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder.path(), config, tensors);
  const auto checkpoint = checkpoint::Checkpoint::open(folder.path());
  const ImportedModel model = import_checkpoint(checkpoint);
  const auto rows = [&](const char* name) {
    std::vector<std::pair<uint64_t, uint64_t>> out;
    for (const Piece& piece : model.components[0].find(name)->pieces)
      out.emplace_back(piece.row_begin, piece.row_end);
    return out;
  };
  using Rows = std::vector<std::pair<uint64_t, uint64_t>>;
  EXPECT_EQ(rows("text/layers/0/attention/query"), (Rows{{0, 64}, {128, 192}}));
  EXPECT_EQ(rows("text/layers/0/attention/gate"), (Rows{{64, 128}, {192, 256}}));
  EXPECT_EQ(model.components[0].find("text/layers/0/attention/output")->inputs,
            std::vector<std::string>{"text/layers/0/attention/gated_output"});
}

// Gate rows before up rows in each expert's matrix of a stack; the same numbers in tensors of their
// own; the draft layer is a mixture too.
TEST(Import, TakesTheExpertsOfAStackApart) {
  SKIP_WITHOUT(golden("goldens/models/qwen3_5_moe"));
  const auto checkpoint = checkpoint::Checkpoint::open(golden("goldens/models/qwen3_5_moe"));
  const ImportedModel model = import_checkpoint(checkpoint, {"text", "mtp"});
  ASSERT_EQ(model.components.size(), 2u);
  const auto words = [&](const ImportedModel& from, const std::string& name) {
    const ImportedParameter* parameter = nullptr;
    for (const ImportedComponent& component : from.components)
      if (const auto* found = component.find(name)) parameter = found;
    EXPECT_NE(parameter, nullptr) << name;
    const Piece& piece = parameter->pieces.at(0);
    const uint64_t row = 2 * parameter->shape.back();
    return std::string(as_text(piece.tensor->bytes.subspan(
        piece.row_begin * row, (piece.row_end - piece.row_begin) * row)));
  };
  const auto stack = [&](const std::string& name, uint64_t begin, uint64_t end) {
    const Bytes bytes = checkpoint.find(name)->bytes;
    return std::string(as_text(bytes.subspan(256 * begin, 256 * (end - begin))));
  };
  for (const auto& [ours, theirs] : {std::pair{"text/layers/2/", "model.layers.2.mlp.experts."},
                                     {"mtp/layers/0/", "mtp.layers.0.mlp.experts."}}) {
    const std::string expert = fmt::format("{}moe/experts/5/", ours), in = "gate_up_proj";
    EXPECT_EQ(words(model, expert + "gate"), stack(theirs + in, 5 * 256, 5 * 256 + 128));
    EXPECT_EQ(words(model, expert + "up"), stack(theirs + in, 5 * 256 + 128, 6 * 256));
    EXPECT_EQ(words(model, expert + "down"), stack(fmt::format("{}down_proj", theirs), 640, 768));
  }
  EXPECT_EQ(model.components[1].config.to_text(), R"({"architectures":["Qwen3_5MoeMTP"]})");
  // Each expert by itself.
  test::TemporaryFolder folder;
  std::vector<checkpoint::NamedTensor> tensors;
  for (const checkpoint::Tensor& t : checkpoint.tensors()) {
    const size_t cut = t.name.find("experts.");
    const bool in = t.name.ends_with("gate_up_proj"), out = t.name.ends_with("experts.down_proj");
    if (!in && !out) {
      tensors.push_back({t.name, t.dtype, t.shape, t.bytes});
      continue;
    }
    const std::string prefix = t.name.substr(0, cut + 8);
    for (uint64_t e = 0; e < 8; ++e)
      for (const char* which : {"gate", "up", "down"}) {
        if ((which[0] == 'd') != out) continue;
        const uint64_t row = in ? e * 256 + (which[0] == 'u' ? 128 : 0) : e * 128;
        tensors.push_back({fmt::format("{}{}.{}_proj.weight", prefix, e, which),
                           t.dtype,
                           {128, 128},
                           t.bytes.subspan(256 * row, 256 * 128)});
      }
  }
  checkpoint::write_safetensors(folder / "model.safetensors", tensors, {});
  test::write_file(folder / "config.json", checkpoint.config().to_text());
  const auto apart = checkpoint::Checkpoint::open(folder.path());
  const ImportedModel other = import_checkpoint(apart, {"text", "mtp"});
  for (const ImportedParameter& parameter : model.components[0].parameters)
    if (parameter.name.find("/experts/") != std::string::npos) {
      EXPECT_EQ(words(other, parameter.name), words(model, parameter.name)) << parameter.name;
    }
}

TEST(Import, TakesBothSpellingsOfRotarySettings) {
  const auto rope_of = [](const char* text) {
    Json config = test::tiny_llama_config();
    const Json changes = parse_json(text, "changes");
    for (const auto& [key, value] : changes.as_object()) config.set(key, value);
    const test::TemporaryFolder folder;
    test::write_checkpoint(folder.path(), config, test::tiny_llama_tensors());
    const auto checkpoint = checkpoint::Checkpoint::open(folder.path());
    return import_checkpoint(checkpoint).components[0].config.at("rope_parameters").to_text();
  };
  const std::string wanted =
      R"({"rope_type":"llama3","rope_theta":500000.0,"factor":8.0,"low_freq_factor":1.0,)"
      R"("high_freq_factor":4.0,"original_max_position_embeddings":32})";
  EXPECT_EQ(rope_of(R"({"rope_theta":500000,"rope_scaling":{"type":"llama3","factor":8,
      "low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":32}})"),
            wanted);
  EXPECT_EQ(rope_of(R"({"rope_theta":null,"rope_parameters":{"rope_type":"llama3",
      "rope_theta":500000.0,"factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
      "original_max_position_embeddings":32}})"),
            wanted);
  EXPECT_EQ(rope_of(R"({"rope_scaling":{"rope_type":"yarn","type":"yarn","factor":4.0}})"),
            R"({"rope_type":"yarn","rope_theta":10000.0,"factor":4.0,)"
            R"("original_max_position_embeddings":64,"beta_fast":32.0,"beta_slow":1.0,)"
            R"("truncate":true})");
}

TEST(Import, RefusesConfigsThatChangeTheMathematics) {
  expect_error(config_error("logit_scale", 0.5), Code::kBinding, {"logit_scale", "0.5"});
  expect_error(config_error("hidden_act", "gelu"), Code::kSupport, {"hidden_act", "gelu", "silu"});
  expect_error(config_error("attention_bias", true), Code::kSupport, {"attention_bias"});
  expect_error(config_error("mlp_bias", true), Code::kSupport, {"mlp_bias"});
  expect_error(config_error("sliding_window", 32), Code::kBinding, {"sliding_window"});
  expect_error(config_error("rope_scaling", parse_json(R"({"type":"dynamic","factor":2})", "r")),
               Code::kSupport, {"rope_type", "dynamic"});
  expect_error(
      config_error("rope_scaling", parse_json(R"({"type":"linear","factor":2,"x":1})", "r")),
      Code::kBinding, {"x", "rope_parameters"});
  expect_error(config_error("rope_parameters", parse_json(R"({"rope_theta":5.0})", "r")),
               Code::kBinding, {"rope_theta", "10000.0", "5.0"});
  expect_error(config_error("quantization_config", Json::object()), Code::kBinding,
               {"quantization_config", "quant_method", "missing"});
  expect_error(config_error("quantization_config", Json::object({{"quant_method", "hqq"}})),
               Code::kSupport, {"quantization_config", "quant_method", "hqq", "modelopt"});
}

TEST(Import, NamesKeyAndExpectationOfWrongValues) {
  expect_error(config_error("hidden_size", "8"), Code::kBinding, {"hidden_size", "positive"});
  expect_error(config_error("hidden_size", 8.5), Code::kBinding, {"hidden_size", "8.5"});
  expect_error(config_error("num_attention_heads", 0), Code::kBinding, {"num_attention_heads"});
  expect_error(config_error("num_hidden_layers", 2000000000), Code::kBinding,
               {"num_hidden_layers", "2000000000"});
  expect_error(config_error("rms_norm_eps", -1.0), Code::kBinding, {"rms_norm_eps", "-1.0"});
  expect_error(config_error("tie_word_embeddings", 1), Code::kBinding, {"tie_word_embeddings"});
  expect_error(config_error("architectures", Json::array({"FooForCausalLM"})), Code::kSupport,
               {"FooForCausalLM", "LlamaForCausalLM", "Qwen3_5ForCausalLM"});
  expect_error(config_error("architectures", nullptr), Code::kBinding, {"architectures"});
}

TEST(Import, NamesTensorsThatAreMissingMisshapenOrLeftOver) {
  test::Shapes missing = test::tiny_llama_tensors();
  missing.erase(missing.begin() + 3);
  expect_error(import_error(test::tiny_llama_config(), missing), Code::kBinding,
               {"model.layers.0.self_attn.k_proj.weight", "missing", "[4, 8]"});
  test::Shapes misshapen = test::tiny_llama_tensors();
  misshapen[4].second = {8, 4};
  expect_error(import_error(test::tiny_llama_config(), misshapen), Code::kBinding,
               {"v_proj", "[8, 4]", "[4, 8]"});
  test::Shapes more = test::tiny_llama_tensors();
  more.push_back({"model.layers.1.mlp.up_proj.weight", {12, 8}});
  expect_error(import_error(test::tiny_llama_config(), more), Code::kBinding,
               {"model.layers.1.mlp.up_proj.weight", "left over"});
}

// A head count that no file could hold must not cost its memory.
TEST(Import, RefusesAHugeHeadCountBeforeListingRows) {
  Json config = test::one_layer_qwen3_5_config();
  config.set("num_attention_heads", 2000000000);
  expect_error(import_error(config, test::one_layer_qwen3_5_tensors()), Code::kBinding,
               {"q_proj", "[256, 128]"});
}

TEST(Import, PassesOverDerivedRotaryBuffers) {
  test::Shapes tensors = test::tiny_llama_tensors();
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {2}});
  EXPECT_EQ(import_error(test::tiny_llama_config(), tensors).message(), "no error");
}

TEST(Import, TakesThePresentHeadEvenIfTheFlagSaysTied) {
  test::Shapes tensors = test::tiny_llama_tensors();
  tensors.push_back({"lm_head.weight", {16, 8}});
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder.path(), test::tiny_llama_config(), tensors);
  const auto checkpoint = checkpoint::Checkpoint::open(folder.path());
  const ImportedModel model = import_checkpoint(checkpoint);
  EXPECT_EQ(model.components[0].find("text/output_head")->tied_to, "");
  EXPECT_FALSE(model.components[0].config.at("tie_word_embeddings").as_bool());
  ASSERT_EQ(model.notes.size(), 1u);
  EXPECT_NE(model.notes[0].find("lm_head.weight"), std::string::npos);
}

}  // namespace
}  // namespace flare::prepare
