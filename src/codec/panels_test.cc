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
