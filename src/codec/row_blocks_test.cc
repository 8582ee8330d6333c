// row_blocks_v1: objects packed a second time, field by field, from checkpoints that other programs
// wrote and from random words; the MX encoders against a checkpoint written by OCP's rule;
// validity.
#include "codec/row_blocks.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/test_support.h"
#include "codec/golden_tensors.h"
#include "codec/test_oracle.h"

namespace flare::codec {
namespace {

std::filesystem::path golden_folder() {
  return std::filesystem::path(FLARE_SOURCE_DIR) / "../shared/data/goldens/quantised";
}

// docs/formats.md a second time: what each format's fields are.
struct Fields {
  FormatId id;
  int code_bits, zero_bits, scale_bytes;
  uint64_t group;  // 0: the row
  bool divisor = false;
};
constexpr Fields kFields[] = {
    {FormatId::kMxfp4, 4, 0, 1, 32},           {FormatId::kMxfp8, 8, 0, 1, 32},
    {FormatId::kFp8G32, 8, 0, 4, 32},          {FormatId::kFp8G128, 8, 0, 4, 128},
    {FormatId::kNvfp4Rows, 4, 0, 1, 16, true}, {FormatId::kQ4G32Bf16, 4, 0, 2, 32},
    {FormatId::kQ4G64Bf16, 4, 0, 2, 64},       {FormatId::kQ4G128Bf16, 4, 0, 2, 128},
    {FormatId::kU4G32Bf16, 4, 4, 2, 32},       {FormatId::kU4G64Bf16, 4, 4, 2, 64},
    {FormatId::kU4G128Bf16, 4, 4, 2, 128},     {FormatId::kU4G32Fp16, 4, 4, 2, 32},
    {FormatId::kU4G64Fp16, 4, 4, 2, 64},       {FormatId::kU4G128Fp16, 4, 4, 2, 128},
    {FormatId::kI8G32Bf16, 8, 0, 2, 32},       {FormatId::kI8RowFp32, 8, 0, 4, 0},
    {FormatId::kU8G32Bf16, 8, 8, 2, 32},       {FormatId::kU8G32Fp16, 8, 8, 2, 32}};

const Fields& fields_of(FormatId id) {
  for (const Fields& f : kFields)
    if (f.id == id) return f;
  throw std::runtime_error("no such format here");
}

// What a matrix holds, field by field: word of (row, column), (row, group), (row, group), (row).
struct Content {
  std::function<unsigned(uint64_t, uint64_t)> code;
  std::function<unsigned(uint64_t, uint64_t)> zero = [](uint64_t, uint64_t) { return 0u; };
  std::function<uint32_t(uint64_t, uint64_t)> scale;
  float divisor = 1;
};

ByteVector pack(const Fields& f, Geometry g, const Content& content) {
  const uint64_t group = f.group == 0 ? g.cols : f.group, groups = (g.cols + group - 1) / group;
  const uint64_t code_row = (g.cols * static_cast<uint64_t>(f.code_bits) + 7) / 8;
  const uint64_t zero_row = (groups * static_cast<uint64_t>(f.zero_bits) + 7) / 8;
  const uint64_t scale_row = groups * static_cast<uint64_t>(f.scale_bytes);
  const uint64_t zeros = oracle_align_up(g.rows * code_row, 256);
  const uint64_t scales =
      f.zero_bits == 0 ? zeros : oracle_align_up(zeros + g.rows * zero_row, 256);
  const uint64_t divisors = oracle_align_up(scales + g.rows * scale_row, 256);
  ByteVector out(f.divisor ? divisors + 4 * g.rows : scales + g.rows * scale_row);
  const auto put = [&](uint64_t at, uint64_t i, int bits, unsigned word) {
    out[at + i * static_cast<uint64_t>(bits) / 8] |=
        static_cast<std::byte>(word << (bits == 4 ? i % 2 * 4 : 0));
  };
  for (uint64_t r = 0; r < g.rows; ++r) {
    for (uint64_t c = 0; c < g.cols; ++c) put(r * code_row, c, f.code_bits, content.code(r, c));
    for (uint64_t i = 0; i < groups; ++i) {
      if (f.zero_bits != 0) put(zeros + r * zero_row, i, f.zero_bits, content.zero(r, i));
      const uint32_t word = content.scale(r, i);
      for (int b = 0; b < f.scale_bytes; ++b)
        out[scales + r * scale_row + i * static_cast<uint64_t>(f.scale_bytes) +
            static_cast<uint64_t>(b)] = static_cast<std::byte>(word >> 8 * b);
    }
    if (f.divisor) store_le(&out[divisors + 4 * r], content.divisor);
  }
  return out;
}

// Packs the content, checks it and compares what it decodes to, −0 as +0, in one piece and in
// columns from the middle.
void expect_values(FormatId id, Geometry g, const Content& content,
                   const std::vector<float>& expected) {
  const Format& f = format(id);
  SCOPED_TRACE(f.name);
  const ByteVector object = pack(fields_of(id), g, content);
  ASSERT_EQ(object.size(), f.planes(g).total_bytes);
  ASSERT_EQ(object.size(), encoded_bytes(f, f.layout_name, {g.rows, g.cols}, 1));
  f.validate(object.data(), g, 0, g.rows);
  validate_gaps(f, g, object);
  const std::vector<float> values = decode_all(f, g, object.data());
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(values[i] + 0.0f), std::bit_cast<uint32_t>(expected[i]))
        << "row " << i / g.cols << " column " << i % g.cols;
  const uint64_t from = f.group * std::min<uint64_t>(2, (g.cols - 1) / f.group);
  std::vector<float> part(g.cols - from);
  f.decode(object.data(), g, g.rows - 1, from, part.size(), part.data());
  for (size_t i = 0; i < part.size(); ++i)
    ASSERT_EQ(part[i], values[(g.rows - 1) * g.cols + from + i]);
}

unsigned nibble(const ByteVector& bytes, uint64_t i) {
  return std::to_integer<unsigned>(bytes[i / 2]) >> (i % 2 * 4) & 15;
}

// A folder's checkpoint and what other programs read from it.
class RowBlocksGoldens : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(golden_folder())) GTEST_SKIP() << golden_folder() << " is absent";
  }
  static GoldenTensors checkpoint(const std::string& folder) {
    return GoldenTensors(golden_folder() / folder / "model.safetensors");
  }
  static std::vector<float> expected(const std::string& folder, const std::string& weight) {
    return GoldenTensors(golden_folder() / folder / "expected.safetensors").floats("w." + weight);
  }
};

const std::string kUp = "model.layers.0.mlp.up_proj.";

uint16_t word16(const ByteVector& bytes, uint64_t i) { return load_le<uint16_t>(&bytes[2 * i]); }
uint32_t word32(const ByteVector& bytes, uint64_t i) { return load_le<uint32_t>(&bytes[4 * i]); }
uint32_t byte(const ByteVector& bytes, uint64_t i) { return std::to_integer<uint32_t>(bytes[i]); }

TEST_F(RowBlocksGoldens, Mxfp4AndMxfp8HoldTheirCheckpoints) {
  const GoldenTensors four = checkpoint("qwen3-ct-mxfp4");
  const ByteVector packed = four.bytes(kUp + "weight_packed"),
                   four_scales = four.bytes(kUp + "weight_scale");
  const Geometry g{128, 128};
  expect_values(FormatId::kMxfp4, g,
                {.code = [&](auto r, auto c) { return nibble(packed, r * 128 + c); },
                 .scale = [&](auto r, auto i) { return byte(four_scales, r * 4 + i); }},
                expected("qwen3-ct-mxfp4", kUp + "weight"));
  const GoldenTensors eight = checkpoint("qwen3-modelopt-mxfp8");
  const ByteVector codes = eight.bytes(kUp + "weight"), scales = eight.bytes(kUp + "weight_scale");
  expect_values(FormatId::kMxfp8, g,
                {.code = [&](auto r, auto c) { return byte(codes, r * 128 + c); },
                 .scale = [&](auto r, auto i) { return byte(scales, r * 4 + i); }},
                expected("qwen3-modelopt-mxfp8", kUp + "weight"));
}

// A block's scale stands in each of its rows; bf16 and E8M0 words widen without loss.
TEST_F(RowBlocksGoldens, Fp8GroupsHoldBlocksOfRaggedMatrices) {
  const Geometry ragged{176, 144};
  {
    const GoldenTensors t = checkpoint("qwen3_ragged-fp8-block");
    const ByteVector codes = t.bytes(kUp + "weight"), scales = t.bytes(kUp + "weight_scale_inv");
    expect_values(FormatId::kFp8G128, ragged,
                  {.code = [&](auto r, auto c) { return byte(codes, r * 144 + c); },
                   .scale = [&](auto r, auto i) { return word32(scales, r / 128 * 2 + i); }},
                  expected("qwen3_ragged-fp8-block", kUp + "weight"));
  }
  {
    const GoldenTensors t = checkpoint("qwen3_ragged-ct-fp8-block");
    const ByteVector codes = t.bytes(kUp + "weight"), scales = t.bytes(kUp + "weight_scale");
    const auto widened = [&](uint64_t r, uint64_t i) {
      return static_cast<uint32_t>(word16(scales, r / 128 * 2 + i)) << 16;
    };
    expect_values(
        FormatId::kFp8G128, ragged,
        {.code = [&](auto r, auto c) { return byte(codes, r * 144 + c); }, .scale = widened},
        expected("qwen3_ragged-ct-fp8-block", kUp + "weight"));
  }
  const GoldenTensors t = checkpoint("qwen3-fp8-block32-e8m0");
  const ByteVector codes = t.bytes(kUp + "weight"), scales = t.bytes(kUp + "scale");
  const Content content = {.code = [&](auto r, auto c) { return byte(codes, r * 128 + c); },
                           .scale = [&](auto r, auto i) { return byte(scales, r / 32 * 4 + i); }};
  const std::vector<float> values = expected("qwen3-fp8-block32-e8m0", kUp + "weight");
  expect_values(FormatId::kMxfp8, {128, 128}, content, values);
  const auto as_fp32 = [&](uint64_t r, uint64_t i) { return content.scale(r, i) << 23; };
  expect_values(FormatId::kFp8G32, {128, 128}, {.code = content.code, .scale = as_fp32}, values);
}

TEST_F(RowBlocksGoldens, Nvfp4RowsHoldARaggedCheckpoint) {
  const GoldenTensors t = checkpoint("qwen3_ragged-ct-nvfp4a16");
  const ByteVector packed = t.bytes(kUp + "weight_packed"), scales = t.bytes(kUp + "weight_scale");
  const float divisor = t.floats(kUp + "weight_global_scale")[0];
  expect_values(FormatId::kNvfp4Rows, {176, 144},
                {.code = [&](auto r, auto c) { return nibble(packed, r * 144 + c); },
                 .scale = [&](auto r, auto i) { return byte(scales, r * 9 + i); },
                 .divisor = divisor},
                expected("qwen3_ragged-ct-nvfp4a16", kUp + "weight"));
}

// Codes and zero points are raised by 8 there; zero points are packed along the rows.
TEST_F(RowBlocksGoldens, FourBitGroupsHoldCompressedTensorsCheckpoints) {
  const struct {
    std::string folder;
    FormatId id;
    uint64_t groups;
    bool zeros;
  } cases[] = {{"qwen3-ct-w4a16-g32", FormatId::kQ4G32Bf16, 4, false},
               {"qwen3-ct-w4a16-g128", FormatId::kQ4G128Bf16, 1, false},
               {"qwen3-ct-w4a16-g32-asym", FormatId::kU4G32Bf16, 4, true},
               {"qwen3-ct-w4a16-g128-asym", FormatId::kU4G128Bf16, 1, true}};
  for (const auto& c : cases) {
    const GoldenTensors t = checkpoint(c.folder);
    const ByteVector packed = t.bytes(kUp + "weight_packed"),
                     scales = t.bytes(kUp + "weight_scale");
    ByteVector zeros;
    if (c.zeros) zeros = t.bytes(kUp + "weight_zero_point");
    const unsigned flip = c.zeros ? 0 : 8;  // raised to two's complement
    expect_values(
        c.id, {128, 128},
        {.code = [&](auto r, auto k) { return nibble(packed, r * 128 + k) ^ flip; },
         .zero = [&](auto r,
                     auto i) { return word32(zeros, r / 8 * c.groups + i) >> (4 * (r % 8)) & 15; },
         .scale = [&](auto r, auto i) { return word16(scales, r * c.groups + i); }},
        expected(c.folder, kUp + "weight"));
  }
}

TEST_F(RowBlocksGoldens, ZeroPointsUnderFp16ScalesHoldAwqAndGptqCheckpoints) {
  {
    const GoldenTensors t = checkpoint("qwen3-awq-g128");
    const ByteVector q = t.bytes(kUp + "qweight"), z = t.bytes(kUp + "qzeros"),
                     s = t.bytes(kUp + "scales");
    constexpr int kNibbleOf[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // of output column 8c + i
    const auto word = [&](const ByteVector& from, uint64_t row, uint64_t out) {
      return word32(from, row * 16 + out / 8) >> (4 * kNibbleOf[out % 8]) & 15;
    };
    expect_values(FormatId::kU4G128Fp16, {128, 128},
                  {.code = [&](auto r, auto c) { return word(q, c, r); },
                   .zero = [&](auto r, auto i) { return word(z, i, r); },
                   .scale = [&](auto r, auto i) { return word16(s, i * 128 + r); }},
                  expected("qwen3-awq-g128", kUp + "weight"));
  }
  const GoldenTensors t = checkpoint("qwen3-gptq-g32-asym");
  const ByteVector q = t.bytes(kUp + "qweight"), z = t.bytes(kUp + "qzeros"),
                   s = t.bytes(kUp + "scales");
  expect_values(
      FormatId::kU4G32Fp16, {128, 128},
      {.code = [&](auto r, auto c) { return word32(q, c / 8 * 128 + r) >> (4 * (c % 8)) & 15; },
       .zero =
           [&](auto r, auto i) {
             return (word32(z, i * 16 + r / 8) + 0x11111111u) >> (4 * (r % 8)) & 15;
           },
       .scale = [&](auto r, auto i) { return word16(s, i * 128 + r); }},
      expected("qwen3-gptq-g32-asym", kUp + "weight"));
}

TEST_F(RowBlocksGoldens, EightBitRowsHoldCompressedTensorsCheckpoints) {
  for (const bool is_packed : {false, true}) {
    const std::string folder = is_packed ? "qwen3-ct-w8a16" : "qwen3-ct-int8";
    const GoldenTensors t = checkpoint(folder);
    const ByteVector q = t.bytes(kUp + (is_packed ? "weight_packed" : "weight")),
                     s = t.bytes(kUp + "weight_scale");
    const unsigned flip = is_packed ? 128 : 0;
    expect_values(
        FormatId::kI8RowFp32, {128, 128},
        {.code = [&](auto r, auto c) { return byte(q, r * 128 + c) ^ flip; },
         .scale = [&](auto r, auto) { return static_cast<uint32_t>(word16(s, r)) << 16; }},
        expected(folder, kUp + "weight"));
  }
}

TEST_F(RowBlocksGoldens, E8m0WordsAreThoseOfTheReferenceLibrary) {
  std::ifstream file(golden_folder() / "elements.json");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const Json::Array words = parse_json(text, "elements.json").at("decode").at("e8m0").as_array();
  ASSERT_EQ(words.size(), 256u);
  for (size_t i = 0; i < 256; ++i)
    EXPECT_EQ(std::bit_cast<uint32_t>(e8m0_to_f32(static_cast<uint8_t>(i))),
              std::stoul(words[i].as_string(), nullptr, 16))
        << i;
}

// The same weights twice: as bf16, and as a script put them into MXFP4 by the rule of OCP.
TEST_F(RowBlocksGoldens, Mxfp4EncodesAsTheRuleOfOcp) {
  const GoldenTensors plain = checkpoint("gpt_oss-bf16"), coded = checkpoint("gpt_oss-mxfp4");
  const std::string name = "model.layers.0.mlp.experts.gate_up_proj";
  const ByteVector words = plain.bytes(name), blocks = coded.bytes(name + "_blocks"),
                   scales = coded.bytes(name + "_scales");
  constexpr uint64_t kExperts = 3, kOut = 192, kIn = 128;
  ASSERT_EQ(words.size(), kExperts * kOut * kIn * 2);
  const Geometry g{kExperts * kOut, kIn};
  std::vector<float> values(g.rows * g.cols);
  for (uint64_t e = 0; e < kExperts; ++e)  // stored [experts, in, out]
    for (uint64_t in = 0; in < kIn; ++in)
      for (uint64_t out = 0; out < kOut; ++out)
        values[(e * kOut + out) * kIn + in] =
            bf16_to_f32(word16(words, (e * kIn + in) * kOut + out));
  const ByteVector object = encode_all(format(FormatId::kMxfp4), g, values);
  EXPECT_EQ(object, pack(fields_of(FormatId::kMxfp4), g,
                         {.code = [&](auto r, auto c) { return nibble(blocks, r * kIn + c); },
                          .scale = [&](auto r, auto i) { return byte(scales, r * 4 + i); }}));
}

// ---- without goldens

// Words of a seeded generator, with the last group cut off and odd counts of nibbles.
TEST(RowBlocks, DecodeEveryFieldOfRandomWords) {
  for (const Fields& f : kFields) {
    for (const Geometry g : {Geometry{3, 293}, Geometry{5, 33}, Geometry{2, 1}, Geometry{4, 256}}) {
      SCOPED_TRACE(format(f.id).name);
      std::mt19937 random(17);
      const uint64_t group = f.group == 0 ? g.cols : f.group, groups = (g.cols + group - 1) / group;
      std::vector<unsigned> codes(g.rows * g.cols), zeros(g.rows * groups);
      std::vector<uint32_t> scales(g.rows * groups);
      const bool is_e4m3 =
          f.id == FormatId::kMxfp8 || f.id == FormatId::kFp8G32 || f.id == FormatId::kFp8G128;
      for (unsigned& code : codes) {
        code = static_cast<unsigned>(random()) & ((1u << f.code_bits) - 1);
        if (is_e4m3 && (code & 0x7f) == 0x7f) code ^= 1;
      }
      for (unsigned& zero : zeros)
        zero = static_cast<unsigned>(random()) & ((1u << f.zero_bits) - 1);
      std::vector<double> factors;
      const bool is_fp16 = f.id == FormatId::kU4G32Fp16 || f.id == FormatId::kU4G64Fp16 ||
                           f.id == FormatId::kU4G128Fp16 || f.id == FormatId::kU8G32Fp16;
      for (uint32_t& scale : scales) {
        const double mantissa = 1 + (random() % 128) / 128.0;
        const int exponent = static_cast<int>(random() % 20) - 10;
        if (f.id == FormatId::kNvfp4Rows) {
          scale = static_cast<uint32_t>(random() % 0x7f);
          factors.push_back(static_cast<double>(e4m3_to_f32(static_cast<uint8_t>(scale))));
        } else if (f.scale_bytes == 1) {
          scale = static_cast<uint32_t>(exponent + 127);
          factors.push_back(std::ldexp(1.0, exponent));
        } else {
          const double factor = std::ldexp(mantissa, exponent);
          factors.push_back(factor);
          scale = f.scale_bytes == 4 ? std::bit_cast<uint32_t>(static_cast<float>(factor))
                  : is_fp16          ? f32_to_fp16(static_cast<float>(factor))
                                     : f32_to_bf16(static_cast<float>(factor));
        }
      }
      const double divisor = 2.75;
      std::vector<float> expected;
      for (uint64_t r = 0; r < g.rows; ++r)
        for (uint64_t c = 0; c < g.cols; ++c) {
          const int code = static_cast<int>(codes[r * g.cols + c]);
          double value = code;
          if (f.id == FormatId::kMxfp4 || f.id == FormatId::kNvfp4Rows) {
            const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
            value = code < 8 ? magnitudes[code] : -magnitudes[code - 8];
          } else if (is_e4m3) {
            const int e = code >> 3 & 15, m = code & 7;
            value = e == 0 ? std::ldexp(m, -9) : std::ldexp(8 + m, e - 10);
            if (code >= 128) value = -value;
          } else if (f.zero_bits != 0) {
            value -= static_cast<int>(zeros[r * groups + c / group]);
          } else if (code >= 1 << (f.code_bits - 1)) {
            value -= 1 << f.code_bits;
          }
          value *= factors[r * groups + c / group];
          if (f.divisor) value /= divisor;
          expected.push_back(static_cast<float>(value) + 0.0f);
        }
      expect_values(f.id, g,
                    {.code = [&](auto r, auto c) { return codes[r * g.cols + c]; },
                     .zero = [&](auto r, auto i) { return zeros[r * groups + i]; },
                     .scale = [&](auto r, auto i) { return scales[r * groups + i]; },
                     .divisor = static_cast<float>(divisor)},
                    expected);
    }
  }
}

TEST(RowBlocks, RowsCopiedPlaneByPlaneAreAnObjectOfTheirOwn) {
  for (const Fields& f : kFields) {
    const Format& stored = format(f.id);
    const Geometry g{7, 200}, part{3, 200};
    std::mt19937 random(5);
    const ByteVector object =
        pack(f, g,
             {.code = [&](auto, auto) { return random() % 8; },
              .zero = [&](auto, auto) { return random() % 8; },
              .scale = [&](auto, auto) { return f.scale_bytes == 4 ? 0x3f900000u : 0x3fu; },
              .divisor = 3});
    const Planes from = stored.planes(g), to = stored.planes(part);
    ByteVector slice(to.total_bytes);
    for (int i = 0; i < to.count; ++i)
      std::copy_n(&object[from.plane[i].offset + 2 * from.plane[i].row_bytes],
                  3 * from.plane[i].row_bytes, &slice[to.plane[i].offset]);
    const std::vector<float> all = decode_all(stored, g, object.data());
    const std::vector<float> rows = decode_all(stored, part, slice.data());
    EXPECT_TRUE(std::equal(rows.begin(), rows.end(), all.begin() + 2 * 200)) << stored.name;
  }
}

TEST(RowBlocks, MxFormatsGiveBackTheirOwnNumbersAndNearOnesOfOthers) {
  const struct {
    FormatId id;
    float step;  // of a block's largest magnitude
  } cases[] = {{FormatId::kMxfp4, 0.25f}, {FormatId::kMxfp8, 0.125f}};
  for (const auto& c : cases) {
    const Format& f = format(c.id);
    const Geometry g{6, 77};
    const std::vector<float> values = random_values(g.rows * g.cols, -140, 120, 23);
    const ByteVector object = encode_all(f, g, values);
    f.validate(object.data(), g, 0, g.rows);
    const std::vector<float> back = decode_all(f, g, object.data());
    for (uint64_t r = 0; r < g.rows; ++r)
      for (uint64_t begin = 0; begin < g.cols; begin += 32) {
        const uint64_t end = std::min<uint64_t>(begin + 32, g.cols);
        float largest = 0;
        for (uint64_t i = begin; i < end; ++i)
          largest = std::max(largest, std::fabs(values[r * g.cols + i]));
        // Magnitudes beyond the element's largest saturate: 7 becomes 6, 480 becomes 448. Scales
        // below 2^−127 are not there.
        for (uint64_t i = begin; i < end; ++i)
          ASSERT_NEAR(back[r * g.cols + i], values[r * g.cols + i], largest * c.step + 0x1p-127f);
      }
    EXPECT_EQ(encode_all(f, g, back), object) << f.name << ": decoded values encode to themselves";
    const ByteVector zeros = encode_all(f, {1, 40}, std::vector<float>(40));
    EXPECT_EQ(zeros, ByteVector(zeros.size())) << "all words of zeros are 0";
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      std::vector<float> row(40, 1.0f);
      row[33] = bad;
      const Error error = error_of([&] { encode_all(f, {1, 40}, row); });
      EXPECT_EQ(error.code(), Code::kValue);
      EXPECT_NE(error.message().find("row 0 column 33"), std::string::npos) << error.message();
    }
  }
}

TEST(RowBlocks, FormatsFromFilesAloneAreNotEncoded) {
  for (const Fields& f : kFields) {
    if (f.id == FormatId::kMxfp4 || f.id == FormatId::kMxfp8) continue;
    EXPECT_EQ(format(f.id).encode, nullptr);
  }
}

TEST(RowBlocks, IllegalWordsAreNamed) {
  const Geometry g{2, 129};  // an odd count of codes, of zero points and of groups
  const auto object = [&](FormatId id, uint32_t scale) {
    return pack(
        fields_of(id), g,
        {.code = [](auto, auto) { return 7u; }, .scale = [=](auto, auto) { return scale; }});
  };
  const auto refused = [&](FormatId id, const ByteVector& bytes, std::string_view expected) {
    const Error error = error_of([&] { format(id).validate(bytes.data(), g, 0, 2); });
    EXPECT_EQ(error.code(), Code::kValue) << format(id).name;
    EXPECT_NE(error.message().find(expected), std::string::npos) << error.message();
  };
  refused(FormatId::kMxfp4, object(FormatId::kMxfp4, 255), "row 0 column 0: scale");
  refused(FormatId::kMxfp4, object(FormatId::kMxfp4, 253), "exceeds binary32");  // 6·2^126
  format(FormatId::kMxfp4).validate(object(FormatId::kMxfp4, 252).data(), g, 0, 2);
  refused(FormatId::kQ4G32Bf16, object(FormatId::kQ4G32Bf16, 0x7f80), "scale");
  refused(FormatId::kU4G32Fp16, object(FormatId::kU4G32Fp16, 0x7c00), "scale");
  refused(FormatId::kI8RowFp32, object(FormatId::kI8RowFp32, 0x7fc00000), "scale");
  refused(FormatId::kNvfp4Rows, object(FormatId::kNvfp4Rows, 0x80), "scale");

  ByteVector eight = object(FormatId::kMxfp8, 127);
  eight[g.cols + 3] = std::byte{0xff};
  refused(FormatId::kMxfp8, eight, "row 1 column 3: code 0xFF is no number");
  ByteVector four = object(FormatId::kU4G32Fp16, 0x3c00);
  four[64] = std::byte{0x17};  // code 128 of row 0 and what lies behind it
  refused(FormatId::kU4G32Fp16, four, "row 0: padding behind its 129 codes is 1");
  four = object(FormatId::kU4G32Fp16, 0x3c00);
  four[format(FormatId::kU4G32Fp16).planes(g).plane[1].offset + 3 + 2] = std::byte{0x20};
  refused(FormatId::kU4G32Fp16, four, "row 1: padding behind its 5 zero points is 2");
  ByteVector rows = object(FormatId::kNvfp4Rows, 0x38);
  store_le(&rows[format(FormatId::kNvfp4Rows).planes(g).plane[2].offset + 4], 0.0f);
  refused(FormatId::kNvfp4Rows, rows, "row 1: divisor 0");
}

TEST(RowBlocks, SizesAreThoseOfTheirPlanes) {
  const auto size = [](std::string_view name, const Shape& shape) {
    return encoded_bytes(*find_format(name, kRowBlocksName), kRowBlocksName, shape, 1);
  };
  constexpr uint64_t kN = 7168, kK = 5120;
  EXPECT_EQ(size("mxfp4", {kN, kK}), kN * kK / 2 + kN * kK / 32);
  EXPECT_EQ(size("mxfp8_e4m3fn", {kN, kK}), kN * kK + kN * kK / 32);
  EXPECT_EQ(size("fp8_e4m3fn_g128_fp32", {kN, kK}), kN * kK + kN * kK / 128 * 4);
  EXPECT_EQ(size("nvfp4", {kN, kK}), kN * kK / 2 + kN * kK / 16 + kN * 4);
  EXPECT_EQ(size("u4z4_g128_fp16", {kN, kK}), kN * kK / 2 + kN * kK / 256 + kN * kK / 64);
  EXPECT_EQ(size("i8_row_fp32", {kN, kK}), kN * kK + kN * 4);
  EXPECT_EQ(size("u4z4_g32_fp16", {1, 33}), 256u + 256 + 4);  // 17, 1 and 4 bytes
  const Format& tiles = *find_format("nvfp4");
  EXPECT_EQ(tiles.layout, LayoutId::kBlockScale) << "the layout of the specification comes first";
  EXPECT_EQ(error_of([] {
              encoded_bytes(format(FormatId::kNvfp4Rows), kRowBlocksName, {256, 64}, 2);
            }).code(),
            Code::kEncoding);
  EXPECT_EQ(
      error_of([] { format(FormatId::kMxfp4).planes({uint64_t{1} << 40, 1ull << 40}); }).code(),
      Code::kRange);
}

}  // namespace
}  // namespace flare::codec
