// Quantised checkpoints of every kind against what independent libraries read from them
// (../shared/data/goldens/quantised): the dequantised weights of a kept artifact, the same through
// recipe bf16, and the logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "artifact/reader.h"
#include "base/case_sample_fixture.h"
#include "base/file.h"
#include "base/float_types.h"
#include "base/hash/sha256.h"
#include "base/json/json.h"
#include "checkpoint/safetensors.h"
#include "prepare/prepare.h"
#include "tests/goldens/artifact_of.h"
#include "tests/goldens/logits.h"

namespace flare {
namespace {

namespace fs = std::filesystem;

// An fp32 forward agrees within this (README.md there, Tolerances).
constexpr double kLogitError = 1e-3;

const fs::path kFolder = fs::path(FLARE_SOURCE_DIR) / "../shared/data/goldens/quantised";

struct Case {
  const char* name;
  bool sampled;  // runs in every `make test`; the others under FLARE_TEST_FULL
  // Which value of expected.json a kept artifact gives where it has that key, else f32.
  const char* kept = "f32";
  bool has_graph = true;  // the architecture can be run
};

// One of each kind of storage runs always.
constexpr Case kCases[] = {
    {"qwen3-ct-nvfp4a16", false},
    {"qwen3-ct-nvfp4", true},
    {"qwen3_ragged-ct-nvfp4a16", true},
    {"qwen3_moe-ct-nvfp4", true, "f32", false},
    {"qwen3-ct-fp8-channel", true},
    {"qwen3-ct-fp8-tensor", true},
    {"qwen3-ct-fp8-block", false},
    {"qwen3_ragged-ct-fp8-block", true},
    {"qwen3-ct-mxfp4", true},
    {"qwen3_moe-ct-mxfp8", true, "f32", false},
    {"qwen3-ct-mixed", true},
    {"qwen3-modelopt-nvfp4", false, "through_divisor"},
    {"qwen3_moe-modelopt-nvfp4", true, "through_divisor", false},
    {"qwen3-modelopt-fp8", true},
    {"qwen3-modelopt-mxfp8", true},
    {"qwen3-modelopt-mixed", true, "through_divisor"},
    {"qwen3-fp8-block", false},
    {"qwen3_ragged-fp8-block", true},
    {"qwen3_ragged-fp8-block-ue8m0", false},
    {"qwen3-fp8-block32-e8m0", true},
    {"qwen3_moe-fp8-e8m0-mxfp4", true, "f32", false},
    {"gpt_oss-mxfp4", true, "f32", false},
    {"qwen3-ct-int8", true},
    {"qwen3-ct-w8a16", true},
    {"qwen3-ct-w4a16-g128", true},
    {"qwen3-ct-w4a16-g32", false},
    {"qwen3-ct-w4a16-g128-asym", false},
    {"qwen3-ct-w4a16-g32-asym", true},
    {"qwen3-ct-w4a16-g32-g_idx", true},
    {"qwen3_moe-ct-w4a16-g32", true, "f32", false},
    {"qwen3-awq-g128", true},
    {"qwen3_moe-awq-g32", true, "f32", false},
    {"qwen3-gptq-g128-sym", true},
    {"qwen3-gptq-g32-sym-act", true},
    {"qwen3-gptq-g32-asym", true},
    {"qwen3-gptq_v2-g128-asym-act", true},
    {"qwen3_moe-gptq-g32-sym", true, "f32", false},
};

Json read_json(const fs::path& file) { return parse_json(read_text_file(file), file.string()); }

// The name of a weight's parameter; "" for gpt-oss, whose experts are one tensor.
std::string parameter_of(std::string name) {
  if (name == "lm_head.weight") return "text/output_head";
  const auto replace = [&](std::string_view from, std::string_view to) {
    if (const size_t at = name.find(from); at != std::string::npos)
      name.replace(at, from.size(), to);
  };
  constexpr std::string_view prefix = "model.layers.";
  std::string rest = name.substr(prefix.size());
  const size_t dot = rest.find('.');
  name = rest.substr(dot + 1);
  replace(".weight", "");
  replace("self_attn.q_proj", "attention/query");
  replace("self_attn.k_proj", "attention/key");
  replace("self_attn.v_proj", "attention/value");
  replace("self_attn.o_proj", "attention/output");
  replace("mlp.experts.", "moe/experts/");
  replace(".gate_proj", "/gate");
  replace(".up_proj", "/up");
  replace(".down_proj", "/down");
  return "text/layers/" + rest.substr(0, dot) + "/" + name;
}

// The input of a parameter's use.
std::string input_of(const std::string& parameter) {
  if (parameter == "text/output_head") return "text/final_hidden";
  const size_t leaf = parameter.rfind('/') + 1;
  const std::string layer = parameter.substr(0, parameter.find('/', sizeof("text/layers/")) + 1);
  if (parameter.ends_with("attention/output")) return layer + "attention/attended";
  if (parameter.ends_with("/down")) return parameter.substr(0, leaf) + "product";
  return layer + (parameter.find("/attention/") != std::string::npos ? "mixer_input" : "ffn_input");
}

// Columns of a parameter's rows in the order of its input.
void restore_columns(prepare::ParameterSource& source, const std::string& parameter,
                     std::vector<float>& values) {
  const std::vector<int32_t> columns = source.input_columns(parameter, input_of(parameter));
  if (columns.empty()) return;
  std::vector<float> row(columns.size());
  for (size_t begin = 0; begin < values.size(); begin += row.size()) {
    for (size_t c = 0; c < row.size(); ++c)
      row[static_cast<size_t>(columns[c])] = values[begin + c];
    std::ranges::copy(row, values.begin() + static_cast<ptrdiff_t>(begin));
  }
}

// Rows of one parameter, or of every expert of gpt-oss in the order of the source.
std::vector<float> values_of(prepare::ParameterSource& source, const std::string& name,
                             const codec::Shape& shape) {
  const auto read = [&](const std::string& parameter, uint64_t rows) {
    std::vector<float> values = source.values(parameter, rows * shape.back());
    restore_columns(source, parameter, values);
    return values;
  };
  if (shape.size() == 2) return read(parameter_of(name), shape[0]);
  const bool gate_up = name.ends_with("gate_up_proj");
  const std::string layer = name.substr(std::string("model.layers.").size(), 1);
  std::vector<float> out;
  for (uint64_t e = 0; e < shape[0]; ++e) {
    const std::string expert = fmt::format("text/layers/{}/moe/experts/{}/", layer, e);
    if (!gate_up) {
      const auto down = read(expert + "down", shape[1]);
      out.insert(out.end(), down.begin(), down.end());
      continue;
    }
    const auto gate = read(expert + "gate", shape[1] / 2), up = read(expert + "up", shape[1] / 2);
    for (uint64_t r = 0; r < shape[1] / 2; ++r)
      for (const auto* half : {&gate, &up})
        out.insert(out.end(), half->begin() + static_cast<ptrdiff_t>(r * shape[2]),
                   half->begin() + static_cast<ptrdiff_t>((r + 1) * shape[2]));
  }
  return out;
}

std::string digest(std::vector<float> values) {
  for (float& value : values) value += 0.0f;  // −0 is written as +0
  return sha256_hex(std::as_bytes(std::span(values)));
}

std::string digest_bf16(const std::vector<float>& values) {
  std::vector<std::byte> words(values.size() * 2);
  for (size_t i = 0; i < values.size(); ++i)
    store_le(words.data() + 2 * i, f32_to_bf16(values[i] + 0.0f));
  return sha256_hex(words);
}

std::string text_of(const Json& weight, const char* key) {
  const Json* value = weight.find(key);
  return value != nullptr ? value->as_string() : weight.at("f32").as_string();
}

// The largest difference of logits, all in f32.
double logit_error(std::unique_ptr<prepare::ParameterSource> source,
                   const checkpoint::SafetensorsFile& expected) {
  prepare::PrepareOptions options;
  options.exact = true;
  const auto got =
      all_logits(std::move(source), token_ids(*find_tensor(expected, "b.input_ids")), options);
  const auto want = floats(*find_tensor(expected, "b.logits"));
  EXPECT_EQ(got.size(), want.size());
  double error = 0;
  for (size_t i = 0; i < got.size(); ++i)
    error = std::max<double>(error, std::fabs(got[i] - want[i]));
  return error;
}

class Quantised : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!fs::exists(kFolder)) GTEST_SKIP() << "../shared/data/goldens/quantised is absent";
    if (!GetParam().sampled && !TestMatrix::get().full)
      GTEST_SKIP() << "its kind runs with another checkpoint; FLARE_TEST_FULL=1 runs all";
  }
  static fs::path folder() { return kFolder / GetParam().name; }
};

TEST_P(Quantised, KeepsTheValuesOfItsCodesBitForBit) {
  const fs::path kept = artifact_of(folder(), "keep");
  artifact::verify(kept, 2, false, {});
  const auto artifact = prepare::open_source(kept, "", 2);
  const auto direct = prepare::open_source(folder(), "keep", 2);
  const Json weights = read_json(folder() / "expected.json");
  ASSERT_FALSE(weights.as_object().empty());
  for (const auto& [name, weight] : weights.as_object()) {
    codec::Shape shape;
    for (const Json& n : weight.at("shape").as_array()) shape.push_back(n.as_u64());
    const std::string want = text_of(weight, GetParam().kept);
    EXPECT_EQ(digest(values_of(*artifact, name, shape)), want) << name;
    EXPECT_EQ(digest(values_of(*direct, name, shape)), want) << name << ", without an artifact";
  }
}

TEST_P(Quantised, DecodesToBf16AsTheLibraries) {
  const auto artifact = prepare::open_source(artifact_of(folder(), "bf16"), "", 2);
  const Json weights = read_json(folder() / "expected.json");
  for (const auto& [name, weight] : weights.as_object()) {
    codec::Shape shape;
    for (const Json& n : weight.at("shape").as_array()) shape.push_back(n.as_u64());
    EXPECT_EQ(digest_bf16(values_of(*artifact, name, shape)), weight.at("bf16").as_string())
        << name;
  }
}

TEST_P(Quantised, GivesTheExpectedLogits) {
  if (!GetParam().has_graph) {
    EXPECT_THROW(prepare::prepare(prepare::open_source(folder(), "keep", 2), {}), Error);
    return;
  }
  const auto expected = checkpoint::SafetensorsFile::open(folder() / "expected.safetensors");
  EXPECT_LE(logit_error(prepare::open_source(folder(), "keep", 2), expected), kLogitError);
  EXPECT_LE(logit_error(prepare::open_source(artifact_of(folder(), "keep"), "", 2), expected),
            kLogitError);
}

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// docs/formats.md: integers take the widest groups that fit, and what is symmetric under fp16
// scales a format with fast kernels.
TEST(QuantisedIntegers, AreKeptInTheFormatsOfTheTable) {
  if (!fs::exists(kFolder)) GTEST_SKIP() << "../shared/data/goldens/quantised is absent";
  const struct {
    const char *folder, *format;
    bool reordered = false;  // by activation order
  } cases[] = {{"qwen3-ct-int8", "i8_row_fp32"},
               {"qwen3-ct-w8a16", "i8_row_fp32"},
               {"qwen3-ct-w4a16-g128", "q4_g128_bf16"},
               {"qwen3-ct-w4a16-g32", "q4_g32_bf16"},
               {"qwen3-ct-w4a16-g128-asym", "u4z4_g128_bf16"},
               {"qwen3-ct-w4a16-g32-asym", "u4z4_g32_bf16"},
               {"qwen3-ct-w4a16-g32-g_idx", "u4z4_g32_bf16", true},
               {"qwen3-awq-g128", "u4z4_g128_fp16"},
               {"qwen3-gptq-g128-sym", "q4_g64_fp16"},
               {"qwen3-gptq-g32-sym-act", "gguf_q4_0", true},
               {"qwen3-gptq-g32-asym", "u4z4_g32_fp16"},
               {"qwen3-gptq_v2-g128-asym-act", "u4z4_g128_fp16", false}};
  for (const auto& c : cases) {
    const auto source = prepare::open_source(kFolder / c.folder, "keep", 2);
    const std::string up = "text/layers/0/mlp/up";
    const codec::Matrix matrix = source->matrix(up, {128, 128});
    EXPECT_EQ(codec::format(matrix.segments.front().format).name, c.format) << c.folder;
    EXPECT_EQ(!source->input_columns(up, input_of(up)).empty(), c.reordered) << c.folder;
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Quantised, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace flare
