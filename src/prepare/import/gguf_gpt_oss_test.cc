// A gpt-oss checkpoint written as a GGUF file, as converters do it, imports as the checkpoint
// itself.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/test_support.h"
#include "prepare/import/gguf_model_fixture.h"
#include "prepare/import/import.h"
#include "prepare/recipe/encode.h"

namespace flare::prepare {
namespace {

using namespace test;

constexpr uint32_t kBf16 = 30, kMxfp4 = 39;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(FLARE_SOURCE_DIR) / "../shared/data/goldens/quantised" / name;
}

std::string bytes_of(const checkpoint::Tensor& tensor) {
  return std::string(as_text(tensor.bytes));
}

// Rows first, first + step, … of `n_rows` equally long ones.
std::string rows_of(const std::string& bytes, uint64_t n_rows, uint64_t first, uint64_t step) {
  const uint64_t row = bytes.size() / n_rows;
  std::string out;
  for (uint64_t r = first; r < n_rows; r += step) out += bytes.substr(r * row, row);
  return out;
}

// 32 codes with neighbours in a byte become the first sixteen low and the others high.
std::string ggml_blocks(const std::string& codes, const std::string& scales) {
  std::string out;
  for (size_t b = 0; b < scales.size(); ++b) {
    out += scales[b];
    const auto code = [&](size_t j) {
      const auto pair = static_cast<uint8_t>(codes[16 * b + j / 2]);
      return j % 2 == 0 ? pair % 16 : pair / 16;
    };
    for (size_t j = 0; j < 16; ++j) out += static_cast<char>(code(j) | code(j + 16) << 4);
  }
  return out;
}

void add_keys(GgufBuilder& b) {
  common_keys(b, "gpt-oss");
  const std::string a = "gpt-oss.";
  b.u32(a + "block_count", 2).u32(a + "context_length", 4096).u32(a + "embedding_length", 128);
  b.u32(a + "attention.head_count", 4).u32(a + "attention.head_count_kv", 2);
  b.u32(a + "attention.key_length", 32).u32(a + "attention.value_length", 32);
  b.u32(a + "attention.sliding_window", 16).u32(a + "expert_count", 3);
  b.u32(a + "expert_used_count", 2).u32(a + "expert_feed_forward_length", 96);
  b.f32(a + "rope.freq_base", 150000).text(a + "rope.scaling.type", "yarn");
  b.f32(a + "rope.scaling.factor", 4).u32(a + "rope.scaling.original_context_length", 16);
}

class Converter {
 public:
  explicit Converter(const checkpoint::Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  GgufBuilder convert() {
    add_keys(out_);
    copy("model.embed_tokens.weight", "token_embd.weight");
    copy("model.norm.weight", "output_norm.weight");
    copy("lm_head.weight", "output.weight");
    for (const std::string i : {"0", "1"}) {
      const std::string hf = "model.layers." + i + ".", b = "blk." + i + ".";
      copy(hf + "input_layernorm.weight", b + "attn_norm.weight");
      copy(hf + "post_attention_layernorm.weight", b + "post_attention_norm.weight");
      for (const auto& [from, to] : {std::pair("q_proj", "attn_q"),
                                     {"k_proj", "attn_k"},
                                     {"v_proj", "attn_v"},
                                     {"o_proj", "attn_output"}})
        for (const char* part : {".weight", ".bias"})
          copy(hf + "self_attn." + from + part, b + to + part);
      copy(hf + "self_attn.sinks", b + "attn_sinks.weight");
      copy(hf + "mlp.router.weight", b + "ffn_gate_inp.weight");
      copy(hf + "mlp.router.bias", b + "ffn_gate_inp.bias");
      stack(hf + "mlp.experts.gate_up_proj", b + "ffn_gate_exps", 0, 2);
      stack(hf + "mlp.experts.gate_up_proj", b + "ffn_up_exps", 1, 2);
      stack(hf + "mlp.experts.down_proj", b + "ffn_down_exps", 0, 1);
    }
    return out_;
  }

 private:
  const checkpoint::Tensor& tensor(const std::string& name) const {
    const checkpoint::Tensor* found = checkpoint_.find(name);
    if (found == nullptr) throw Error(Code::kBinding, "no {}", name);
    return *found;
  }
  void copy(const std::string& from, const std::string& to) {
    out_.tensor(to, tensor(from).shape, kBf16, bytes_of(tensor(from)));
  }
  // Rows first, first + step, … of every expert.
  void stack(const std::string& from, const std::string& to, uint64_t first, uint64_t step) {
    const checkpoint::Tensor &blocks = tensor(from + "_blocks"), &bias = tensor(from + "_bias");
    const uint64_t n = blocks.shape[0], rows = blocks.shape[1], cols = 32 * blocks.shape[2];
    const auto some = [&](const checkpoint::Tensor& t) {
      return rows_of(bytes_of(t), n * rows, first, step);
    };
    out_.tensor(to + ".weight", {n, rows / step, cols}, kMxfp4,
                ggml_blocks(some(blocks), some(tensor(from + "_scales"))));
    out_.tensor(to + ".bias", {n, rows / step}, kBf16, some(bias));
  }

  const checkpoint::Checkpoint& checkpoint_;
  GgufBuilder out_;
};

TEST(GgufGptOss, ImportsAsTheCheckpointThatItWasMadeFrom) {
  const auto checkpoint = checkpoint::Checkpoint::open(golden("gpt_oss-mxfp4"));
  const TemporaryFolder folder;
  const auto file = checkpoint::Checkpoint::open(
      folder.write("model.gguf", Converter(checkpoint).convert().bytes()));
  const ImportedModel wanted = import_checkpoint(checkpoint, {"text"}),
                      got = import_checkpoint(file, {"text"});
  const ImportedComponent &a = wanted.components.at(0), &b = got.components.at(0);
  EXPECT_EQ(b.config.to_text(), a.config.to_text());
  EXPECT_EQ(b.packing, a.packing);
  ASSERT_EQ(b.parameters.size(), a.parameters.size());
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    const ImportedParameter &x = a.parameters[i], &y = b.parameters[i];
    ASSERT_EQ(y.name, x.name);
    ASSERT_EQ(y.shape, x.shape) << x.name;
    EXPECT_EQ(y.kind, x.kind) << x.name;
    EXPECT_EQ(y.inputs, x.inputs) << x.name;
    EXPECT_EQ(kept_format(y), kept_format(x)) << x.name;
    const codec::Geometry geometry = geometry_of(x);
    std::vector<float> from_x(geometry.rows * geometry.cols), from_y(from_x.size());
    read_rows(x, 0, geometry.rows, from_x.data());
    read_rows(y, 0, geometry.rows, from_y.data());
    EXPECT_EQ(from_y, from_x) << x.name;
  }
}

}  // namespace
}  // namespace flare::prepare
