// Integer weights of random words, packed field by field for every tool's layout: their values, and
// the words that they become; and checkpoints with something wrong.
#include "prepare/import/quantised/integer_storage.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include "base/float_types.h"
#include "prepare/import/quantised/altered_fixture.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;
using checkpoint::Tensor;
using codec::FormatId;

// How a tool lays out codes and zero points.
enum class Tool { kPacked, kInt8, kGptq, kAwq };

struct Case {
  Tool tool;
  int bits;
  bool zeros;  // zero points of every group, else the middle
  DType scale;
  uint64_t group;  // 0: the row
  FormatId format;
  bool ordered = false;  // groups of columns at random
};
constexpr Case kCases[] = {
    {Tool::kPacked, 4, false, DType::kBf16, 32, FormatId::kQ4G32Bf16},
    {Tool::kPacked, 4, false, DType::kBf16, 64, FormatId::kQ4G64Bf16},
    {Tool::kPacked, 4, false, DType::kBf16, 128, FormatId::kQ4G128Bf16},
    {Tool::kPacked, 4, false, DType::kBf16, 256, FormatId::kQ4G128Bf16},
    {Tool::kPacked, 4, false, DType::kBf16, 0, FormatId::kQ4G128Bf16},
    {Tool::kPacked, 4, false, DType::kF16, 64, FormatId::kQ4G64},
    {Tool::kPacked, 4, false, DType::kF16, 0, FormatId::kQ4G64},
    {Tool::kPacked, 4, false, DType::kF16, 32, FormatId::kGgufQ4_0},
    {Tool::kPacked, 4, true, DType::kF32, 32, FormatId::kU4G32Bf16},
    {Tool::kPacked, 4, true, DType::kBf16, 32, FormatId::kU4G32Bf16, true},
    {Tool::kPacked, 8, false, DType::kBf16, 32, FormatId::kI8G32Bf16},
    {Tool::kPacked, 8, false, DType::kF16, 128, FormatId::kGgufQ8_0},
    {Tool::kPacked, 8, false, DType::kF16, 0, FormatId::kI8RowFp32},
    {Tool::kPacked, 8, true, DType::kBf16, 64, FormatId::kU8G32Bf16},
    {Tool::kInt8, 8, false, DType::kBf16, 0, FormatId::kI8RowFp32},
    {Tool::kInt8, 8, false, DType::kF32, 0, FormatId::kI8RowFp32},
    {Tool::kInt8, 8, true, DType::kBf16, 0, FormatId::kU8G32Bf16},
    {Tool::kGptq, 4, false, DType::kF16, 128, FormatId::kQ4G64},
    {Tool::kGptq, 4, false, DType::kF16, 32, FormatId::kGgufQ4_0, true},
    {Tool::kGptq, 4, true, DType::kF16, 64, FormatId::kU4G64Fp16},
    {Tool::kGptq, 4, true, DType::kF16, 128, FormatId::kU4G128Fp16, true},
    {Tool::kGptq, 8, false, DType::kF16, 64, FormatId::kGgufQ8_0},
    {Tool::kGptq, 8, true, DType::kF16, 32, FormatId::kU8G32Fp16, true},
    {Tool::kAwq, 4, true, DType::kF16, 32, FormatId::kU4G32Fp16},
    {Tool::kAwq, 4, true, DType::kF16, 0, FormatId::kU4G128Fp16},
};

constexpr uint64_t kRows = 24, kCols = 256;

// The words of one weight, and tensors that hold them.
class Weight {
 public:
  explicit Weight(const Case& c) : case_(c), random_(11) {
    groups_ = c.group == 0 ? 1 : kCols / c.group;
    const int range = 1 << c.bits;
    for (unsigned& u : codes_) u = random_() % static_cast<unsigned>(range);
    zeros_.assign(kRows * groups_, static_cast<unsigned>(range / 2));
    if (c.zeros)
      for (unsigned& z : zeros_) z = random_() % static_cast<unsigned>(range);
    zeros_[3] = c.zeros ? 0 : zeros_[3];  // less one it borrows from its neighbours
    for (uint64_t i = 0; i < kRows * groups_; ++i)
      scales_.push_back(std::ldexp(1 + (random_() % 128) / 128.0f, static_cast<int>(i % 9) - 6));
    group_of_.resize(kCols);
    for (uint64_t k = 0; k < kCols; ++k)
      group_of_[k] = c.group == 0 ? 0 : static_cast<uint32_t>(k / c.group);
    if (c.ordered) std::shuffle(group_of_.begin(), group_of_.end(), random_);
  }

  float value(uint64_t r, uint64_t k) const {
    const uint64_t at = r * groups_ + group_of_[k];
    return scales_[at] * static_cast<float>(static_cast<int>(codes_[r * kCols + k]) -
                                            static_cast<int>(zeros_[at]));
  }

  std::shared_ptr<const EncodedSource> source() {
    IntegerParts parts{.bits = case_.bits, .group_size = case_.group};
    if (case_.ordered) parts.group_of = group_of_;
    const auto code = [&](uint64_t r, uint64_t k) { return codes_[r * kCols + k]; };
    const auto zero = [&](uint64_t r, uint64_t g) { return zeros_[r * groups_ + g]; };
    const uint64_t per = 32 / static_cast<uint64_t>(case_.bits);
    const auto straight = [](uint64_t i) { return i; };
    switch (case_.tool) {
      case Tool::kPacked:
        pack(codes_tensor_, kRows, kCols / per, straight, per, code);
        parts.layout = IntegerLayout::kAlongColumns;
        parts.zero_layout = IntegerLayout::kAlongRows;
        pack_turned(zeros_tensor_, kRows / per, groups_, per, zero);
        break;
      case Tool::kInt8:
        parts.layout = parts.zero_layout = IntegerLayout::kSigned8;
        bytes(codes_tensor_, kRows, kCols, code);
        bytes(zeros_tensor_, kRows, groups_, zero);
        break;
      case Tool::kGptq: {
        parts.layout = parts.zero_layout = IntegerLayout::kInputMajor;
        pack_turned(codes_tensor_, kCols / per, kRows, per,
                    [&](uint64_t k, uint64_t r) { return code(r, k); });
        pack(zeros_tensor_, groups_, kRows / per, straight, per,
             [&](uint64_t g, uint64_t r) { return zero(r, g); });
        parts.raise_zeros = case_.bits == 4 ? 0x11111111u : 0x01010101u;
        for (size_t at = 0; at < zeros_tensor_.bytes.size(); at += 4)  // as GPTQModel does
          store_le(zeros_memory().data() + at,
                   load_le<uint32_t>(zeros_memory().data() + at) - parts.raise_zeros);
        break;
      }
      case Tool::kAwq: {
        parts.layout = parts.zero_layout = IntegerLayout::kAwq;
        const auto shuffled = [](uint64_t n) {
          constexpr uint64_t kColumnOf[8] = {0, 2, 4, 6, 1, 3, 5, 7};
          return kColumnOf[n];
        };
        pack(codes_tensor_, kCols, kRows / 8, shuffled, 8,
             [&](uint64_t k, uint64_t r) { return code(r, k); });
        pack(zeros_tensor_, groups_, kRows / 8, shuffled, 8,
             [&](uint64_t g, uint64_t r) { return zero(r, g); });
        break;
      }
    }
    parts.scales_by_group = case_.tool == Tool::kGptq || case_.tool == Tool::kAwq;
    make_scales(parts.scales_by_group);
    parts.codes = &codes_tensor_;
    parts.scales = &scales_tensor_;
    const bool always = case_.tool == Tool::kGptq || case_.tool == Tool::kAwq;
    if (case_.zeros || always) parts.zeros = &zeros_tensor_;
    return make_integer_source({.name = "w", .geometry = {kRows, kCols}}, std::move(parts));
  }
  Tensor& scales_tensor() { return scales_tensor_; }
  std::vector<std::byte>& scales_memory() { return memory_[2]; }

 private:
  using Field = std::function<unsigned(uint64_t, uint64_t)>;
  using Place = std::function<uint64_t(uint64_t)>;
  std::vector<std::byte>& zeros_memory() { return memory_[1]; }
  std::vector<std::byte>& memory_of(const Tensor& tensor) {
    return memory_[&tensor == &codes_tensor_ ? 0 : &tensor == &zeros_tensor_ ? 1 : 2];
  }
  void finish(Tensor& tensor, DType type, codec::Shape shape) {
    tensor.dtype = type;
    tensor.shape = std::move(shape);
    tensor.bytes = memory_of(tensor);
  }
  // Words [major, words]: field n of word w is (major, per·w + place(n)).
  void pack(Tensor& tensor, uint64_t majors, uint64_t words, const Place& place, uint64_t per,
            const Field& field) {
    std::vector<std::byte>& memory = memory_of(tensor);
    memory.resize(majors * words * 4);
    for (uint64_t m = 0; m < majors; ++m)
      for (uint64_t w = 0; w < words; ++w) {
        uint32_t word = 0;
        for (uint64_t n = 0; n < per; ++n) word |= field(m, per * w + place(n)) << 32 / per * n;
        store_le(&memory[(m * words + w) * 4], word);
      }
    finish(tensor, DType::kI32, {majors, words});
  }
  // Words [words, minors]: field n of a word is (per·w + n, minor).
  void pack_turned(Tensor& tensor, uint64_t words, uint64_t minors, uint64_t per,
                   const Field& field) {
    std::vector<std::byte>& memory = memory_of(tensor);
    memory.resize(words * minors * 4);
    for (uint64_t w = 0; w < words; ++w)
      for (uint64_t m = 0; m < minors; ++m) {
        uint32_t word = 0;
        for (uint64_t n = 0; n < per; ++n) word |= field(per * w + n, m) << 32 / per * n;
        store_le(&memory[(w * minors + m) * 4], word);
      }
    finish(tensor, DType::kI32, {words, minors});
  }
  void bytes(Tensor& tensor, uint64_t rows, uint64_t cols, const Field& field) {
    std::vector<std::byte>& memory = memory_of(tensor);
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < cols; ++c)
        memory.push_back(static_cast<std::byte>(static_cast<int>(field(r, c)) - 128));
    finish(tensor, DType::kI8, {rows, cols});
  }
  void make_scales(bool by_group) {
    std::vector<std::byte>& memory = memory_[2];
    const uint64_t size = case_.scale == DType::kF32 ? 4 : 2;
    memory.resize(kRows * groups_ * size);
    for (uint64_t r = 0; r < kRows; ++r)
      for (uint64_t g = 0; g < groups_; ++g) {
        std::byte* to = &memory[(by_group ? g * kRows + r : r * groups_ + g) * size];
        const float scale = scales_[r * groups_ + g];
        if (case_.scale == DType::kF32) store_le(to, scale);
        if (case_.scale == DType::kF16) store_le(to, f32_to_fp16(scale));
        if (case_.scale == DType::kBf16) store_le(to, f32_to_bf16(scale));
      }
    finish(scales_tensor_, case_.scale,
           by_group ? codec::Shape{groups_, kRows} : codec::Shape{kRows, groups_});
  }

  Case case_;
  std::mt19937 random_;
  uint64_t groups_;
  std::vector<unsigned> codes_ = std::vector<unsigned>(kRows * kCols);
  std::vector<unsigned> zeros_;
  std::vector<float> scales_;
  std::vector<uint32_t> group_of_;
  std::vector<std::byte> memory_[3];
  Tensor codes_tensor_, zeros_tensor_, scales_tensor_;
};

// Rows of the source as its format has them, in two pieces, and checked by it.
std::vector<std::byte> copied(const EncodedSource& source) {
  const codec::Format& format = codec::format(source.facts().formats.at(0));
  const codec::Planes planes = format.planes({kRows, kCols});
  std::vector<std::byte> object(planes.total_bytes);
  for (const auto& [row, n] : {std::pair<uint64_t, uint64_t>{0, 13}, {13, kRows - 13}}) {
    PlaneRows rows;
    for (int p = 0; p < planes.count; ++p)
      rows.plane[p] = object.data() + planes.plane[p].offset + row * planes.plane[p].row_bytes;
    source.copy_rows(format.id, row, n, rows);
  }
  format.validate(object.data(), {kRows, kCols}, 0, kRows);
  codec::validate_gaps(format, {kRows, kCols}, object);
  return object;
}

TEST(IntegerStorage, GivesEveryToolsWordsAsNumbersAndInTheirFormat) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(&c - kCases);
    Weight weight(c);
    const auto source = weight.source();
    ASSERT_EQ(source->facts().formats, std::vector{c.format}) << source->facts().unkept;
    std::vector<float> values(7 * kCols);
    source->read_rows(9, 7, values.data());
    for (uint64_t i = 0; i < 7; ++i)
      for (uint64_t k = 0; k < kCols; ++k)
        ASSERT_EQ(values[i * kCols + k], weight.value(9 + i, k)) << i << " " << k;
    const std::vector<std::byte> object = copied(*source);
    const std::vector<int32_t>& columns = source->facts().input_columns;
    ASSERT_EQ(columns.empty(), !c.ordered);
    std::vector<float> row(kCols);
    for (uint64_t r = 0; r < kRows; ++r) {
      codec::format(c.format).decode(object.data(), {kRows, kCols}, r, 0, kCols, row.data());
      for (uint64_t k = 0; k < kCols; ++k)
        ASSERT_EQ(row[k], weight.value(r, columns.empty() ? k : static_cast<uint64_t>(columns[k])))
            << r << " " << k;
    }
  }
}

TEST(IntegerStorage, WhatNoFormatHoldsIsDecodedAndSaysWhy) {
  Weight narrow({Tool::kPacked, 4, false, DType::kBf16, 16, {}});
  EXPECT_TRUE(narrow.source()->facts().formats.empty());
  EXPECT_NE(narrow.source()->facts().unkept.find("groups of 16"), std::string::npos);
  // Two groups of 128 that g_idx makes 127 and 129.
  Tensor codes, scales;
  std::vector<std::byte> words(8 * 256 / 2), scale_words(8 * 2 * 2);
  codes = {.dtype = DType::kI32, .shape = {8, 32}, .bytes = words};
  scales = {.dtype = DType::kBf16, .shape = {8, 2}, .bytes = scale_words};
  IntegerParts parts{.codes = &codes, .scales = &scales, .group_size = 128};
  for (uint32_t k = 0; k < 256; ++k) parts.group_of.push_back(k < 127 ? 0 : 1);
  const auto uneven = make_integer_source({.name = "w", .geometry = {8, 256}}, parts);
  EXPECT_TRUE(uneven->facts().formats.empty());
  EXPECT_NE(uneven->facts().unkept.find("g_idx"), std::string::npos) << uneven->facts().unkept;
}

TEST(IntegerStorage, GroupsWithoutAScaleAreZeros) {
  Weight weight({Tool::kGptq, 4, false, DType::kF16, 64, FormatId::kQ4G64});
  const auto source = weight.source();
  store_le<uint16_t>(&weight.scales_memory()[2 * 5], 0x8000);  // −0 of group 0, row 5
  std::vector<float> row(kCols);
  source->read_rows(5, 1, row.data());
  EXPECT_EQ(std::accumulate(row.begin(), row.begin() + 64, 0.0f), 0);
  const std::vector<std::byte> object = copied(*source);  // valid: +0 over codes of 0
  codec::format(FormatId::kQ4G64).decode(object.data(), {kRows, kCols}, 5, 0, 64, row.data());
  EXPECT_EQ(std::accumulate(row.begin(), row.begin() + 64, 0.0f), 0);
  store_le<uint16_t>(&weight.scales_memory()[2 * (kRows + 5)], 0x7c00);
  const Error error =
      error_of([&] { source->read_rows(0, 6, std::vector<float>(6 * kCols).data()); });
  EXPECT_EQ(error.code(), Code::kValue);
  EXPECT_NE(error.message().find("row 5 and group 1 is inf"), std::string::npos) << error.message();
}

// ---- checkpoints

using test::Altered;

const std::string kUp = "model.layers.0.mlp.up_proj.";

struct Broken {
  const char* golden;
  std::function<void(Altered&)> alter;
  Code code;
  std::vector<std::string> words;
};

void expect_refused(const Broken& broken) {
  const Error error = test::build_error(broken.golden, broken.alter);
  EXPECT_EQ(code_name(error.code()), code_name(broken.code)) << error.message();
  for (const std::string& word : broken.words)
    EXPECT_NE(error.message().find(word), std::string::npos) << word << " in " << error.message();
}

std::function<void(Altered&)> without(const std::string& tensor) {
  return [=](Altered& a) { a.drop(kUp + tensor); };
}
std::function<void(Altered&)> with_type(const std::string& tensor, DType type) {
  return [=](Altered& a) { a.tensor(kUp + tensor).dtype = type; };
}
std::function<void(Altered&)> with_shape(const std::string& tensor, codec::Shape shape) {
  return [=](Altered& a) { a.tensor(kUp + tensor).shape = shape; };
}
std::function<void(Altered&)> with_word(const std::string& tensor, uint64_t index, int32_t word) {
  return [=](Altered& a) { store_le(&a.tensor(kUp + tensor).bytes[4 * index], word); };
}
std::function<void(Altered&)> with_key(const std::string& key, Json value) {
  return [=](Altered& a) { a.quantisation().set(key, value); };
}
Json& member(Json& object, std::string_view key) {
  for (auto& [name, value] : object.mutable_object())
    if (name == key) return value;
  throw Error(Code::kInternal, "no member {}", key);
}
// Of the weights of the config's only group.
std::function<void(Altered&)> with_weights(const std::string& key, Json value) {
  return [=](Altered& a) {
    Json& group = member(member(a.quantisation(), "config_groups"), "group_0");
    member(group, "weights").set(key, value);
  };
}

bool no_goldens() { return !test::fs::exists(test::quantised_golden("")); }

TEST(IntegerCheckpoints, OfCompressedTensorsAreRefusedWithTheNameOfWhatIsWrong) {
  if (no_goldens()) GTEST_SKIP() << "../shared/data/goldens/quantised is absent";
  const char *asymmetric = "qwen3-ct-w4a16-g32-asym", *symmetric = "qwen3-ct-w4a16-g32";
  const Broken cases[] = {
      {asymmetric, without("weight_scale"), Code::kBinding, {kUp + "weight_scale"}},
      {asymmetric, without("weight_zero_point"), Code::kBinding, {kUp + "weight_zero_point"}},
      {asymmetric, without("weight_shape"), Code::kBinding, {kUp + "weight_shape"}},
      {asymmetric,
       with_type("weight_packed", DType::kF32),
       Code::kSupport,
       {kUp + "weight_packed", "F32", "I32"}},
      {asymmetric,
       with_shape("weight_packed", {64, 32}),
       Code::kBinding,
       {kUp + "weight_packed", "[64, 32]", "[128, 16]"}},
      {asymmetric,
       with_shape("weight_zero_point", {4, 16}),
       Code::kBinding,
       {kUp + "weight_zero_point", "[4, 16]", "[16, 4]"}},
      {asymmetric,
       with_word("weight_shape", 0, 64),
       Code::kBinding,
       {kUp + "weight_shape", "64", "128"}},
      {"qwen3-ct-w4a16-g32-g_idx",
       with_word("weight_g_idx", 7, 4),
       Code::kValue,
       {kUp + "weight_g_idx", "column 7", "is 4", "0 … 3"}},
      {"qwen3-ct-w4a16-g32-g_idx", without("weight_g_idx"), Code::kBinding, {kUp + "weight_g_idx"}},
      // Infinity in the scale of row 0, group 0; the word holds two scales.
      {symmetric,
       with_word("weight_scale", 0, 0x3f807f80),
       Code::kValue,
       {kUp + "weight_scale", "row 0 and group 0", "inf"}},
      {symmetric, with_weights("num_bits", 3), Code::kSupport, {"num_bits", "'3'", "4 or 8"}},
      {symmetric, with_weights("group_size", 48), Code::kBinding, {"128 columns", "group_size 48"}},
      {symmetric, with_weights("strategy", "block"), Code::kSupport, {"strategy", "block"}},
      {symmetric, with_weights("type", "float"), Code::kSupport, {"type", "float", "int"}},
  };
  for (const Broken& broken : cases) {
    SCOPED_TRACE(&broken - cases);
    expect_refused(broken);
  }
}

TEST(IntegerCheckpoints, OfGptqAndAwqAreRefusedWithTheNameOfWhatIsWrong) {
  if (no_goldens()) GTEST_SKIP() << "../shared/data/goldens/quantised is absent";
  const char *gptq = "qwen3-gptq-g32-sym-act", *awq = "qwen3-awq-g128";
  const Broken cases[] = {
      {gptq,
       with_word("g_idx", 100, -5),
       Code::kValue,
       {kUp + "g_idx", "column 100", "is -5", "0 … 3"}},
      {gptq, without("g_idx"), Code::kBinding, {kUp + "g_idx"}},
      {gptq, without("qzeros"), Code::kBinding, {kUp + "qzeros"}},
      {gptq, with_type("scales", DType::kI16), Code::kSupport, {kUp + "scales", "I16", "F16"}},
      {gptq, with_key("bits", 3), Code::kSupport, {"'bits' is 3", "4 and 8"}},
      {gptq,
       with_key("checkpoint_format", "marlin"),
       Code::kSupport,
       {"checkpoint_format", "marlin"}},
      {gptq, with_key("group_size", 64), Code::kBinding, {"qzeros", "[4, 32]", "[2, 32]"}},
      {gptq,
       with_key("dynamic", Json::object({{"x", Json::object({})}})),
       Code::kSupport,
       {"dynamic"}},
      {awq, with_key("bits", 8), Code::kSupport, {"'bits' is 8", "only 4"}},
      {awq, with_key("version", "gemv"), Code::kSupport, {"version", "gemv"}},
      {awq, with_key("zero_point", false), Code::kSupport, {"zero_point", "false"}},
      {awq, with_key("group_size", 96), Code::kBinding, {"128 columns", "multiple of 96"}},
      {awq, without("scales"), Code::kBinding, {kUp + "scales"}},
      {awq,
       with_shape("qweight", {64, 32}),
       Code::kBinding,
       {kUp + "qweight", "[64, 32]", "[128, 16]"}},
  };
  for (const Broken& broken : cases) {
    SCOPED_TRACE(&broken - cases);
    expect_refused(broken);
  }
}

}  // namespace
}  // namespace flare::prepare
