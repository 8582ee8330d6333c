// Panels: every format's values come back exactly, and bytes stand where the header says.
#include "codec/panels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "codec/matrix.h"
#include "codec/test_oracle.h"

namespace flare::codec {
namespace {

const FormatId kPanelIds[] = {
    FormatId::kQ4G64,     FormatId::kQ5G64,      FormatId::kQ6G64,      FormatId::kQ8G32,
    FormatId::kGgufQ4_0,  FormatId::kGgufQ8_0,   FormatId::kGgufQ4K,    FormatId::kGgufQ6K,
    FormatId::kGgufQ4_1,  FormatId::kGgufQ5_0,   FormatId::kGgufQ5_1,   FormatId::kGgufQ5K,
    FormatId::kGgufQ2K,   FormatId::kGgufQ3K,    FormatId::kGgufIq4Nl,  FormatId::kGgufIq4Xs,
    FormatId::kMxfp4,     FormatId::kQ4G32Bf16,  FormatId::kQ4G128Bf16, FormatId::kU4G32Bf16,
    FormatId::kU4G64Fp16, FormatId::kU4G128Fp16, FormatId::kI8G32Bf16,  FormatId::kU8G32Fp16,
    FormatId::kI8RowFp32, FormatId::kFp8G32,     FormatId::kFp8G128,    FormatId::kMxfp8,
    FormatId::kNvfp4Rows, FormatId::kQ2G64,      FormatId::kT2G128,     FormatId::kGgufQ2_0};

// Random legal bytes: encoded numbers, or blocks whose fp16 fields are made finite.
ByteVector random_object(const Format& f, Geometry g, uint64_t seed) {
  if (f.id == FormatId::kQ2G64) return oracle_random_pairs(kOracleQ2, g, seed);
  if (f.id == FormatId::kT2G128) return oracle_random_pairs(kOracleT2, g, seed);
  if (f.layout == LayoutId::kRowSplitK128)
    return encode_all(f, g, random_values(g.rows * g.cols, -4, 4, seed));
  std::mt19937_64 random(seed);
  ByteVector object(f.planes(g).total_bytes);
  for (std::byte& b : object) b = static_cast<std::byte>(random());
  if (f.layout == LayoutId::kRowBlocks) {
    const Planes planes = f.planes(g);
    for (uint64_t at = planes.plane[1].offset; at < object.size(); ++at)
      object[at] &= std::byte{0xBB};  // no exponent of an infinity
    if (f.id == FormatId::kFp8G32 || f.id == FormatId::kFp8G128 || f.id == FormatId::kMxfp8)
      for (std::byte& code : object) code &= std::byte{0xBB};  // no NaN
    return object;
  }
  const uint64_t block = static_cast<uint64_t>(f.bits_per_weight * f.group / 8);
  for (uint64_t at = 0; at < object.size(); at += block)
    for (uint64_t half : {uint64_t{1}, uint64_t{3}, block - 3, block - 1})
      object[at + half] &= std::byte{0xBB};  // exponents below the highest
  return object;
}

Geometry small_geometry(FormatId id, uint64_t rows) {
  const bool is_super = format(id).group == 256;
  const bool is_block = format(id).layout == LayoutId::kGgufBlocks;
  return {rows, is_super ? 512u : is_block ? std::max<uint64_t>(160, 3 * format(id).group) : 200u};
}

TEST(Panels, EveryRowDecodesToTheValuesOfTheStoredForm) {
  for (const FormatId id : kPanelIds)
    for (const uint64_t rows : {1, 15, 16, 17, 45}) {
      const Format& f = format(id);
      SCOPED_TRACE(testing::Message() << f.name << " of " << rows);
      const Geometry g = small_geometry(id, rows);
      const ByteVector object = random_object(f, g, rows);
      ByteVector panels(panels_bytes(id, g), std::byte{0xEE});
      // In two calls, as members of a team do it.
      const uint64_t half = n_panels(rows) / 2;
      pack_panels(id, object.data(), g, 0, half, panels.data());
      pack_panels(id, object.data(), g, half, n_panels(rows),
                  panels.data() + half * panel_shape(id, g.cols).bytes);
      const Segment packed{panels.data(), g, id, LayoutId::kPanels16, 0, rows};
      std::vector<float> want(g.cols), have(g.cols);
      for (uint64_t row = 0; row < rows; ++row) {
        f.decode(object.data(), g, row, 0, g.cols, want.data());
        decode_columns(packed, row, 0, g.cols, have.data());
        if (id == FormatId::kNvfp4Rows) {
          for (uint64_t c = 0; c < g.cols; ++c)
            ASSERT_FLOAT_EQ(have[c], want[c]) << row << ", " << c;
          continue;
        }
        ASSERT_EQ(have, want) << "row " << row;  // zeros of either sign are equal
        // A part that begins at a group and ends inside one.
        decode_columns(packed, row, 64, 41, have.data());
        ASSERT_TRUE(std::equal(have.begin(), have.begin() + 41, want.begin() + 64))
            << "row " << row;
      }
    }
}

unsigned nibble(const std::byte* pairs, uint64_t i) {
  return std::to_integer<unsigned>(pairs[i / 2]) >> (i % 2 * 4) & 15;
}
unsigned bit(const std::byte* bits, uint64_t i) {
  return std::to_integer<unsigned>(bits[i / 8]) >> (i % 8) & 1;
}
// Code j of a ggml block of 32 that has low halves first.
unsigned half(const std::byte* pairs, uint64_t j) {
  return std::to_integer<unsigned>(pairs[j % 16]) >> (j / 16 * 4) & 15;
}
// The code of a column as a panel has it, from the stored bytes of a row, one at a time.
using StoredCode = unsigned (*)(const std::byte* const* plane, uint64_t col);
unsigned four(const std::byte* const* plane, uint64_t col) { return nibble(plane[0], col); }
unsigned raised(const std::byte* const* plane, uint64_t col) { return nibble(plane[0], col) ^ 8; }
template <uint64_t kBytes, uint64_t kAt>
unsigned block_of_32(const std::byte* const* plane, uint64_t col) {
  return half(plane[0] + col / 32 * kBytes + kAt, col % 32);
}
template <uint64_t kBytes, uint64_t kAt>
unsigned block_with_fifths(const std::byte* const* plane, uint64_t col) {
  return block_of_32<kBytes, kAt + 4>(plane, col) |
         bit(plane[0] + col / 32 * kBytes + kAt, col % 32) << 4;
}
unsigned q3(const std::byte* const* plane, uint64_t col) {
  const std::byte* block = plane[0] + col / 256 * 110;
  const uint64_t j = col % 256, in_quarter = j % 32, quarter = j / 32 % 4;
  const auto pairs = std::to_integer<unsigned>(block[32 + j / 128 * 32 + in_quarter]);
  const auto thirds = std::to_integer<unsigned>(block[in_quarter]);
  return (pairs >> (2 * quarter) & 3) | (thirds >> (j / 32) & 1) << 2;
}
const struct {
  FormatId id;
  StoredCode code;
} kStoredCodes[] = {
    {FormatId::kQ4G64, raised},
    {FormatId::kQ5G64,
     [](const std::byte* const* plane, uint64_t c) {
       return (nibble(plane[0], c) | bit(plane[1], c) << 4) ^ 16;
     }},
    {FormatId::kQ6G64,
     [](const std::byte* const* plane, uint64_t c) {
       return (nibble(plane[0], c) | bit(plane[1], 2 * c) << 4 | bit(plane[1], 2 * c + 1) << 5) ^
              32;
     }},
    {FormatId::kGgufQ4_0, block_of_32<18, 2>},
    {FormatId::kGgufQ4_1, block_of_32<20, 4>},
    {FormatId::kGgufIq4Nl, block_of_32<18, 2>},
    {FormatId::kGgufQ5_0, block_with_fifths<22, 2>},
    {FormatId::kGgufQ5_1, block_with_fifths<24, 4>},
    {FormatId::kGgufIq4Xs,
     [](const std::byte* const* plane, uint64_t c) {
       return half(plane[0] + c / 256 * 136 + 8 + c % 256 / 32 * 16, c % 32);
     }},
    {FormatId::kGgufQ3K, q3},
    {FormatId::kNvfp4, four},
    {FormatId::kNvfp4Rows, four},
    {FormatId::kMxfp4, four},
    {FormatId::kQ4G32Bf16, raised},
    {FormatId::kQ4G64Bf16, raised},
    {FormatId::kQ4G128Bf16, raised},
    {FormatId::kU4G32Bf16, four},
    {FormatId::kU4G64Bf16, four},
    {FormatId::kU4G128Bf16, four},
    {FormatId::kU4G32Fp16, four},
    {FormatId::kU4G64Fp16, four},
    {FormatId::kU4G128Fp16, four}};

// Of random bytes, which need no meaning for it: packing moves codes whatever their scales are.
TEST(Panels, EveryCodeOfFourToSixBitsStandsWhereTheHeaderSays) {
  for (const auto& [id, code] : kStoredCodes) {
    const Format& f = format(id);
    SCOPED_TRACE(testing::Message() << f.name << " in " << f.layout_name);
    const bool has_odd_rows = f.layout == LayoutId::kRowBlocks;
    const Geometry g =
        id == FormatId::kNvfp4 ? Geometry{128, 192} : Geometry{37, has_odd_rows ? 301u : 512u};
    const Planes planes = f.planes(g);
    std::mt19937_64 random(3);
    ByteVector object(planes.total_bytes);
    for (std::byte& b : object) b = static_cast<std::byte>(random());
    ByteVector panels(panels_bytes(id, g), std::byte{0xEE});
    pack_panels(id, object.data(), g, 0, n_panels(g.rows), panels.data());
    const PanelShape shape = panel_shape(id, g.cols);
    const uint64_t n = static_cast<uint64_t>(shape.high_bits);
    for (uint64_t r = 0; r < n_panels(g.rows) * 16; ++r)
      for (uint64_t c = 0; c < shape.blocks * shape.block_cols; ++c) {
        const uint64_t step = c % shape.block_cols / 4;
        const std::byte* at = panels.data() + r / 16 * shape.bytes +
                              c / shape.block_cols * shape.block_bytes + shape.scale_bytes +
                              r % 16 * 4 + c % 4;
        unsigned have = 0;
        if (n != 0) {  // 8/n steps: their high bits, then 4/n lines of low halves
          at += step / (8 / n) * (1 + 4 / n) * 64;
          have = (std::to_integer<unsigned>(at[0]) >> (n * (step % (8 / n))) & ((1u << n) - 1))
                 << 4;
          at += (1 + step % (8 / n) / 2) * 64;
        } else {
          at += step / 2 * 64;
        }
        have |= std::to_integer<unsigned>(at[0]) >> (step % 2 * 4) & 15;
        unsigned want = 0;  // behind the last row and column
        if (r < g.rows && c < g.cols) {
          const std::byte* plane[kMaxPlanes] = {};
          for (int i = 0; i < planes.count; ++i)
            plane[i] = object.data() + planes.plane[i].offset + r * planes.plane[i].row_bytes;
          want = code(plane, c);
        }
        ASSERT_EQ(have, want) << r << ", " << c;
      }
  }
}

// Bit by bit from the stored codes of the oracle, for one format with high bits.
TEST(Panels, BytesStandWhereTheHeaderSays) {
  const OracleFormat& f = kOracleQ6;
  const Geometry g{20, 256};
  const auto code = [](uint64_t r, uint64_t c) {
    return static_cast<int>((r * 7 + c * 5) % 64) - 32;
  };
  const auto scale = [](uint64_t r, uint64_t group) {
    return static_cast<uint16_t>(0x3000 + 16 * r + group);
  };
  const ByteVector object = oracle_pack(f, g.rows, g.cols, code, scale);
  ByteVector panels(panels_bytes(f.id, g));
  pack_panels(f.id, object.data(), g, 0, 2, panels.data());
  const uint64_t scales = 64, codes = 1024 + 512;  // of a block of 128 columns
  ASSERT_EQ(panel_shape(f.id, g.cols).bytes, 2 * (scales + codes));
  for (uint64_t r = 0; r < g.rows; ++r)
    for (uint64_t c = 0; c < g.cols; ++c) {
      const std::byte* block = panels.data() + (r / 16 * 2 + c / 128) * (scales + codes);
      const uint64_t lane = r % 16, step = c % 128 / 4, group = c % 128 / 64;
      // A line of high bits for four steps, then their two lines of low halves.
      const std::byte* lines = block + scales + step / 4 * 3 * 64 + 4 * lane + c % 4;
      const auto top = std::to_integer<int>(lines[0]);
      const auto low = std::to_integer<int>(lines[(1 + step % 4 / 2) * 64]);
      const int value = (step % 2 == 0 ? low & 15 : low >> 4) | (top >> (2 * (step % 4)) & 3) << 4;
      ASSERT_EQ(value, code(r, c) + 32) << r << ", " << c;
      ASSERT_EQ(load_le<uint16_t>(block + 32 * group + 2 * lane), scale(r, c / 64));
    }
}

// The same for codes of two bits under scales of 128 columns.
TEST(Panels, PairsStandWhereTheHeaderSays) {
  const Geometry g{20, 330};
  const auto code = [](uint64_t r, uint64_t c) {
    return static_cast<int>((r * 7 + c * 5) % 3) - 1;
  };
  const auto scale = [](uint64_t r, uint64_t group) {
    return static_cast<uint16_t>(0x3000 + 16 * r + group);
  };
  const ByteVector object = oracle_pack_pairs(
      kOracleT2, g.rows, g.cols,
      [&](uint64_t r, uint64_t c) { return static_cast<unsigned>(code(r, c)) & 3u; }, scale);
  ByteVector panels(panels_bytes(FormatId::kT2G128, g));
  pack_panels(FormatId::kT2G128, object.data(), g, 0, 2, panels.data());
  const uint64_t scales = 64, codes = 512;  // of a block of 128 columns
  ASSERT_EQ(panel_shape(FormatId::kT2G128, g.cols).bytes, 3 * (scales + codes));
  for (uint64_t r = 0; r < g.rows; ++r)
    for (uint64_t c = 0; c < g.cols; ++c) {
      const std::byte* block = panels.data() + (r / 16 * 3 + c / 128) * (scales + codes);
      const uint64_t lane = r % 16, step = c % 128 / 4;
      const auto four = std::to_integer<int>(block[scales + step / 4 * 64 + 4 * lane + c % 4]);
      ASSERT_EQ(four >> (2 * (step % 4)) & 3, code(r, c) + 1) << r << ", " << c;
      ASSERT_EQ(load_le<uint16_t>(block + 32 * (c % 128 / 64) + 2 * lane), scale(r, c / 128));
    }
}

}  // namespace
}  // namespace flare::codec
