// MXFP4, NVFP4, ternary and binary tensors of GGUF files: their values by loops from the
// definitions, the words they become, the orders that import restores, and refusals by file,
// tensor, row and column.
#include "prepare/import/gguf_repacked.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/hash/sha256.h"
#include "base/test_support.h"
#include "codec/format.h"
#include "codec/matrix.h"
#include "prepare/checkpoint_source.h"
#include "prepare/import/gguf_model_fixture.h"
#include "prepare/import/import.h"
#include "prepare/recipe/build.h"
#include "prepare/recipe/verify_deep.h"

namespace flare::prepare {
namespace {

using namespace test;
using codec::FormatId;

constexpr uint32_t kTq1 = 34, kTq2 = 35, kMxfp4 = 39, kNvfp4 = 40, kQ1 = 41, kPq2 = 142;
constexpr uint64_t kWidth = 256, kHead = 64;

// Values of a block, its bytes and what they become.
struct BlockType {
  uint32_t id;
  checkpoint::DType dtype;
  FormatId format;
  uint64_t values, bytes;
};
constexpr BlockType kTypes[] = {
    {kMxfp4, checkpoint::DType::kMxfp4, FormatId::kMxfp4, 32, 17},
    {kNvfp4, checkpoint::DType::kNvfp4, FormatId::kNvfp4Rows, 64, 36},
    {kPq2, checkpoint::DType::kPq2_0, FormatId::kT2G128, 128, 34},
    {kTq1, checkpoint::DType::kTq1_0, FormatId::kT2G128, 256, 54},
    {kTq2, checkpoint::DType::kTq2_0, FormatId::kT2G128, 256, 66},
    {kQ1, checkpoint::DType::kQ1_0, FormatId::kT2G128, 128, 18},
};
const BlockType& type_of(uint32_t id) {
  for (const BlockType& type : kTypes)
    if (type.id == id) return type;
  throw Error(Code::kInvalid, "no type {}", id);
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

// A tensor as a file has it, and its values row by row.
struct Stored {
  std::string bytes;
  std::vector<float> values;
};

// ggml has the integers 2·E2M1 and half the scale.
constexpr int kTwiceE2m1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void add_mxfp4(Dice& dice, Stored& out) {
  const uint32_t scale = 120 + dice.below(8);
  std::string block(17, static_cast<char>(scale));
  for (int i = 0; i < 16; ++i) block[1 + i] = static_cast<char>(dice.below(256));
  for (int j = 0; j < 32; ++j) {
    const auto pair = static_cast<uint8_t>(block[1 + j % 16]);
    out.values.push_back(std::ldexp(static_cast<float>(kTwiceE2m1[j < 16 ? pair % 16 : pair / 16]),
                                    static_cast<int>(scale) - 128));
  }
  out.bytes += block;
}

// Bits 3..6 of a scale are its exponent, 0 for those without a leading one.
float e4m3_value(uint32_t word) {
  const int exponent = static_cast<int>(word / 8), mantissa = static_cast<int>(word % 8);
  return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                       : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

void add_nvfp4(Dice& dice, Stored& out) {
  std::string block;
  for (int i = 0; i < 4; ++i) block += static_cast<char>(dice.below(0x7f));
  for (int i = 0; i < 32; ++i) block += static_cast<char>(dice.below(256));
  for (int sixteen = 0; sixteen < 4; ++sixteen)
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < 8; ++i) {
        const auto pair = static_cast<uint8_t>(block[4 + 8 * sixteen + i]);
        out.values.push_back(0.5f * e4m3_value(static_cast<uint8_t>(block[sixteen])) *
                             static_cast<float>(kTwiceE2m1[half == 0 ? pair % 16 : pair / 16]));
      }
  out.bytes += block;
}

// A normal fp16 number: its two bytes and its value.
struct Half {
  std::string bytes;
  float value;
};
Half random_half(Dice& dice) {
  const auto word = static_cast<uint16_t>(dice.below(2) * 0x8000 + 0x2000 + dice.below(0x1000));
  const float d = std::ldexp(static_cast<float>(1024 + word % 1024), word / 1024 % 32 - 25);
  return {GgufBytes().number(word).all(), word >= 0x8000 ? -d : d};
}

// What the digits 0..2 (or 0 and 2 alone) of a block are packed into, by the words of the formats'
// makers: PQ2_0 has four neighbours in a byte; TQ2_0 four that lie 32 apart; TQ1_0 five as a number
// of base 3, times 256/243 and rounded up; Q1_0 eight neighbours.
std::string packed_digits(uint32_t type, const std::vector<int>& digits) {
  const auto at = [&](size_t i) { return i < digits.size() ? digits[i] : 0; };
  std::string out;
  if (type == kPq2)
    for (size_t i = 0; i < 128; i += 4)
      out += static_cast<char>(at(i) + 4 * at(i + 1) + 16 * at(i + 2) + 64 * at(i + 3));
  if (type == kTq2)
    for (size_t half = 0; half < 256; half += 128)
      for (size_t i = half; i < half + 32; ++i)
        out += static_cast<char>(at(i) + 4 * at(i + 32) + 16 * at(i + 64) + 64 * at(i + 96));
  const auto base3 = [&](size_t first, size_t apart, size_t n) {
    int number = 0;
    for (size_t i = 0; i < 5; ++i) number = 3 * number + (i < n ? at(first + i * apart) : 0);
    out += static_cast<char>((number * 256 + 242) / 243);
  };
  if (type == kTq1) {
    for (size_t i = 0; i < 32; ++i) base3(i, 32, 5);
    for (size_t i = 160; i < 176; ++i) base3(i, 16, 5);
    for (size_t i = 240; i < 244; ++i) base3(i, 4, 4);
  }
  if (type == kQ1)
    for (size_t i = 0; i < 128; i += 8) {
      int byte = 0;
      for (size_t bit = 0; bit < 8; ++bit) byte += at(i + bit) / 2 << bit;
      out += static_cast<char>(byte);
    }
  return out;
}

// A block of these digits under the scale, which stands behind them in TQ1_0 and TQ2_0.
std::string digit_block(uint32_t type, const std::string& scale, const std::vector<int>& digits) {
  const std::string packed = packed_digits(type, digits);
  return type == kTq1 || type == kTq2 ? packed + scale : scale + packed;
}

void add_digits(uint32_t type, Dice& dice, Stored& out) {
  const Half scale = random_half(dice);
  std::vector<int> digits;
  for (uint64_t j = 0; j < type_of(type).values; ++j) {
    digits.push_back(static_cast<int>(type == kQ1 ? 2 * dice.below(2) : dice.below(3)));
    out.values.push_back(scale.value * static_cast<float>(digits.back() - 1));
  }
  out.bytes += digit_block(type, scale.bytes, digits);
}

Stored random_tensor(uint32_t type, uint64_t rows, uint64_t cols, uint32_t seed) {
  Dice dice(seed);
  Stored out;
  for (uint64_t b = 0; b < rows * cols / type_of(type).values; ++b) {
    if (type == kMxfp4)
      add_mxfp4(dice, out);
    else if (type == kNvfp4)
      add_nvfp4(dice, out);
    else
      add_digits(type, dice, out);
  }
  return out;
}

struct Matrix {
  const char *gguf, *parameter;
  uint32_t type;
  FormatId format;
  uint64_t rows;
  uint64_t head_rows = 0;  // of heads stored in pairs of neighbours
};
constexpr Matrix kMatrices[] = {
    {"token_embd.weight", "text/token_embedding", kMxfp4, FormatId::kMxfp4, 4},
    {"output.weight", "text/output_head", kQ1, FormatId::kT2G128, 4},
    {"blk.0.attn_q.weight", "text/layers/0/attention/query", kPq2, FormatId::kT2G128, 256, kHead},
    {"blk.0.attn_k.weight", "text/layers/0/attention/key", kMxfp4, FormatId::kMxfp4, 64, kHead},
    {"blk.0.attn_v.weight", "text/layers/0/attention/value", kTq1, FormatId::kT2G128, 64},
    {"blk.0.attn_output.weight", "text/layers/0/attention/output", kTq2, FormatId::kT2G128, 256},
    {"blk.0.ffn_gate.weight", "text/layers/0/mlp/gate", kNvfp4, FormatId::kNvfp4, 256},
    {"blk.0.ffn_up.weight", "text/layers/0/mlp/up", kMxfp4, FormatId::kMxfp4, 256},
    {"blk.0.ffn_down.weight", "text/layers/0/mlp/down", kPq2, FormatId::kT2G128, 256},
};

Stored stored(const Matrix& m) { return random_tensor(m.type, m.rows, kWidth, 1 + m.gguf[6]); }

GgufBuilder all_types() {
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
  const auto file = folder.write("model.gguf", all_types().bytes());
  CheckpointSource kept(file, "", 1);
  for (const Matrix& m : kMatrices) {
    expect_values(m, kept.values(m.parameter, m.rows * kWidth));
    const codec::Matrix matrix = kept.matrix(m.parameter, {m.rows, kWidth});
    for (const codec::Segment& s : matrix.segments) EXPECT_EQ(s.format, m.format) << m.gguf;
    expect_values(m, decoded(matrix));
  }
  CheckpointSource cast(file, "bf16", 1);
  for (const Matrix& m : kMatrices)
    if (m.type == kMxfp4) expect_values(m, cast.values(m.parameter, m.rows * kWidth));
}

TEST(GgufRepacked, AnArtifactHoldsTheSameWords) {
  const TemporaryFolder folder;
  const auto file = folder.write("model.gguf", all_types().bytes());
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
    const codec::Format& format = codec::format(source.facts().formats.back());
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
      codec::format(source.facts().formats.back())
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

// Bytes and digests of §18.10 in artifact.md, the values those of llama.cpp's Python package gguf
// 0.19 (−0 as +0); bytes that hold the code 3 lose their upper bits.
TEST(GgufRepacked, ValuesAreThoseOfAnotherReader) {
  const auto pattern = [](size_t n) {
    std::string bytes;
    for (size_t i = 0; i < n; ++i) bytes += static_cast<char>((37 * i + 11) % 256);
    return bytes;
  };
  std::string tq1 = pattern(54), tq2 = pattern(66), nvfp4 = pattern(36);
  tq1.replace(52, 2, std::string("\0\x34", 2));
  for (char& c : tq2) {
    const auto byte = static_cast<uint8_t>(c);
    if ((byte & byte >> 1 & 0x55) != 0) c = static_cast<char>(byte & 0x55);
  }
  tq2.replace(64, 2, std::string("\0\x34", 2));
  nvfp4.replace(0, 4, std::string("\0\x38\x07\x7E", 4));
  const struct {
    uint32_t type;
    const std::string& block;
    const char* sha256;
  } cases[] = {{kTq1, tq1, "2bfbf3754d64d1708c723a4f191a5050"},
               {kTq2, tq2, "065cd136c2f55f576fa2c0b0f7e7fd87"},
               {kNvfp4, nvfp4, "f144e0be8cd298141b472ad34a6fefd3"}};
  for (const auto& c : cases) {
    const BlockType& type = type_of(c.type);
    const One one(type.dtype, c.block, {1, type.values});
    for (std::vector<float> values : {one.values(one.source()), one.copied_values(one.source())}) {
      for (float& v : values) v += 0.0f;
      EXPECT_EQ(sha256_hex(std::as_bytes(std::span(values))).substr(0, 32), c.sha256) << c.type;
    }
  }
}

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

std::string digit_block(uint32_t type, uint16_t scale, const std::vector<int>& digits) {
  return digit_block(type, GgufBytes().number(scale).all(), digits);
}

TEST(GgufTernary, ScalesStayAndCodesTurnIntoTwosComplement) {
  const struct {
    uint16_t word;
    double value;
  } scales[] = {
      {0x3C00, 1}, {0xC000, -2}, {0x0001, 0x1p-24}, {0x7BFF, 65504}, {0x3555, 1365 / 4096.0}};
  for (const uint32_t type : {kPq2, kTq1, kTq2, kQ1}) {
    const uint64_t n = type_of(type).values;
    std::vector<int> digits(n);
    for (size_t j = 0; j < n; ++j)
      digits[j] = static_cast<int>(type == kQ1 ? j * j % 3 % 2 * 2 : j * j * j / 2 % 3);
    for (const auto& scale : scales) {
      const One one(type_of(type).dtype, digit_block(type, scale.word, digits), {1, n});
      const std::vector<float> got = one.values(one.source()),
                               copied = one.copied_values(one.source());
      const std::vector<std::byte> object = one.object(one.source());
      for (size_t j = 0; j < n; ++j) {
        ASSERT_EQ(got[j], scale.value * (digits[j] - 1)) << type << " " << j;
        ASSERT_EQ(copied[j], got[j]);
        constexpr int kWords[] = {3, 0, 1};  // −1, 0, 1
        ASSERT_EQ(std::to_integer<int>(object[j / 4]) >> 2 * (j % 4) & 3, kWords[digits[j]]);
      }
      for (size_t group = 0; group < n / 128; ++group)
        EXPECT_EQ(load_le<uint16_t>(&object[256 + 2 * group]), scale.word);
    }
    // Under scale 0 every code is 0; a binary type has none but loses nothing.
    const std::vector<int> zeros(n, type == kQ1 ? 2 : 1);
    const One zero(type_of(type).dtype, digit_block(type, uint16_t{0}, zeros), {1, n});
    EXPECT_EQ(zero.copied_values(zero.source()), std::vector<float>(n, 0.0f));
  }
}

TEST(GgufTernary, WhatTheFormatForbidsIsRefused) {
  for (const uint32_t type : {kPq2, kTq1, kTq2, kQ1}) {
    const uint64_t n = type_of(type).values;
    const auto refused = [&](uint16_t scale, const std::vector<int>& digits, uint64_t column,
                             const std::string& what) {
      const std::string good = digit_block(type, 0x3C00, std::vector<int>(n, 2));
      const One one(type_of(type).dtype, good + good + good + digit_block(type, scale, digits),
                    {2, 2 * n});
      one.expect_refused({"model.gguf", "'w'", fmt::format("row 1 column {}", n + column), what});
    };
    std::vector<int> digits(n, 0);
    for (const uint16_t word : {0x7C00, 0xFC00, 0x7E01, 0x8000})
      refused(word, digits, 0, fmt::format("0x{:04X}", word));
    if (type == kQ1) continue;
    digits[77] = 3;
    if (type != kTq1) refused(0x3C00, digits, 77, "code 3");  // base 3 has none
    digits.assign(n, 1);
    digits[5] = 2;
    refused(0, digits, 5, "code 2 under scale 0");
  }
}

TEST(GgufNvfp4, EveryCodeUnderEveryScaleThatIsANumber) {
  for (int scale = 0; scale < 0x7f; ++scale) {
    std::string block(4, static_cast<char>(scale));
    for (int i = 0; i < 32; ++i) block += static_cast<char>(37 * i + 11);
    const One one(checkpoint::DType::kNvfp4, block, {1, 64});
    const std::vector<float> got = one.values(one.source()),
                             copied = one.copied_values(one.source());
    for (size_t j = 0; j < 64; ++j) {
      const auto pair = static_cast<uint8_t>(block[4 + 8 * (j / 16) + j % 8]);
      const int code = j % 16 < 8 ? pair % 16 : pair / 16;
      const float want =
          0.5f * e4m3_value(static_cast<uint32_t>(scale)) * static_cast<float>(kTwiceE2m1[code]);
      ASSERT_EQ(got[j], want) << scale << " " << j;
      ASSERT_EQ(copied[j], want) << scale << " " << j;
    }
  }
  for (const int scale : {0x7f, 0x80, 0xff}) {
    std::string blocks(2 * 36, '\0');
    blocks[36 + 2] = static_cast<char>(scale);
    One(checkpoint::DType::kNvfp4, blocks, {1, 128})
        .expect_refused({"'w'", "row 0 column 96", fmt::format("scale 0x{:02X}", scale)});
  }
}

// What values are multiplied with besides stands in tensors of its own: ".scale" counts, and an
// ".input_scale" is told to be of no use.
TEST(GgufNvfp4, TheScaleOfATensorBecomesItsDivisor) {
  const TemporaryFolder folder;
  GgufBuilder b = all_types();
  const std::string name = "text/layers/0/mlp/gate";
  const auto with = [&](const GgufBytes& scale, uint64_t n = 1) {
    b.tensor("blk.0.ffn_gate.scale", {n}, kF32, scale.all());
    return folder.write("model.gguf", b.bytes());
  };
  b.tensor("blk.0.ffn_gate.input_scale", {1}, kF32, GgufBytes().number(2.0f).all());
  const Stored want = stored(kMatrices[6]);
  for (const float scale : {0.25f, 0.3f}) {
    const auto file = with(GgufBytes().number(scale));
    CheckpointSource kept(file, "", 1);
    EXPECT_EQ(kept.matrix(name, {256, kWidth}).segments.front().format, FormatId::kNvfp4);
    const std::vector<float> got = kept.values(name, 256 * kWidth);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want.values[i] / (1 / scale)) << i;
    const auto checkpoint = checkpoint::Checkpoint::open(file);
    const ImportedModel model = import_checkpoint(checkpoint, {"text"});
    EXPECT_EQ(model.notes, std::vector<std::string>{"1 tensors with input scales are not used"});
    const auto& source = model.find("text")->find(name)->pieces.front().encoded;
    EXPECT_EQ(source->facts().rounded.empty(), scale == 0.25f);
    std::vector<float> read(256 * kWidth);
    source->read_rows(0, 256, read.data());
    for (size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], want.values[i] * scale) << i;
    build_artifact(file, folder / "model.ninfer", {.recipe = "keep", .force = true});
    EXPECT_NO_THROW(verify_deep(folder / "model.ninfer", file, 1, {}));
  }
  for (const float scale : {0.0f, -1.0f, 1e38f, 1e-45f, NAN, INFINITY}) {
    const auto file = with(GgufBytes().number(scale));
    const Error error = error_of([&] { CheckpointSource(file, "", 1); });
    EXPECT_EQ(error.code(), Code::kValue) << scale;
    EXPECT_NE(error.message().find("'blk.0.ffn_gate.scale': number 0 is"), std::string::npos)
        << error.message();
  }
  const Error shape =
      error_of([&] { CheckpointSource(with(GgufBytes().number(1.0f).number(2.0f), 2), "", 1); });
  EXPECT_EQ(shape.code(), Code::kBinding);
}

TEST(GgufRepacked, ColumnsMoveInWholeBlocksOrKeepTheirPlaces) {
  for (const BlockType& type : kTypes) {
    const uint64_t rows = 3, unit = type.values, cols = 4 * unit;
    const Stored tensor = random_tensor(type.id, rows, cols, 5);
    const One one(type.dtype, tensor.bytes, {rows, cols});
    const std::vector<Columns> order = {{2 * unit, 3 * unit}, {0, 2 * unit}, {3 * unit, 4 * unit}};
    const auto moved = reorder_repacked(one.source(), order);
    ASSERT_NE(moved, nullptr);
    const std::vector<float> got = one.values(*moved);
    constexpr uint64_t kFrom[] = {2, 0, 1, 3};
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < cols; ++c)
        ASSERT_EQ(got[r * cols + c], tensor.values[r * cols + kFrom[c / unit] * unit + c % unit])
            << type.id;
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

constexpr uint32_t kQ2 = 42;

// Blocks of codes that count up, under the scales given: of Q2_0, and of Q8_0 in -127 .. 127.
std::string plain_blocks(uint32_t type, const std::vector<uint16_t>& scales) {
  GgufBytes out;
  uint32_t i = 0;
  for (const uint16_t scale : scales) {
    out.number(scale);
    for (int byte = 0; byte < (type == kQ2 ? 16 : 32); ++byte, ++i)
      out.number(type == kQ2 ? static_cast<uint8_t>(37 * i + 11)
                             : static_cast<uint8_t>(static_cast<int>(i * 31 % 255) - 127));
  }
  return out.all();
}

// Rows of 192 columns end in the middle of a pair of groups of the formats: §7.2.
TEST(GgufTakenOver, Q2AndQ8HaveTheWordsOfTheirFormatsAndItsPadding) {
  const std::vector<uint16_t> scales = {0x3C00, 0x4000, 0xB800, 0x8000, 0x3400, 0x3555};
  const std::string q2 = plain_blocks(kQ2, scales);
  const One two(checkpoint::DType::kQ2_0, q2, {2, 192});
  const std::vector<float> values = two.values(two.source());
  EXPECT_EQ(two.copied_values(two.source()), values);  // and validate() accepts the padding
  const float factors[] = {1, 2, -0.5f, -0.0f, 0.25f, 1365 / 4096.0f};
  for (size_t i = 0; i < values.size(); ++i) {
    const auto four = static_cast<uint8_t>(q2[18 * (i / 64) + 2 + i % 64 / 4]);
    const int code = four / (1 << 2 * (i % 4)) % 4;
    ASSERT_EQ(values[i], factors[i / 64] * static_cast<float>(code - 1)) << i;
  }
  std::vector<uint16_t> more = scales;
  more[3] = 0x2800;
  more.insert(more.end(), scales.begin(), scales.begin() + 3);
  more.push_back(0xC200);
  const std::string q8 = plain_blocks(kQ8_0, more);
  const One eight(checkpoint::DType::kQ8_0, q8, {2, 160});
  const std::vector<float> wide = eight.values(eight.source());
  EXPECT_EQ(eight.copied_values(eight.source()), wide);
  for (size_t j = 0; j < 32; ++j) {
    const auto code = static_cast<int8_t>(q8[2 + j]);
    ASSERT_EQ(wide[j], static_cast<float>(code));
    ASSERT_EQ(wide[32 + j], 2 * static_cast<float>(static_cast<int8_t>(q8[36 + j])));
  }
}

TEST(GgufTakenOver, WhatTheFormatsForbidIsRefused) {
  for (const uint16_t word : {0x7C00, 0xFC00, 0x7E01})
    One(checkpoint::DType::kQ2_0, plain_blocks(kQ2, {0x3C00, word}), {1, 128})
        .expect_refused({"'w'", "row 0 column 64", fmt::format("0x{:04X}", word)});
  for (const uint16_t word : {0x7C00, 0x8000})
    One(checkpoint::DType::kQ8_0, plain_blocks(kQ8_0, {0x3C00, word}), {1, 64})
        .expect_refused({"'w'", "row 0 column 32", fmt::format("0x{:04X}", word)});
  std::string blocks = plain_blocks(kQ8_0, {0x3C00, 0x3C00});
  blocks[34 + 2 + 7] = '\x80';
  One(checkpoint::DType::kQ8_0, blocks, {1, 64}).expect_refused({"row 0 column 39", "code -128"});
  One(checkpoint::DType::kQ8_0, plain_blocks(kQ8_0, {0}), {1, 32})
      .expect_refused({"row 0 column 0", "code -127 under scale 0"});
}

// A rule asks for them; the order of columns that import restores is kept.
TEST(GgufTakenOver, RulesPutTheWordsIntoAnArtifact) {
  const TemporaryFolder folder;
  const auto build = [&](const GgufBuilder& b, const std::string& rules) {
    const auto file = folder.write("model.gguf", b.bytes());
    const auto made = folder / "model.ninfer";
    BuildOptions options{.recipe = "keep", .force = true};
    options.overrides = folder.write("rules.toml", rules);
    const BuildReport report = build_artifact(file, made, options);
    verify_deep(made, file, 1, {});
    return report;
  };
  GgufBuilder b = all_types();
  b.tensor("blk.0.ffn_up.weight", {256, kWidth}, kQ2,
           plain_blocks(kQ2, std::vector<uint16_t>(1024, 0xB800)));
  const BuildReport two = build(b, "[\"*/mlp/up\"]\nformat = \"q2_g64_fp16\"\n");
  EXPECT_NE(std::ranges::find(two.notes, "1 weights of GGUF Q2_0 are kept as q2_g64_fp16"),
            two.notes.end());
  CheckpointSource plain(folder / "model.gguf", "", 1);
  const auto made = open_source(folder / "model.ninfer", "", 1);
  const std::string up = "text/layers/0/mlp/up", output = "text/layers/0/gdn/output";
  EXPECT_EQ(made->matrix(up, {256, kWidth}).segments.front().format, FormatId::kQ2G64);
  EXPECT_EQ(made->values(up, 256 * kWidth), plain.values(up, 256 * kWidth));

  const std::string rule = "[\"*/gdn/output\"]\nformat = \"q8\"\nencoder = \"import_encoded\"\n";
  const BuildReport eight = build(tiny_qwen35(), rule);
  EXPECT_NE(std::ranges::find(eight.notes, "1 weights of GGUF Q8_0 are kept as q8_g32_fp16"),
            eight.notes.end());
  CheckpointSource stored(folder / "model.gguf", "", 1);
  const auto taken = open_source(folder / "model.ninfer", "", 1);
  EXPECT_EQ(taken->matrix(output, {8, kValues}).segments.front().format, FormatId::kQ8G32);
  EXPECT_EQ(taken->values(output, 8 * kValues), stored.values(output, 8 * kValues));

  // Other types are refused as before.
  const Error error =
      error_of([&] { build(all_types(), "[\"*/mlp/down\"]\nformat = \"q2_g64_fp16\"\n"); });
  EXPECT_EQ(error.code(), Code::kUsage);
  EXPECT_NE(error.message().find("never encoded from numbers"), std::string::npos);
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
  GgufBuilder b = all_types();
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
    GgufBuilder b = all_types();
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
