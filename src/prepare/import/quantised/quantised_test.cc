// Imports of quantised checkpoints: codes and scales copied as they are, policies and divisors,
// what reports say, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "artifact/reader.h"
#include "base/float_types.h"
#include "codec/nvfp4.h"
#include "prepare/import/quantised/altered_fixture.h"
#include "prepare/recipe/verify_deep.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;
using test::Altered;
using test::build_error;

const std::string kUp = "model.layers.0.mlp.up_proj";
const std::string kOut = "model.layers.0.self_attn.o_proj";

class QuantisedImport : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::fs::exists(test::quantised_golden("qwen3-ct-nvfp4")))
      GTEST_SKIP() << "../shared/data/goldens/quantised is absent";
  }
};

void expect_error(const Error& error, Code code, const std::vector<std::string>& words) {
  EXPECT_EQ(code_name(error.code()), code_name(code)) << error.message();
  for (const std::string& word : words)
    EXPECT_NE(error.message().find(word), std::string::npos) << word << " in " << error.message();
}

// An artifact of a golden checkpoint and the report about it.
struct Built {
  explicit Built(const std::string& golden, const std::string& recipe = "keep") {
    BuildOptions options;
    options.recipe = recipe;
    report = build_artifact(test::quantised_golden(golden), folder / "a.ninfer", options);
    reader.emplace(artifact::Reader::open(folder / "a.ninfer"));
  }
  const artifact::Use& use(const std::string& parameter) const {
    for (const artifact::Use& use : reader->directory().uses)
      if (use.parameter == parameter) return use;
    throw Error(Code::kInternal, "no use of {}", parameter);
  }
  std::optional<float> divisor(const std::string& parameter) {
    for (const auto& [role, binding] : use(parameter).auxiliaries)
      if (role == "activation_input_divisor")
        return load_le<float>(reader->mapped(binding.object).data());
    return std::nullopt;
  }
  bool has_note(std::string_view words) const {
    return std::ranges::any_of(report.notes, [&](const std::string& note) {
      return note.find(words) != std::string::npos;
    });
  }

  TemporaryFolder folder;
  BuildReport report;
  std::optional<artifact::Reader> reader;
};

// Words of 16 bits by index.
struct OwnTensorView {
  const test::OwnTensor& tensor;
  uint16_t at(const std::vector<uint64_t>& index) const {
    uint64_t i = 0;
    for (size_t d = 0; d < index.size(); ++d) i = i * tensor.shape[d] + index[d];
    return load_le<uint16_t>(tensor.bytes.data() + 2 * i);
  }
};

float stored_float(const std::string& golden, const std::string& name) {
  return load_le<float>(Altered(golden).tensor(name).bytes.data());
}

TEST_F(QuantisedImport, CopiesCodesAndScalesOfNvfp4) {
  Built built("qwen3-ct-nvfp4a16");
  Altered source("qwen3-ct-nvfp4a16");
  const artifact::Binding* binding =
      built.reader->directory().find_binding("text/layers/0/attention/output");
  ASSERT_FALSE(binding->object.empty());
  const Bytes object = built.reader->mapped(binding->object);
  const auto& codes = source.tensor(kOut + ".weight_packed").bytes;
  const auto& scales = source.tensor(kOut + ".weight_scale");
  EXPECT_EQ(std::memcmp(object.data(), codes.data(), codes.size()), 0);
  const codec::Geometry g{scales.shape[0], 16 * scales.shape[1]};
  for (uint64_t row = 0; row < g.rows; ++row)
    for (uint64_t group = 0; group < scales.shape[1]; ++group)
      ASSERT_EQ(object[codes.size() + codec::nvfp4_scale_offset(g, row, group)],
                scales.bytes[row * scales.shape[1] + group]);
  EXPECT_EQ(load_le<float>(object.data() + object.size() - 4),
            stored_float("qwen3-ct-nvfp4a16", kOut + ".weight_global_scale"));
}

// The scales of nvfp4 lie in tiles and its divisor behind them: verify finds both.
TEST_F(QuantisedImport, MakesArtifactsThatVerifyChecksToTheLastByte) {
  Built built("qwen3-ct-nvfp4a16");
  const test::fs::path file = built.folder / "a.ninfer";
  artifact::verify(file, 2, false, {});
  const artifact::Binding* binding =
      built.reader->directory().find_binding("text/layers/0/attention/output");
  const Bytes object = built.reader->mapped(binding->object);
  const std::string text = read_text_file(file);
  const size_t at = text.find(as_text(object));
  ASSERT_NE(at, std::string::npos);
  const auto damaged = [&](size_t offset, uint8_t byte) {
    std::string changed = text;
    changed[at + offset] = static_cast<char>(byte);
    const test::fs::path other = built.folder.write("b.ninfer", changed);
    return error_of([&] { artifact::verify(other, 2, false, {}); });
  };
  const size_t codes = 128 * 256 / 2;  // [128, 256]
  EXPECT_EQ(code_name(damaged(codes + 5, 0x7f).code()), code_name(Code::kValue));
  EXPECT_EQ(code_name(damaged(object.size() - 1, 0xff).code()), code_name(Code::kValue));
}

TEST_F(QuantisedImport, GivesTheActivationsThatTheCheckpointDeclares) {
  Built weights_only("qwen3-ct-nvfp4a16");
  EXPECT_EQ(weights_only.use("text/layers/0/attention/output").activation_policy, "A16Only");
  EXPECT_FALSE(weights_only.divisor("text/layers/0/attention/output"));
  Built four("qwen3-ct-nvfp4");
  EXPECT_EQ(four.use("text/layers/0/attention/output").activation_policy, "AllowA4");
  // compressed-tensors stores divisors, ModelOpt multipliers.
  EXPECT_EQ(four.divisor("text/layers/0/attention/output"),
            stored_float("qwen3-ct-nvfp4", kOut + ".input_global_scale"));
  Built modelopt("qwen3-modelopt-nvfp4");
  EXPECT_EQ(modelopt.divisor("text/layers/0/attention/output"),
            1.0f / stored_float("qwen3-modelopt-nvfp4", kOut + ".input_scale"));
  EXPECT_EQ(Built("qwen3-ct-fp8-channel").use("text/layers/0/mlp/up").activation_policy, "AllowA8");
  EXPECT_EQ(Built("qwen3-ct-mxfp4").use("text/layers/0/mlp/up").activation_policy, "A16Only");
  EXPECT_EQ(Built("qwen3-fp8-block").use("text/layers/0/mlp/up").activation_policy, "AllowA8");
}

// Members of one parent share the least divisor (artifact.md §8.6).
TEST_F(QuantisedImport, GivesAllUsesOfAParentTheLeastDivisor) {
  Built built("qwen3-modelopt-nvfp4");
  const auto& bindings = built.reader->directory();
  const artifact::Binding* gate = bindings.find_binding("text/layers/0/mlp/gate");
  const artifact::Binding* up = bindings.find_binding("text/layers/0/mlp/up");
  ASSERT_EQ(gate->parts.size(), 1u) << "gate and up share weight_scale_2, so they share a parent";
  EXPECT_EQ(gate->parts[0].object, up->parts[0].object);
  const float a = stored_float("qwen3-modelopt-nvfp4", "model.layers.0.mlp.gate_proj.input_scale");
  const float b = stored_float("qwen3-modelopt-nvfp4", kUp + ".input_scale");
  EXPECT_EQ(built.divisor("text/layers/0/mlp/gate"), std::min(1 / a, 1 / b));
  EXPECT_EQ(built.divisor("text/layers/0/mlp/up"), std::min(1 / a, 1 / b));
}

TEST_F(QuantisedImport, TellsWhatBecameOfTheWeights) {
  EXPECT_TRUE(Built("qwen3-ct-nvfp4")
                  .has_note("14 weights of compressed-tensors "
                            "nvfp4-pack-quantized are kept as nvfp4"));
  EXPECT_TRUE(Built("qwen3-ct-nvfp4", "bf16")
                  .has_note("are decoded and written as bf16, each within a factor of 1 ± 2^-9"));
  EXPECT_TRUE(Built("qwen3-ct-nvfp4", "q8").has_note("are decoded and written as q8_g32_fp16"));
  EXPECT_TRUE(Built("qwen3-modelopt-fp8").has_note("are kept as fp8_e4m3fn_g128_fp32"));
  EXPECT_TRUE(Built("qwen3-modelopt-fp8", "fp8")
                  .has_note("are kept as fp8_e4m3fn_row_bf16: scales are rounded to bf16"));
  Built cache("qwen3-ct-fp8-tensor");
  EXPECT_TRUE(cache.has_note("4 tensors with scales of the key-value cache are not used"));
  EXPECT_TRUE(cache.has_note("14 tensors with static input scales are not used"));
  EXPECT_TRUE(Built("qwen3-modelopt-fp8").has_note("scales of the key-value cache"));
}

// Scales that bf16 cannot hold stay what they are, unless a recipe names the smaller format.
TEST_F(QuantisedImport, KeepsScalesOfFp32) {
  const std::string up = "text/layers/0/mlp/up";
  const codec::Geometry g{128, 128};
  Altered source("qwen3-modelopt-fp8");
  const auto& codes = source.tensor(kUp + ".weight").bytes;
  const float scale = load_le<float>(source.tensor(kUp + ".weight_scale").bytes.data());
  ASSERT_NE(bf16_to_f32(f32_to_bf16(scale)), scale);
  for (const auto& [recipe, format, used] :
       {std::tuple{"keep", codec::FormatId::kFp8G128, scale},
        {"fp8", codec::FormatId::kFp8RowBf16, bf16_to_f32(f32_to_bf16(scale))}}) {
    Built built("qwen3-modelopt-fp8", recipe);
    const codec::Matrix stored = built.reader->matrix(up, g);
    EXPECT_EQ(stored.segments.front().format, format) << recipe;
    std::vector<float> row(g.cols);
    for (uint64_t r = 0; r < g.rows; ++r) {
      codec::decode_row(stored, r, row.data());
      for (uint64_t c = 0; c < g.cols; ++c)
        ASSERT_EQ(row[c], used * e4m3_to_f32(std::to_integer<uint8_t>(codes[r * g.cols + c])))
            << recipe << " row " << r << " column " << c;
    }
    const auto report =
        verify_deep(built.folder / "a.ninfer", test::quantised_golden("qwen3-modelopt-fp8"), 2, {});
    for (const DeepTotal& total : report.totals)
      if (total.format == codec::format(format).name && total.how == "copied") {
        EXPECT_EQ(total.worst > 0, std::string_view(recipe) == "fp8") << total.worst;
      }
  }
}

// The older name of float-quantized and int-quantized.
TEST_F(QuantisedImport, ReadsNaiveFloats) {
  Altered naive("qwen3-ct-fp8-channel");
  naive.quantisation().set("format", "naive-quantized");
  Json groups = naive.quantisation().at("config_groups");
  Json group = groups.at("group_0");
  group.set("format", "naive-quantized");
  groups.set("group_0", group);
  naive.quantisation().set("config_groups", groups);
  const TemporaryFolder folder;
  naive.write(folder.path());
  BuildOptions options;
  options.recipe = "keep";
  build_artifact(folder.path(), folder / "a.ninfer", options);
  auto made = artifact::Reader::open(folder / "a.ninfer");
  Built wanted("qwen3-ct-fp8-channel");
  for (const auto& [name, binding] : wanted.reader->directory().bindings) {
    const artifact::Binding* other = made.directory().find_binding(name);
    ASSERT_NE(other, nullptr) << name;
    const auto object = [](const artifact::Binding& b) {
      return b.parts.empty() ? b.object : b.parts.front().object;
    };
    EXPECT_TRUE(
        std::ranges::equal(made.mapped(object(*other)), wanted.reader->mapped(object(binding))))
        << name;
  }
}

// Blocks of 48 columns are in no format: the weight is decoded, and the report says why.
TEST_F(QuantisedImport, DecodesWhatNoFormatHolds) {
  Altered odd("qwen3-fp8-block");
  odd.quantisation().set("weight_block_size", Json::array({128, 48}));
  for (test::OwnTensor& t : odd.tensors) {
    if (!t.name.ends_with(".weight_scale_inv")) continue;
    const uint64_t cols =
        odd.tensor(t.name.substr(0, t.name.size() - std::strlen("_scale_inv"))).shape[1];
    t.shape[1] = (cols + 47) / 48;
    t.bytes.resize(t.shape[0] * t.shape[1] * 4);
    for (uint64_t i = 0; i < t.shape[0] * t.shape[1]; ++i)
      store_le(t.bytes.data() + 4 * i, std::ldexp(1.0f, static_cast<int>(i) - 5));
  }
  const TemporaryFolder folder;
  odd.write(folder.path());
  BuildOptions options;
  options.recipe = "keep";
  const BuildReport report = build_artifact(folder.path(), folder / "a.ninfer", options);
  EXPECT_TRUE(std::ranges::any_of(report.notes, [](const std::string& note) {
    return note.starts_with("14 weights of block FP8 128×48 are decoded and written as bf16") &&
           note.ends_with("no format holds their codes and scales");
  }));
  artifact::Reader reader = artifact::Reader::open(folder / "a.ninfer");
  const artifact::Binding* down = reader.directory().find_binding("text/layers/0/mlp/down");
  const Bytes words = reader.mapped(down->object);
  const auto& codes = odd.tensor("model.layers.0.mlp.down_proj.weight").bytes;
  for (uint64_t i = 0; i < 128 * 128; ++i)
    ASSERT_EQ(bf16_to_f32(load_le<uint16_t>(words.data() + 2 * i)),
              std::ldexp(e4m3_to_f32(std::to_integer<uint8_t>(codes[i])),
                         static_cast<int>(i % 128 / 48) - 5));
}

TEST_F(QuantisedImport, TakesWhatTheConfigIgnoresAsItIs) {
  Built mixed("qwen3-ct-mixed");
  const auto format = [&](const std::string& parameter) {
    const artifact::Binding* b = mixed.reader->directory().find_binding(parameter);
    return mixed.reader->tensor(b->parts.empty() ? b->object : b->parts[0].object).format->name;
  };
  EXPECT_EQ(format("text/layers/0/attention/query"), "fp8_e4m3fn_row_bf16");
  EXPECT_EQ(format("text/layers/0/attention/value"), "bf16");
  EXPECT_EQ(format("text/layers/0/mlp/down"), "nvfp4");
  EXPECT_EQ(format("text/layers/1/mlp/down"), "bf16");
  // A covered weight that is stored plainly is taken, and the report says so.
  Altered plain("qwen3-ct-mixed");
  plain.quantisation().set("ignore", Json::array({"lm_head"}));
  const TemporaryFolder folder;
  plain.write(folder.path());
  BuildOptions options;
  options.recipe = "keep";
  options.dry_run = true;
  const BuildReport report = build_artifact(folder.path(), folder / "a.ninfer", options);
  EXPECT_TRUE(std::ranges::any_of(report.notes, [](const std::string& note) {
    return note.starts_with("5 weights that the quantisation config covers are stored unquantised");
  }));
}

// ModelOpt wrote a file of its own before config.json had a place for it.
TEST_F(QuantisedImport, ReadsTheConfigBesideTheConfig) {
  Altered old("qwen3-modelopt-mixed");
  std::erase_if(old.config.mutable_object(),
                [](const Json::Member& m) { return m.first == "quantization_config"; });
  const TemporaryFolder folder;
  old.write(folder.path());
  test::fs::copy_file(test::quantised_golden("qwen3-modelopt-mixed") / "hf_quant_config.json",
                      folder / "hf_quant_config.json");
  BuildOptions options;
  options.recipe = "keep";
  const BuildReport report = build_artifact(folder.path(), folder / "a.ninfer", options);
  const Built whole("qwen3-modelopt-mixed");
  ASSERT_EQ(report.formats.size(), whole.report.formats.size());
  for (size_t i = 0; i < report.formats.size(); ++i) {
    EXPECT_EQ(report.formats[i].format, whole.report.formats[i].format);
    EXPECT_EQ(report.formats[i].weights, whole.report.formats[i].weights);
  }
}

TEST_F(QuantisedImport, NamesEveryExpertOfQwen3Moe) {
  Built built("qwen3_moe-ct-nvfp4");
  const artifact::Directory& directory = built.reader->directory();
  EXPECT_EQ(directory.find_component("text")->config.to_text(),
            R"({"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe",)"
            R"("hidden_size":128,"vocab_size":128,"num_hidden_layers":2,)"
            R"("max_position_embeddings":4096,"tie_word_embeddings":false,)"
            R"("rms_norm_eps":9.999999974752427e-07,)"
            R"("layer_types":["full_attention","full_attention"],"num_attention_heads":4,)"
            R"("num_key_value_heads":4,"head_dim":32,)"
            R"("rope_parameters":{"rope_type":"default","rope_theta":1000000.0},)"
            R"("intermediate_size":128,"num_experts":3,"num_experts_per_tok":2,)"
            R"("moe_intermediate_size":128,"norm_topk_prob":true,)"
            R"("mlp_layer_types":["sparse","dense"]})");
  for (const char* name : {"moe/router", "moe/experts/0/gate", "moe/experts/2/up",
                           "moe/experts/1/down", "attention/query_norm"})
    EXPECT_NE(directory.find_binding(std::string("text/layers/0/") + name), nullptr) << name;
  EXPECT_NE(directory.find_binding("text/layers/1/mlp/gate"), nullptr);
  EXPECT_EQ(built.use("text/layers/0/moe/experts/1/down").input,
            "text/layers/0/moe/experts/1/product");
  EXPECT_EQ(built.use("text/layers/0/moe/router").activation_policy, "A16Only");
  expect_error(
      build_error("qwen3_moe-ct-nvfp4",
                  [](Altered& a) { a.drop("model.layers.0.mlp.experts.2.up_proj.weight_scale"); }),
      Code::kBinding, {"experts.2.up_proj.weight_scale", "missing"});
  expect_error(
      build_error("qwen3_moe-ct-nvfp4", [](Altered& a) { a.config.set("num_local_experts", 2); }),
      Code::kBinding, {"mlp.gate.weight", "[3, 128]", "[2, 128]"});
  expect_error(build_error("qwen3_moe-ct-nvfp4",
                           [](Altered& a) { a.config.set("mlp_only_layers", Json::array()); }),
               Code::kBinding, {"model.layers.1.", "missing"});
  expect_error(build_error("qwen3_moe-ct-nvfp4",
                           [](Altered& a) { a.config.set("num_local_experts", 100000); }),
               Code::kSupport, {"num_experts", "100000"});
}

// gate and up of gpt-oss alternate in [experts, in, out] (bf16), and so do their biases.
TEST_F(QuantisedImport, TakesTheExpertsOfGptOssApart) {
  Built built("gpt_oss-bf16");
  Altered source("gpt_oss-bf16");
  const std::string prefix = "model.layers.1.mlp.experts.";
  const OwnTensorView weights{source.tensor(prefix + "gate_up_proj")};
  const OwnTensorView down{source.tensor(prefix + "down_proj")};
  const OwnTensorView biases{source.tensor(prefix + "gate_up_proj_bias")};
  const std::string expert = "text/layers/1/moe/experts/2/";
  const auto words = [&](const std::string& name) {
    const artifact::Binding* b = built.reader->directory().find_binding(expert + name);
    const std::string& id = b->parts.empty() ? b->object : b->parts[0].object;
    return built.reader->mapped(id).data() + (b->parts.empty() ? 0 : b->parts[0].begin * 2);
  };
  for (uint64_t i = 0; i < 96; ++i)
    for (uint64_t h = 0; h < 128; ++h) {
      ASSERT_EQ(load_le<uint16_t>(words("gate") + 2 * (i * 128 + h)), weights.at({2, h, 2 * i}));
      ASSERT_EQ(load_le<uint16_t>(words("up") + 2 * (i * 128 + h)), weights.at({2, h, 2 * i + 1}));
      ASSERT_EQ(load_le<uint16_t>(words("down") + 2 * (h * 96 + i)), down.at({2, i, h}));
    }
  for (uint64_t i = 0; i < 96; ++i) {
    EXPECT_EQ(load_le<uint16_t>(words("gate_bias") + 2 * i), biases.at({2, 2 * i}));
    EXPECT_EQ(load_le<uint16_t>(words("up_bias") + 2 * i), biases.at({2, 2 * i + 1}));
  }
  EXPECT_NE(built.reader->directory().find_binding("text/layers/0/attention/sinks"), nullptr);
  EXPECT_EQ(built.reader->directory().find_component("text")->config.at("layer_types"),
            Json::array({"sliding_attention", "full_attention"}));
  expect_error(
      build_error("gpt_oss-mxfp4", [&](Altered& a) { a.drop(prefix + "down_proj_scales"); }),
      Code::kBinding, {"down_proj_scales", "missing", "[3, 128, 3]"});
  expect_error(build_error("gpt_oss-mxfp4",
                           [&](Altered& a) {
                             a.tensor(prefix + "down_proj_scales").bytes[4] = std::byte{255};
                           }),
               Code::kValue, {"down_proj_scales", "row 1", "column 32"});
}

TEST_F(QuantisedImport, NamesMissingAndMisshapenCompanions) {
  for (const char* suffix : {".weight_scale", ".weight_global_scale"})
    expect_error(build_error("qwen3-ct-nvfp4", [&](Altered& a) { a.drop(kUp + suffix); }),
                 Code::kBinding, {kUp + suffix, "missing"});
  expect_error(build_error("qwen3-ct-fp8-tensor", [](Altered& a) { a.drop(kUp + ".input_scale"); }),
               Code::kBinding, {kUp + ".input_scale", "missing"});
  expect_error(build_error("qwen3-fp8-block32-e8m0", [](Altered& a) { a.drop(kUp + ".scale"); }),
               Code::kBinding, {kUp + ".weight_scale_inv", "missing", "[4, 4]"});
  expect_error(build_error("qwen3-ct-nvfp4",
                           [](Altered& a) { a.tensor(kUp + ".weight_scale").shape = {8, 128}; }),
               Code::kBinding,
               {"model.safetensors", kUp + ".weight_scale", "[8, 128]", "[128, 8]"});
  expect_error(build_error("qwen3-ct-nvfp4",
                           [](Altered& a) { a.tensor(kUp + ".weight_packed").shape = {64, 128}; }),
               Code::kBinding, {kUp + ".weight_packed", "[64, 128]", "[128, 64]"});
  expect_error(build_error("qwen3-ct-mxfp4",
                           [](Altered& a) { a.tensor(kUp + ".weight_scale").dtype = DType::kI8; }),
               Code::kSupport, {kUp + ".weight_scale", "I8", "U8 or F8_E8M0"});
  // Its codes are there, but the list says that it is a plain tensor.
  expect_error(build_error("qwen3-ct-nvfp4",
                           [](Altered& a) {
                             a.quantisation().set("ignore", Json::array({"lm_head", kUp}));
                           }),
               Code::kBinding, {kUp + ".weight", "missing"});
  expect_error(
      build_error("qwen3-ct-nvfp4",
                  [](Altered& a) {
                    a.tensors.push_back(
                        {kUp + ".weight_shape", DType::kI64, {1}, std::vector<std::byte>(8)});
                  }),
      Code::kBinding, {kUp + ".weight_shape", "left over"});
}

TEST_F(QuantisedImport, RefusesCodesAndScalesThatAreNoNumbers) {
  const auto put = [](const std::string& name, size_t at, uint8_t byte) {
    return [=](Altered& a) { a.tensor(name).bytes.at(at) = std::byte{byte}; };
  };
  for (const char* recipe : {"keep", "bf16"}) {
    expect_error(build_error("qwen3-ct-nvfp4", put(kUp + ".weight_scale", 19, 0x7f), recipe),
                 Code::kValue, {"model.safetensors", kUp + ".weight_scale", "row 2", "column 48"});
    expect_error(build_error("qwen3-ct-nvfp4", put(kUp + ".weight_scale", 19, 0x81), recipe),
                 Code::kValue, {kUp + ".weight_scale", "row 2", "without sign"});
    expect_error(build_error("qwen3-ct-fp8-channel", put(kUp + ".weight", 128 + 7, 0xff), recipe),
                 Code::kValue, {kUp + ".weight", "row 1", "column 7", "0xFF"});
    expect_error(build_error("qwen3-ct-mxfp4", put(kUp + ".weight_scale", 5, 0xff), recipe),
                 Code::kValue, {kUp + ".weight_scale", "row 1", "column 32"});
    expect_error(build_error("qwen3-modelopt-mxfp8", put(kUp + ".weight_scale", 5, 0xfe), recipe),
                 Code::kValue, {kUp + ".weight", "row 1", "finite"});
    // An fp32 NaN: 0x7fc00000.
    expect_error(build_error(
                     "qwen3-fp8-block",
                     [](Altered& a) {
                       auto& bytes = a.tensor(kUp + ".weight_scale_inv").bytes;
                       store_le(bytes.data(), uint32_t{0x7fc00000});
                     },
                     recipe),
                 Code::kValue, {kUp + ".weight_scale_inv", "nan"});
  }
  for (const float bad : {0.0f, -1.0f, std::numeric_limits<float>::infinity()})
    expect_error(build_error("qwen3-modelopt-nvfp4",
                             [&](Altered& a) {
                               store_le(a.tensor(kUp + ".weight_scale_2").bytes.data(), bad);
                             }),
                 Code::kValue, {kUp + ".weight_scale_2", "above 0"});
}

TEST_F(QuantisedImport, NamesKeyAndValueOfSchemesItDoesNotKnow) {
  expect_error(build_error("qwen3-ct-nvfp4",
                           [](Altered& a) { a.quantisation().set("quant_method", "hqq"); }),
               Code::kSupport, {"config.json", "quant_method", "hqq", "compressed-tensors"});
  expect_error(build_error("qwen3-modelopt-fp8",
                           [](Altered& a) { a.quantisation().set("quant_algo", "W4A8_AWQ"); }),
               Code::kSupport, {"quant_algo", "W4A8_AWQ", "NVFP4"});
  const auto weights = [](std::string_view key, Json value) {
    return [key = std::string(key), value](Altered& a) {
      Json groups = a.quantisation().at("config_groups");
      Json group = groups.at("group_0");
      Json arguments = group.at("weights");
      arguments.set(key, value);
      group.set("weights", arguments);
      groups.set("group_0", group);
      a.quantisation().set("config_groups", groups);
    };
  };
  expect_error(build_error("qwen3-ct-nvfp4", weights("num_bits", 3)), Code::kSupport,
               {"group_0", "num_bits", "3", "nvfp4-pack-quantized"});
  expect_error(build_error("qwen3-ct-nvfp4", weights("group_size", 32)), Code::kSupport,
               {"group_size", "32", "16"});
  expect_error(build_error("qwen3-ct-fp8-channel", weights("strategy", "attn_head")),
               Code::kSupport, {"strategy", "attn_head", "channel"});
  expect_error(build_error("qwen3-ct-fp8-channel", weights("colour", "red")), Code::kBinding,
               {"colour", "red"});
  expect_error(build_error("qwen3-fp8-block",
                           [](Altered& a) {
                             a.quantisation().set("weight_block_size", Json::array({128}));
                           }),
               Code::kBinding, {"weight_block_size", "expected 2"});
  expect_error(build_error("qwen3-ct-nvfp4",
                           [](Altered& a) {
                             a.quantisation().set("sparsity_config",
                                                  Json::object({{"format", "sparse-24-bitmask"}}));
                           }),
               Code::kSupport, {"sparsity_config", "sparse-24-bitmask"});
}

}  // namespace
}  // namespace flare::prepare
