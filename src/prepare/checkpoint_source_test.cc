// Parameters read from folders: in place, transposed, encoded, refused.
#include "prepare/checkpoint_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/float_types.h"
#include "prepare/test_support.h"

namespace flare::prepare {
namespace {

using test::fs::path;

const path kNano = path(FLARE_SOURCE_DIR) / "models/nano";

TEST(CheckpointSource, ReadsStoredWordsInPlace) {
  const auto checkpoint = checkpoint::Checkpoint::open(kNano);
  CheckpointSource source(kNano, "", 1);
  const codec::Matrix matrix = source.matrix("text/token_embedding", {2048, 256});
  ASSERT_EQ(matrix.segments.size(), 1u);
  EXPECT_EQ(matrix.segments[0].format, codec::FormatId::kBf16);
  const checkpoint::Tensor* tensor = checkpoint.find("model.embed_tokens.weight");
  EXPECT_EQ(std::memcmp(matrix.segments[0].object, tensor->bytes.data(), tensor->bytes.size()), 0);
  // A tied head is the same memory.
  EXPECT_EQ(source.matrix("text/output_head", {2048, 256}).segments[0].object,
            matrix.segments[0].object);
  EXPECT_EQ(source.matrix("text/layers/2/attention/query", {256, 256}).segments.size(), 4u);
}

TEST(CheckpointSource, TransposesTheConvolution) {
  const auto checkpoint = checkpoint::Checkpoint::open(kNano);
  const checkpoint::Tensor* tensor = checkpoint.find("model.layers.0.linear_attn.conv1d.weight");
  ASSERT_EQ(tensor->shape, (std::vector<uint64_t>{512, 1, 4}));
  for (const char* recipe : {"keep", "bf16", "q4"}) {
    CheckpointSource source(kNano, recipe, 1);
    const auto values = source.values("text/layers/0/gdn/convolution", 4 * 512);
    for (size_t t = 0; t < 4; ++t)
      for (size_t c = 0; c < 512; ++c)
        ASSERT_EQ(values[t * 512 + c],
                  bf16_to_f32(load_le<uint16_t>(tensor->bytes.data() + 2 * (c * 4 + t))));
  }
}

TEST(CheckpointSource, EncodesWhenFilledAndForgetsWhatIsReleased) {
  CheckpointSource source(kNano, "q8", 2);
  const codec::Matrix up = source.matrix("text/layers/0/mlp/up", {512, 256});
  const uint64_t bytes = codec::format(up.segments[0].format).planes({512, 256}).total_bytes;
  const Bytes object(up.segments[0].object, bytes);
  const auto blank = [&] {
    return std::ranges::all_of(object, [](std::byte b) { return b == std::byte{0}; });
  };
  EXPECT_TRUE(blank());
  source.fill();
  EXPECT_FALSE(blank());
  const std::vector<std::byte> before(object.begin(), object.end());
  source.fill();
  EXPECT_TRUE(std::ranges::equal(object, before));
  constexpr uint64_t kPage = 4096;  // whole pages alone: the rest of the first stays
  source.release(object.subspan(kPage / 2));
  EXPECT_TRUE(std::ranges::equal(object.first(kPage), std::span(before).first(kPage)));
  EXPECT_EQ(object[kPage], std::byte{0});
}

TEST(CheckpointSource, EncodesATiedParameterOnce) {
  CheckpointSource source(kNano, "q4", 2);
  const codec::Matrix embedding = source.matrix("text/token_embedding", {2048, 256});
  const codec::Matrix head = source.matrix("text/output_head", {2048, 256});
  EXPECT_EQ(embedding.segments[0].format, codec::FormatId::kQ6G64);
  EXPECT_EQ(embedding.segments[0].object, head.segments[0].object);
  EXPECT_EQ(source.matrix("text/layers/0/mlp/up", {512, 256}).segments[0].format,
            codec::FormatId::kQ4G64);
}

TEST(CheckpointSource, KeepsTheBoundsOfPoliciesAndDirectFormats) {
  using graph::Policy;
  CheckpointSource keep(kNano, "keep", 1), q8(kNano, "q8", 1), direct(kNano, "direct", 1);
  const std::string up = "text/layers/0/mlp/up", input = "text/layers/0/ffn_input";
  EXPECT_EQ(keep.policy(up, input), Policy::kA16Only);
  EXPECT_EQ(direct.policy(up, input), Policy::kA16Only);
  EXPECT_EQ(q8.policy(up, input), Policy::kAllowA8);
  const std::string a = "text/layers/0/gdn/a_projection", mixer = "text/layers/0/mixer_input";
  EXPECT_EQ(q8.policy(a, mixer), Policy::kA16Only);
  EXPECT_EQ(q8.matrix(a, {8, 256}).segments[0].format, codec::FormatId::kBf16);
  EXPECT_EQ(direct.matrix("text/layers/0/gdn/a_log", {1, 8}).segments[0].format,
            codec::FormatId::kFp32);
  EXPECT_THROW(q8.policy(up, mixer), Error);
}

TEST(CheckpointSource, NamesParameterAndShapesOfAMisfit) {
  CheckpointSource source(kNano, "", 1);
  const auto message = [&](auto call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kBinding);
      return error.message();
    }
    return "no error";
  };
  const std::string wrong = message([&] { source.matrix("text/layers/0/mlp/up", {256, 512}); });
  for (const char* word : {"text/layers/0/mlp/up", "[512, 256]", "[256, 512]"})
    EXPECT_NE(wrong.find(word), std::string::npos) << wrong;
  EXPECT_NE(message([&] { source.values("text/final_norm", 7); }).find("[256]"), std::string::npos);
  EXPECT_NE(message([&] { source.matrix("text/none", {1, 1}); }).find("text/none"),
            std::string::npos);
}

TEST(CheckpointSource, FindsTheChatTemplateInTheTokenizerConfig) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder.path(), test::tiny_llama_config(), test::tiny_llama_tensors());
  EXPECT_FALSE(CheckpointSource(folder.path(), "", 1).resource("chat_template.jinja"));
  test::write_file(folder.path() / "tokenizer_config.json", R"({"chat_template":"{{ x }}"})");
  EXPECT_EQ(CheckpointSource(folder.path(), "", 1).resource("chat_template.jinja"), "{{ x }}");
  test::write_file(folder.path() / "chat_template.jinja", "file");
  EXPECT_EQ(CheckpointSource(folder.path(), "", 1).resource("chat_template.jinja"), "file");
}

TEST(OpenSource, RefusesWhatIsNoModel) {
  const test::TemporaryFolder folder;
  const auto code_of = [](const path& file, std::string_view recipe) {
    try {
      open_source(file, recipe, 1);
    } catch (const Error& error) {
      return error.code();
    }
    return Code::kInternal;
  };
  EXPECT_EQ(code_of(folder.path() / "none", ""), Code::kNotFound);
  test::write_file(folder.path() / "x.gguf", "GGUF....");
  EXPECT_EQ(code_of(folder.path() / "x.gguf", ""), Code::kSupport);
  test::write_file(folder.path() / "x.bin", "");
  EXPECT_EQ(code_of(folder.path() / "x.bin", ""), Code::kSupport);
  test::write_file(folder.path() / "x.ninfer", "");
  EXPECT_EQ(code_of(folder.path() / "x.ninfer", ""), Code::kFraming);
  EXPECT_EQ(code_of(folder.path() / "x.ninfer", "q4"), Code::kUsage);
  EXPECT_EQ(code_of(kNano, "q7"), Code::kUsage);
}

}  // namespace
}  // namespace flare::prepare
