// MXFP4 and PQ2_0 tensors of GGUF files: their values by loops from the definitions, the words they
// become, the orders that import restores, and refusals by file, tensor, row and column.
#include "prepare/import/gguf_repacked.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/test_support.h"
#include "codec/format.h"
#include "codec/matrix.h"
#include "prepare/checkpoint_source.h"
#include "prepare/import/gguf_model_fixture.h"
#include "prepare/recipe/build.h"
#include "prepare/recipe/verify_deep.h"

namespace flare::prepare {
namespace {

using namespace test;
using codec::FormatId;

constexpr uint32_t kMxfp4 = 39, kPq2 = 142;
constexpr uint64_t kWidth = 256, kHead = 64;

// The definitions, value by value: ggml has the integers 2·E2M1 and half the scale.
float mxfp4_value(const std::string& block, uint64_t j) {
  constexpr int kTwice[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const auto pair = static_cast<uint8_t>(block[1 + j % 16]);
  const auto scale = static_cast<uint8_t>(block[0]);
  return std::ldexp(static_cast<float>(kTwice[j < 16 ? pair % 16 : pair / 16]), scale - 128);
}

// Of a normal fp16 scale.
float pq2_value(const std::string& block, uint64_t j) {
  const int word = static_cast<uint8_t>(block[0]) + 256 * static_cast<uint8_t>(block[1]);
  const float d = std::ldexp(static_cast<float>(1024 + word % 1024), word / 1024 % 32 - 25);
  int code = static_cast<uint8_t>(block[2 + j / 4]);
  for (uint64_t i = 0; i < j % 4; ++i) code /= 4;
  return (word >= 0x8000 ? -d : d) * static_cast<float>(code % 4 - 1);
}

// Numbers that look random, the same each time.
class Dice {
 public:
  explicit Dice(uint32_t seed) : state_(seed) {}
  uint32_t below(uint32_t n) {
    state_ = state_ * 1664525 + 1013904223;
    return (state_ >> 8) % n;
  }

 private:
  uint32_t state_;
};

std::string mxfp4_block(Dice& dice) {
  std::string block(1, static_cast<char>(120 + dice.below(8)));
  for (int i = 0; i < 16; ++i) block += static_cast<char>(dice.below(256));
  return block;
}

std::string pq2_block(Dice& dice) {
  GgufBytes bytes;
  bytes.number(static_cast<uint16_t>(dice.below(2) * 0x8000 + 0x2000 + dice.below(0x1000)));
  for (int i = 0; i < 32; ++i) {
    uint32_t four = 0;
    for (int j = 0; j < 4; ++j) four = 4 * four + dice.below(3);
    bytes.number(static_cast<uint8_t>(four));
  }
  return bytes.all();
}

// A tensor as a file has it, and its values row by row.
struct Stored {
  std::string bytes;
  std::vector<float> values;
};

Stored random_tensor(uint32_t type, uint64_t rows, uint64_t cols, uint32_t seed) {
  Dice dice(seed);
  Stored out;
  const uint64_t width = type == kMxfp4 ? 32 : 128;
  for (uint64_t b = 0; b < rows * cols / width; ++b) {
    const std::string block = type == kMxfp4 ? mxfp4_block(dice) : pq2_block(dice);
    for (uint64_t j = 0; j < width; ++j)
      out.values.push_back(type == kMxfp4 ? mxfp4_value(block, j) : pq2_value(block, j));
    out.bytes += block;
  }
  return out;
}

struct Matrix {
  const char *gguf, *parameter;
  uint32_t type;
  uint64_t rows;
  uint64_t head_rows = 0;  // of heads stored in pairs of neighbours
};
constexpr Matrix kMatrices[] = {
    {"token_embd.weight", "text/token_embedding", kMxfp4, 4},
    {"output.weight", "text/output_head", kPq2, 4},
    {"blk.0.attn_q.weight", "text/layers/0/attention/query", kPq2, 256, kHead},
    {"blk.0.attn_k.weight", "text/layers/0/attention/key", kMxfp4, 64, kHead},
    {"blk.0.attn_v.weight", "text/layers/0/attention/value", kPq2, 64},
    {"blk.0.attn_output.weight", "text/layers/0/attention/output", kMxfp4, 256},
    {"blk.0.ffn_gate.weight", "text/layers/0/mlp/gate", kMxfp4, 256},
    {"blk.0.ffn_up.weight", "text/layers/0/mlp/up", kPq2, 256},
    {"blk.0.ffn_down.weight", "text/layers/0/mlp/down", kPq2, 256},
};

Stored stored(const Matrix& m) { return random_tensor(m.type, m.rows, kWidth, 1 + m.gguf[6]); }

GgufBuilder both_types() {
  GgufBuilder b = tiny_llama();
  b.u32("llama.embedding_length", kWidth).u32("llama.feed_forward_length", kWidth);
  b.u32("llama.attention.head_count", kWidth / kHead);
  for (const char* norm : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"})
    f32_tensor(b, norm, {kWidth}, 1);
  for (const Matrix& m : kMatrices) b.tensor(m.gguf, {m.rows, kWidth}, m.type, stored(m).bytes);
  return b;
}

// Row p·d/2 + j of a head of d rows is stored as row 2j + p (quantised_checkpoints.md §8.3).
uint64_t stored_row(const Matrix& m, uint64_t row) {
  if (m.head_rows == 0) return row;
  const uint64_t in_head = row % m.head_rows, half = m.head_rows / 2;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

void expect_values(const Matrix& m, const std::vector<float>& got) {
  const Stored want = stored(m);
  ASSERT_EQ(got.size(), want.values.size());
  for (uint64_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], want.values[stored_row(m, i / kWidth) * kWidth + i % kWidth])
        << m.gguf << " row " << i / kWidth << " column " << i % kWidth;
}

std::vector<float> decoded(const codec::Matrix& matrix) {
  std::vector<float> out(matrix.rows * matrix.cols);
  for (uint64_t row = 0; row < matrix.rows; ++row)
    codec::decode_row(matrix, row, &out[row * matrix.cols]);
  return out;
}

TEST(GgufRepacked, EveryTensorOfAModelHasTheValuesOfItsBlocks) {
  const TemporaryFolder folder;
  const auto file = folder.write("model.gguf", both_types().bytes());
  CheckpointSource kept(file, "", 1);
  for (const Matrix& m : kMatrices) {
    expect_values(m, kept.values(m.parameter, m.rows * kWidth));
    const codec::Matrix matrix = kept.matrix(m.parameter, {m.rows, kWidth});
    for (const codec::Segment& s : matrix.segments)
      EXPECT_EQ(s.format, m.type == kMxfp4 ? FormatId::kMxfp4 : FormatId::kT2G128) << m.gguf;
    expect_values(m, decoded(matrix));
  }
  CheckpointSource cast(file, "bf16", 1);
  for (const Matrix& m : kMatrices)
    if (m.type == kMxfp4) expect_values(m, cast.values(m.parameter, m.rows * kWidth));
}

TEST(GgufRepacked, AnArtifactHoldsTheSameWords) {
  const TemporaryFolder folder;
  const auto file = folder.write("model.gguf", both_types().bytes());
  build_artifact(file, folder / "model.ninfer", {.recipe = "keep"});
  EXPECT_NO_THROW(verify_deep(folder / "model.ninfer", file, 1, {}));
}

// One tensor alone.
class One {
 public:
  One(checkpoint::DType dtype, std::string bytes, codec::Geometry g)
      : bytes_(std::move(bytes)), geometry_(g) {
    tensor_.name = "w";
    tensor_.dtype = dtype;
    tensor_.shape = {g.rows, g.cols};
    tensor_.bytes = std::as_bytes(std::span(bytes_));
    source_ = open_repacked(tensor_, "model.gguf: tensor 'w'", g);
  }
  const EncodedSource& source() const { return *source_; }
  std::vector<float> values(const EncodedSource& source) const {
    std::vector<float> out(geometry_.rows * geometry_.cols);
    source.read_rows(0, geometry_.rows, out.data());
    return out;
  }
  // The object as an artifact has it.
  std::vector<std::byte> object(const EncodedSource& source) const {
    const codec::Format& format = codec::format(source.facts().formats.front());
    const codec::Planes planes = format.planes(geometry_);
    std::vector<std::byte> out(planes.total_bytes);
    PlaneRows to;
    for (int p = 0; p < planes.count; ++p) to.plane[p] = out.data() + planes.plane[p].offset;
    source.copy_rows(format.id, 0, geometry_.rows, to);
    format.validate(out.data(), geometry_, 0, geometry_.rows);
    return out;
  }
  std::vector<float> copied_values(const EncodedSource& source) const {
    const std::vector<std::byte> words = object(source);
    std::vector<float> out;
    for (uint64_t r = 0; r < geometry_.rows; ++r) {
      out.resize((r + 1) * geometry_.cols);
      codec::format(source.facts().formats.front())
          .decode(words.data(), geometry_, r, 0, geometry_.cols, &out[r * geometry_.cols]);
    }
    return out;
  }
  // Both ways of reading refuse.
  void expect_refused(const std::vector<std::string>& parts) const {
    for (const bool copies : {false, true}) {
      const Error error =
          error_of([&] { copies ? (void)object(*source_) : (void)values(*source_); });
      EXPECT_EQ(code_name(error.code()), code_name(Code::kValue)) << error.message();
      for (const std::string& part : parts)
        EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  }

 private:
  std::string bytes_;
  codec::Geometry geometry_;
  checkpoint::Tensor tensor_;
  std::shared_ptr<const EncodedSource> source_;
};

std::string mxfp4_block(uint8_t scale, const std::vector<int>& codes) {
  std::string block(17, '\0');
  block[0] = static_cast<char>(scale);
  for (size_t j = 0; j < 32; ++j)
    block[1 + j % 16] = static_cast<char>(block[1 + j % 16] | codes[j] << (j < 16 ? 0 : 4));
  return block;
}

TEST(GgufMxfp4, EveryCodeUnderEveryScaleThatHasNumbers) {
  std::vector<int> all(32);
  for (int j = 0; j < 32; ++j) all[j] = j * 7 % 16;
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  for (int scale = 0; scale <= 254; ++scale) {
    std::vector<int> codes = all;
    if (scale == 254)  // 2·2^127 is beyond binary32
      for (int& code : codes) code = code % 8 > 3 ? code % 4 : code;
    if (scale == 253)
      for (int& code : codes) code = code % 8 > 5 ? 5 : code;
    const One one(checkpoint::DType::kMxfp4, mxfp4_block(static_cast<uint8_t>(scale), codes),
                  {1, 32});
    const std::vector<float> got = one.values(one.source()),
                             copied = one.copied_values(one.source());
    for (size_t j = 0; j < 32; ++j) {
      const double want = std::ldexp(static_cast<double>(values[codes[j]]), scale - 127);
      ASSERT_EQ(got[j], want) << scale << " " << codes[j];
      ASSERT_EQ(std::signbit(got[j]), codes[j] > 7);
      ASSERT_EQ(copied[j], want) << scale << " " << codes[j];
    }
  }
}

TEST(GgufMxfp4, WordsAreThoseOfTheFormat) {
  std::vector<int> codes(32);
  for (int j = 0; j < 32; ++j) codes[j] = j % 16;
  const One one(checkpoint::DType::kMxfp4, mxfp4_block(130, codes), {1, 32});
  const std::vector<std::byte> object = one.object(one.source());
  for (int i = 0; i < 16; ++i)  // neighbours in a byte
    EXPECT_EQ(std::to_integer<int>(object[static_cast<size_t>(i)]),
              codes[2 * i] | codes[2 * i + 1] << 4);
  EXPECT_EQ(object[256], std::byte{130});
}

TEST(GgufMxfp4, WhatIsNoNumberIsRefused) {
  const std::string good = mxfp4_block(127, std::vector<int>(32, 3));
  std::vector<int> codes(32, 1);
  const codec::Geometry g{2, 64};
  One(checkpoint::DType::kMxfp4, good + good + good + mxfp4_block(255, codes), g)
      .expect_refused({"model.gguf", "'w'", "row 1 column 32", "scale 255", "0..254"});
  codes[20] = 12;
  One(checkpoint::DType::kMxfp4, good + mxfp4_block(254, codes) + good + good, g)
      .expect_refused({"model.gguf", "'w'", "row 0 column 52", "code 12", "exceeds binary32"});
}

std::string pq2_block(uint16_t scale, const std::vector<int>& codes) {
  std::string block(34, '\0');
  block[0] = static_cast<char>(scale % 256);
  block[1] = static_cast<char>(scale / 256);
  for (size_t j = 0; j < 128; ++j)
    block[2 + j / 4] = static_cast<char>(block[2 + j / 4] | codes[j] << 2 * (j % 4));
  return block;
}

TEST(GgufPq2, ScalesStayAndCodesTurnIntoTwosComplement) {
  std::vector<int> codes(128);
  for (int j = 0; j < 128; ++j) codes[j] = j * j % 3;
  const struct {
    uint16_t word;
    double value;
  } scales[] = {
      {0x3C00, 1}, {0xC000, -2}, {0x0001, 0x1p-24}, {0x7BFF, 65504}, {0x3555, 1365 / 4096.0}};
  for (const auto& scale : scales) {
    const One one(checkpoint::DType::kPq2_0, pq2_block(scale.word, codes), {1, 128});
    const std::vector<float> got = one.values(one.source()),
                             copied = one.copied_values(one.source());
    const std::vector<std::byte> object = one.object(one.source());
    for (size_t j = 0; j < 128; ++j) {
      ASSERT_EQ(got[j], scale.value * (codes[j] - 1));
      ASSERT_EQ(copied[j], got[j]);
      constexpr int kWords[] = {3, 0, 1};  // −1, 0, 1
      ASSERT_EQ(std::to_integer<int>(object[j / 4]) >> 2 * (j % 4) & 3, kWords[codes[j]]);
    }
    EXPECT_EQ(load_le<uint16_t>(&object[256]), scale.word);
  }
  const One zero(checkpoint::DType::kPq2_0, pq2_block(0, std::vector<int>(128, 1)), {1, 128});
  EXPECT_EQ(zero.copied_values(zero.source()), std::vector<float>(128, 0.0f));
}

TEST(GgufPq2, WhatTheFormatForbidsIsRefused) {
  const std::string good = pq2_block(0x3C00, std::vector<int>(128, 2));
  const codec::Geometry g{2, 256};
  const auto refused = [&](const std::string& bad, const std::vector<std::string>& parts) {
    const One one(checkpoint::DType::kPq2_0, good + good + good + bad, g);
    one.expect_refused({"model.gguf", "'w'"});
    one.expect_refused(parts);
  };
  std::vector<int> codes(128, 0);
  for (const uint16_t word : {0x7C00, 0xFC00, 0x7E01, 0x8000})
    refused(pq2_block(word, codes), {"row 1 column 128", fmt::format("0x{:04X}", word)});
  codes[77] = 3;
  refused(pq2_block(0x3C00, codes), {"row 1 column 205", "code 3"});
  codes.assign(128, 1);
  codes[5] = 2;
  refused(pq2_block(0, codes), {"row 1 column 133", "code 2 under scale 0"});
}

TEST(GgufRepacked, ColumnsMoveInWholeBlocksOrKeepTheirPlaces) {
  for (const auto dtype : {checkpoint::DType::kMxfp4, checkpoint::DType::kPq2_0}) {
    const uint32_t type = dtype == checkpoint::DType::kMxfp4 ? kMxfp4 : kPq2;
    const uint64_t rows = 3, cols = 512, unit = 128;
    const Stored tensor = random_tensor(type, rows, cols, 5);
    const One one(dtype, tensor.bytes, {rows, cols});
    const std::vector<Columns> order = {{256, 384}, {0, 256}, {384, 512}};
    const auto moved = reorder_repacked(one.source(), order);
    ASSERT_NE(moved, nullptr);
    const std::vector<float> got = one.values(*moved);
    constexpr uint64_t kFrom[] = {2, 0, 1, 3};
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < cols; ++c)
        ASSERT_EQ(got[r * cols + c], tensor.values[r * cols + kFrom[c / unit] * unit + c % unit]);
    EXPECT_EQ(one.copied_values(*moved), got);

    // What is no whole block stays where it is, with the places of its columns.
    const auto kept = reorder_repacked(one.source(), {{16, cols}, {0, 16}});
    const std::vector<float> turned = one.values(*kept);
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < cols; ++c) {
        ASSERT_EQ(turned[r * cols + c], tensor.values[r * cols + (c + 16) % cols]);
        ASSERT_EQ(kept->facts().input_columns[(c + 16) % cols], static_cast<int32_t>(c));
      }
    EXPECT_EQ(one.copied_values(*kept), tensor.values);
  }
}

// Value heads of a DeltaNet that are as wide as a block, or half as wide.
TEST(GgufRepacked, OutputsOfDeltaNetsAreRegrouped) {
  for (const uint64_t dv : {uint64_t{128}, uint64_t{64}}) {
    const uint64_t cols = kNv * dv;
    const Stored tensor = random_tensor(kPq2, 8, cols, 9);
    GgufBuilder b = qwen35_without_output(1, dv);
    b.tensor("blk.0.ssm_out.weight", {8, cols}, kPq2, tensor.bytes);
    const TemporaryFolder folder;
    CheckpointSource source(folder.write("model.gguf", b.bytes()), "", 1);
    const std::string name = "text/layers/0/gdn/output";
    const std::vector<float> got = source.values(name, 8 * cols);
    // Place c of the kept words is column [c] of the input.
    const std::vector<int32_t> places =
        source.input_columns(name, "text/layers/0/gdn/gated_output");
    EXPECT_EQ(places.empty(), dv == 128);
    for (uint64_t row = 0; row < 8; ++row)
      for (uint64_t c = 0; c < cols; ++c) {
        const uint64_t in = places.empty() ? c : static_cast<uint64_t>(places[c]);
        ASSERT_EQ(got[row * cols + c], tensor.values[row * cols + tiled(in / dv) * dv + in % dv])
            << dv << " " << row << " " << c;
      }
    const auto matrix = source.matrix(name, {8, cols});
    EXPECT_EQ(matrix.segments.front().format, FormatId::kT2G128);
  }
}

TEST(GgufRepacked, VectorsAreNeitherAndShapesAreWholeBlocks) {
  const TemporaryFolder folder;
  GgufBuilder b = both_types();
  b.tensor("blk.0.attn_norm.weight", {kWidth}, kMxfp4, std::string(kWidth / 32 * 17, '\0'));
  const auto file = folder.write("model.gguf", b.bytes());
  const Error vector = error_of([&] { CheckpointSource(file, "", 1); });
  EXPECT_EQ(vector.code(), Code::kSupport);
  EXPECT_NE(vector.message().find("'blk.0.attn_norm.weight' is MXFP4"), std::string::npos)
      << vector.message();
  const std::string bytes(34, '\0');
  const Error shape = error_of([&] { One(checkpoint::DType::kPq2_0, bytes, {128, 1}); });
  EXPECT_EQ(shape.code(), Code::kBinding);
  EXPECT_NE(shape.message().find("a multiple of 128"), std::string::npos) << shape.message();
}

TEST(GgufRepacked, ABadBlockGoesIntoNoArtifact) {
  const TemporaryFolder folder;
  for (const Matrix& m : {kMatrices[2], kMatrices[3]}) {
    GgufBuilder b = both_types();
    std::string bytes = stored(m).bytes;
    const uint64_t row_bytes = m.type == kMxfp4 ? kWidth / 32 * 17 : kWidth / 128 * 34;
    bytes[3 * row_bytes + 1] = '\x7F';  // PQ2_0: no finite scale
    if (m.type == kMxfp4) bytes[3 * row_bytes] = '\xFF';
    b.tensor(m.gguf, {m.rows, kWidth}, m.type, bytes);
    const auto file = folder.write("model.gguf", b.bytes());
    const Error error =
        error_of([&] { build_artifact(file, folder / "model.ninfer", {.recipe = "keep"}); });
    EXPECT_EQ(error.code(), Code::kValue);
    for (const std::string part : {"model.gguf", m.gguf, "row 3 column 0"})
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    EXPECT_FALSE(std::filesystem::exists(folder / "model.ninfer"));
  }
}

}  // namespace
}  // namespace flare::prepare
