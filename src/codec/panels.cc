// Packing into panels and reading single rows back.
#include "codec/panels.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/float_types.h"
#include "codec/gguf_blocks.h"

namespace flare::codec {
namespace {

constexpr uint64_t kStepBytes = 4 * kPanelRows;  // four columns of a panel, a byte each

enum class Scales { kHalf, kHalfAndLow, kSixBits, kNibbles, kBytes, kFloat, kFloatAndLow };

struct PanelFormat {
  FormatId id;
  int low_bits, high_bits;
  uint64_t group_cols;  // under one scale of a panel: a stored one may cover several such groups
  int offset;           // what codes are raised by
  Scales scales;
};
constexpr PanelFormat kPanelFormats[] = {
    {FormatId::kQ4G64, 4, 0, 64, 8, Scales::kHalf},
    {FormatId::kQ5G64, 4, 1, 64, 16, Scales::kHalf},
    {FormatId::kQ6G64, 4, 2, 64, 32, Scales::kHalf},
    {FormatId::kQ8G32, 8, 0, 32, 128, Scales::kHalf},
    {FormatId::kGgufQ4_0, 4, 0, 32, 8, Scales::kHalf},
    {FormatId::kGgufQ8_0, 8, 0, 32, 128, Scales::kHalf},
    {FormatId::kGgufQ4_1, 4, 0, 32, 0, Scales::kHalfAndLow},
    {FormatId::kGgufQ5_0, 4, 1, 32, 16, Scales::kHalf},
    {FormatId::kGgufQ5_1, 4, 1, 32, 0, Scales::kHalfAndLow},
    {FormatId::kGgufQ4K, 4, 0, 32, 0, Scales::kSixBits},
    {FormatId::kGgufQ5K, 4, 1, 32, 0, Scales::kSixBits},
    {FormatId::kGgufQ6K, 4, 2, 16, 32, Scales::kBytes},
    {FormatId::kQ2G64, 2, 0, 64, 1, Scales::kHalf},
    {FormatId::kT2G128, 2, 0, 64, 1, Scales::kHalf},
    {FormatId::kGgufQ2_0, 2, 0, 64, 1, Scales::kHalf},
    {FormatId::kGgufQ2K, 2, 0, 16, 0, Scales::kNibbles},
    {FormatId::kGgufQ3K, 4, 0, 16, 4, Scales::kBytes},
    {FormatId::kGgufIq4Nl, 4, 0, 32, 0, Scales::kHalf},
    {FormatId::kGgufIq4Xs, 4, 0, 32, 0, Scales::kBytes},
    {FormatId::kFp8RowBf16, 8, 0, 64, 0, Scales::kFloat},
    {FormatId::kFp8RowFp16, 8, 0, 64, 0, Scales::kFloat},
    {FormatId::kFp8G32, 8, 0, 32, 0, Scales::kFloat},
    {FormatId::kFp8G128, 8, 0, 64, 0, Scales::kFloat},
    {FormatId::kMxfp8, 8, 0, 32, 0, Scales::kFloat},
    {FormatId::kNvfp4, 4, 0, 16, 0, Scales::kFloat},
    {FormatId::kNvfp4Rows, 4, 0, 16, 0, Scales::kFloat},
    {FormatId::kMxfp4, 4, 0, 32, 0, Scales::kFloat},
    {FormatId::kQ4G32Bf16, 4, 0, 32, 0, Scales::kFloatAndLow},
    {FormatId::kQ4G64Bf16, 4, 0, 64, 0, Scales::kFloatAndLow},
    {FormatId::kQ4G128Bf16, 4, 0, 64, 0, Scales::kFloatAndLow},
    {FormatId::kU4G32Bf16, 4, 0, 32, 0, Scales::kFloatAndLow},
    {FormatId::kU4G64Bf16, 4, 0, 64, 0, Scales::kFloatAndLow},
    {FormatId::kU4G128Bf16, 4, 0, 64, 0, Scales::kFloatAndLow},
    {FormatId::kU4G32Fp16, 4, 0, 32, 0, Scales::kFloatAndLow},
    {FormatId::kU4G64Fp16, 4, 0, 64, 0, Scales::kFloatAndLow},
    {FormatId::kU4G128Fp16, 4, 0, 64, 0, Scales::kFloatAndLow},
    {FormatId::kI8G32Bf16, 8, 0, 32, 128, Scales::kFloatAndLow},
    {FormatId::kU8G32Bf16, 8, 0, 32, 128, Scales::kFloatAndLow},
    {FormatId::kU8G32Fp16, 8, 0, 32, 128, Scales::kFloatAndLow},
    {FormatId::kI8RowFp32, 8, 0, 64, 128, Scales::kFloatAndLow},
};

const PanelFormat* find(FormatId id) {
  for (const PanelFormat& f : kPanelFormats)
    if (f.id == id) return &f;
  return nullptr;
}

bool is_super_block(const PanelFormat& f) {
  return f.scales == Scales::kSixBits || f.scales == Scales::kNibbles || f.scales == Scales::kBytes;
}
uint64_t block_cols(const PanelFormat& f) { return is_super_block(f) ? 256 : 128; }
bool has_floats(const PanelFormat& f) {
  return f.scales == Scales::kFloat || f.scales == Scales::kFloatAndLow;
}

uint64_t scale_bytes(const PanelFormat& f) {
  switch (f.scales) {
    case Scales::kHalf:
      return block_cols(f) / f.group_cols * 2 * kPanelRows;
    case Scales::kHalfAndLow:
      return block_cols(f) / f.group_cols * 4 * kPanelRows;
    case Scales::kSixBits:
      return 4 * kStepBytes;
    case Scales::kNibbles:
      return 5 * kStepBytes;
    case Scales::kFloat:
      return block_cols(f) / f.group_cols * kStepBytes;
    case Scales::kFloatAndLow:
      return block_cols(f) / f.group_cols * 2 * kStepBytes;
    case Scales::kBytes:  // the last half line is zero
      return (block_cols(f) / f.group_cols / 4 + 1) * kStepBytes;
  }
  return 0;
}

constexpr int8_t kTwiceE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// What codes stand for; null: for themselves.
const int8_t* table_of(FormatId id) {
  switch (id) {
    case FormatId::kGgufIq4Nl:
    case FormatId::kGgufIq4Xs:
      return kIq4Values;
    case FormatId::kMxfp4:
    case FormatId::kNvfp4:
    case FormatId::kNvfp4Rows:
      return kTwiceE2m1;
    default:
      return nullptr;
  }
}

// Steps whose high bits share a line, or whose codes do where there are none.
uint64_t steps_of_line(const PanelFormat& f) {
  return 8 / static_cast<uint64_t>(f.high_bits == 0 ? f.low_bits : f.high_bits);
}

// Codes of 4 bits and kHighBits above them, 4 a step, to a lane that begins at `to`.
template <uint64_t kHighBits>
void scatter_halves(const uint8_t* codes, uint64_t steps, std::byte* to) {
  constexpr uint32_t kLow = 0x0f0f0f0fu;
  constexpr uint64_t kSteps = kHighBits == 0 ? 2 : 8 / kHighBits;
  for (uint64_t s = 0; s < steps; s += kSteps) {
    uint32_t step[kSteps];
    std::memcpy(step, codes + 4 * s, sizeof step);
    if constexpr (kHighBits != 0) {
      uint32_t word = 0;
      for (uint64_t i = 0; i < kSteps; ++i) word |= (step[i] >> 4 & kLow) << (kHighBits * i);
      store_le(to, word);
      to += kStepBytes;
    }
    for (uint64_t i = 0; i < kSteps; i += 2, to += kStepBytes)
      store_le(to, (step[i] & kLow) | (step[i + 1] & kLow) << 4);
  }
}

// One block's codes of one row, as `codes`, into its lane.
void scatter_codes(const PanelFormat& f, const PanelShape& shape, const uint8_t* codes,
                   std::byte* block, uint64_t lane) {
  const uint64_t steps = shape.block_cols / 4;
  std::byte* to = block + shape.scale_bytes + 4 * lane;
  const auto step = [&](uint64_t s) {
    return load_le<uint32_t>(reinterpret_cast<const std::byte*>(codes + 4 * s));
  };
  if (f.low_bits == 8) {
    for (uint64_t s = 0; s < steps; ++s, to += kStepBytes) store_le(to, step(s));
  } else if (f.low_bits == 2) {
    for (uint64_t s = 0; s < steps; s += 4, to += kStepBytes)
      store_le(to, step(s) | step(s + 1) << 2 | step(s + 2) << 4 | step(s + 3) << 6);
  } else if (f.high_bits == 0) {
    scatter_halves<0>(codes, steps, to);
  } else if (f.high_bits == 1) {
    scatter_halves<1>(codes, steps, to);
  } else {
    scatter_halves<2>(codes, steps, to);
  }
}

// Codes of two bits that are stored as columns follow each other, four a byte: 16 bytes of 64
// columns, and the next `stride` bytes on.
struct StoredPairs {
  const std::byte* first;
  uint64_t stride;
  uint64_t count;
  uint32_t raise;  // one in every pair that is not raised yet
};
bool has_pairs(FormatId id) {
  return id == FormatId::kQ2G64 || id == FormatId::kT2G128 || id == FormatId::kGgufQ2_0;
}
StoredPairs stored_pairs(FormatId id, const std::byte* object, Geometry g, uint64_t row) {
  const Plane plane = format(id).planes(g).plane[0];
  const std::byte* first = object + plane.offset + row * plane.row_bytes;
  if (id == FormatId::kGgufQ2_0) return {first + 2, 18, plane.row_bytes / 18, 0};
  return {first, 16, plane.row_bytes / 16, id == FormatId::kT2G128 ? 0x55555555u : 0};
}

// The word of a lane from sixteen columns: both are four by four pairs, one the other's transpose.
uint32_t transpose_pairs(uint32_t w) {
  uint32_t swapped = (w ^ w >> 6) & 0x00cc00ccu;
  w ^= swapped ^ swapped << 6;
  swapped = (w ^ w >> 12) & 0x0000f0f0u;
  return w ^ swapped ^ swapped << 12;
}

// What scatter_codes does, for a whole row.
void scatter_pairs(const PanelShape& shape, const StoredPairs& from, std::byte* panel,
                   uint64_t lane) {
  for (uint64_t i = 0; i < from.count; ++i) {
    std::byte* to =
        panel + i / 2 * shape.block_bytes + shape.scale_bytes + i % 2 * 4 * kStepBytes + 4 * lane;
    for (uint64_t j = 0; j < 4; ++j) {
      const auto w = load_le<uint32_t>(from.first + i * from.stride + 4 * j);
      // 01 added to each pair without a carry to the next.
      store_le(to + j * kStepBytes, transpose_pairs(w ^ from.raise ^ (w & from.raise) << 1));
    }
  }
}

// Step s of a block's lane as scatter_codes put it there: byte b is column 4·s + b.
uint32_t gather_step(const PanelFormat& f, const PanelShape& shape, const std::byte* block,
                     uint64_t lane, uint64_t s) {
  const std::byte* from = block + shape.scale_bytes + 4 * lane;
  if (f.low_bits == 8) return load_le<uint32_t>(from + s * kStepBytes);
  if (f.low_bits == 2)
    return load_le<uint32_t>(from + s / 4 * kStepBytes) >> (s % 4 * 2) & 0x03030303u;
  const auto half = [s](const std::byte* pair) {
    return load_le<uint32_t>(pair) >> (s % 2 * 4) & 0x0f0f0f0fu;
  };
  if (f.high_bits == 0) return half(from + s / 2 * kStepBytes);
  const uint64_t n = steps_of_line(f);
  from += s / n * (1 + n / 2) * kStepBytes;
  const auto bits = static_cast<uint64_t>(f.high_bits);
  const uint32_t mask = f.high_bits == 1 ? 0x01010101u : 0x03030303u;
  const uint32_t high = load_le<uint32_t>(from) >> (bits * (s % n)) & mask;
  return half(from + (1 + s % n / 2) * kStepBytes) | high << 4;
}

// Where a row's scales are stored, and from group to group (or super-block to super-block).
struct StoredScales {
  const std::byte* first;
  uint64_t stride;
  uint64_t count;
};
StoredScales stored_scales(const PanelFormat& f, const std::byte* object, Geometry g,
                           uint64_t row) {
  const Planes planes = format(f.id).planes(g);
  const Plane& plane = planes.plane[planes.count - 1];  // of scales, or the only one
  const std::byte* first = object + plane.offset + row * plane.row_bytes;
  // Row-split scales lie side by side; GGUF blocks hold their own.
  const uint64_t stride =
      planes.count > 1
          ? 2
          : static_cast<uint64_t>(format(f.id).bits_per_weight * format(f.id).group / 8);
  return {first, stride, plane.row_bytes / stride};
}

// Signed scales [4·w, 4·w + 4) of a stored block, and where the fp16 number stands that scales them
// all.
uint32_t byte_scales(FormatId id, const std::byte* block, int w) {
  if (id == FormatId::kGgufQ3K) return q3_scales(block + 96, w);
  if (id == FormatId::kGgufQ6K) return load_le<uint32_t>(block + 192 + 4 * w);
  uint32_t four = 0;
  for (int i = 0; i < 4; ++i)
    four |= static_cast<uint32_t>(iq4_scale(block, 4 * w + i) & 0xff) << (8 * i);
  return four;
}
uint64_t half_offset(FormatId id) {
  return id == FormatId::kGgufQ3K ? 108 : id == FormatId::kGgufIq4Xs ? 0 : 208;
}

// Block b's scales of a row into its lane.
void scatter_scales(const PanelFormat& f, const StoredScales& from, uint64_t b, std::byte* to,
                    uint64_t lane) {
  switch (f.scales) {
    case Scales::kHalf: {
      const uint64_t groups = block_cols(f) / f.group_cols;
      const uint64_t covered = format(f.id).group / f.group_cols;  // by a stored scale
      for (uint64_t g = 0; g < groups; ++g) {
        const uint64_t stored = (b * groups + g) / covered;
        if (stored == from.count) return;
        std::memcpy(to + 32 * g + 2 * lane, from.first + stored * from.stride, 2);
      }
      return;
    }
    case Scales::kHalfAndLow: {
      const uint64_t groups = block_cols(f) / f.group_cols;
      for (uint64_t g = 0; g < groups && b * groups + g < from.count; ++g) {
        const std::byte* block = from.first + (b * groups + g) * from.stride;
        std::memcpy(to + kStepBytes * g + 2 * lane, block, 2);
        // The minimum is taken off: its sign turns.
        store_le(to + kStepBytes * g + 32 + 2 * lane,
                 static_cast<uint16_t>(load_le<uint16_t>(block + 2) ^ 0x8000u));
      }
      return;
    }
    case Scales::kSixBits: {
      const std::byte* block = from.first + b * from.stride;
      for (uint64_t w = 0; w < 3; ++w)
        std::memcpy(to + kStepBytes * w + 4 * lane, block + 4 + 4 * w, 4);
      std::memcpy(to + 3 * kStepBytes + 4 * lane, block, 4);
      return;
    }
    case Scales::kNibbles: {
      const std::byte* block = from.first + b * from.stride;
      for (uint64_t w = 0; w < 4; ++w)
        std::memcpy(to + kStepBytes * w + 4 * lane, block + 4 * w, 4);
      std::memcpy(to + 4 * kStepBytes + 4 * lane, block + 80, 4);
      return;
    }
    case Scales::kBytes: {
      const std::byte* block = from.first + b * from.stride;
      const uint64_t words = block_cols(f) / f.group_cols / 4;
      for (uint64_t w = 0; w < words; ++w)
        store_le(to + kStepBytes * w + 4 * lane, byte_scales(f.id, block, static_cast<int>(w)));
      std::memcpy(to + words * kStepBytes + 2 * lane, block + half_offset(f.id), 2);
      return;
    }
    case Scales::kFloat:
    case Scales::kFloatAndLow:
      return;  // scatter_floats
  }
}

// The scales of a row, and its lows, as binary32 numbers.
struct FloatScales {
  std::vector<float> scale, low;
  uint64_t width = 0;  // columns of one
};
FloatScales float_scales(const Format& f, const std::byte* object, Geometry g, uint64_t row) {
  FloatScales out;
  out.width = f.group > 1 ? f.group : g.cols;
  const uint64_t n = g.cols / out.width + (g.cols % out.width != 0 ? 1 : 0);
  out.scale.resize(n);
  out.low.resize(n);
  f.groups(object, g, row, out.scale.data(), out.low.data());
  return out;
}
void scatter_floats(const PanelFormat& f, const FloatScales& from, uint64_t b, uint64_t cols,
                    std::byte* to, uint64_t lane) {
  const bool has_low = f.scales == Scales::kFloatAndLow;
  const uint64_t begin = b * block_cols(f), end = std::min(cols, begin + block_cols(f));
  uint64_t stored = begin / from.width, next = (stored + 1) * from.width;
  for (uint64_t col = begin; col < end; col += f.group_cols, to += (has_low ? 2 : 1) * kStepBytes) {
    if (col >= next) {  // a stored scale covers one group or more
      ++stored;
      next += from.width;
    }
    store_le(to + 4 * lane, from.scale[stored]);
    if (has_low) store_le(to + kStepBytes + 4 * lane, from.low[stored]);
  }
}

// value = scale · (code − offset) − low, for the group of column `in_block` of the block.
struct GroupScale {
  float scale = 0, low = 0;
};
GroupScale group_scale(const PanelFormat& f, const std::byte* block, uint64_t lane,
                       uint64_t in_block) {
  const uint64_t u = in_block / f.group_cols;
  switch (f.scales) {
    case Scales::kHalf:
      return {half_at(block + 32 * u + 2 * lane), 0};
    case Scales::kHalfAndLow: {
      const std::byte* at = block + kStepBytes * u + 2 * lane;
      return {half_at(at), half_at(at + 32)};
    }
    case Scales::kSixBits: {
      const auto field = [&](uint64_t i) {
        return std::to_integer<int>(block[i / 4 * kStepBytes + 4 * lane + i % 4]);
      };
      const int scale = u < 4 ? field(u) & 63 : (field(u + 4) & 15) + 16 * (field(u - 4) >> 6);
      const int least = u < 4 ? field(u + 4) & 63 : (field(u + 4) >> 4) + 16 * (field(u) >> 6);
      const std::byte* d = block + 3 * kStepBytes + 4 * lane;
      return {half_at(d) * static_cast<float>(scale), half_at(d + 2) * static_cast<float>(least)};
    }
    case Scales::kNibbles: {
      const int both = byte_at(block + u / 4 * kStepBytes + 4 * lane, static_cast<int>(u % 4));
      const std::byte* d = block + 4 * kStepBytes + 4 * lane;
      return {half_at(d) * static_cast<float>(both & 15),
              half_at(d + 2) * static_cast<float>(both >> 4)};
    }
    case Scales::kBytes: {
      const auto scale = load_le<int8_t>(block + u / 4 * kStepBytes + 4 * lane + u % 4);
      const std::byte* d = block + block_cols(f) / f.group_cols / 4 * kStepBytes + 2 * lane;
      return {half_at(d) * static_cast<float>(scale), 0};
    }
    case Scales::kFloat:
      return {load_le<float>(block + u * kStepBytes + 4 * lane), 0};
    case Scales::kFloatAndLow: {
      const std::byte* at = block + u * 2 * kStepBytes + 4 * lane;
      return {load_le<float>(at), load_le<float>(at + kStepBytes)};
    }
  }
  return {};
}

}  // namespace

bool has_panels(FormatId id) { return find(id) != nullptr; }

PanelShape panel_shape(FormatId id, uint64_t cols) {
  const PanelFormat* f = find(id);
  FLARE_ASSERT(f != nullptr);
  PanelShape shape;
  shape.block_cols = block_cols(*f);
  shape.blocks = checked_align_up(cols, shape.block_cols, "row") / shape.block_cols;
  shape.group_cols = f->group_cols;
  shape.low_bits = f->low_bits;
  shape.high_bits = f->high_bits;
  shape.scale_bytes = scale_bytes(*f);
  shape.code_bytes =
      shape.block_cols * kPanelRows * static_cast<uint64_t>(f->low_bits + f->high_bits) / 8;
  shape.block_bytes = shape.scale_bytes + shape.code_bytes;
  shape.bytes = checked_mul(shape.blocks, shape.block_bytes, "panel");
  return shape;
}

uint64_t n_panels(uint64_t rows) { return rows / kPanelRows + (rows % kPanelRows != 0 ? 1 : 0); }

uint64_t panels_bytes(FormatId id, Geometry g) {
  return checked_mul(n_panels(g.rows), panel_shape(id, g.cols).bytes, "panels");
}

void pack_panels(FormatId id, const std::byte* object, Geometry g, uint64_t begin, uint64_t end,
                 std::byte* out) {
  const PanelFormat& f = *find(id);
  const PanelShape shape = panel_shape(id, g.cols);
  const Format& stored = format(id);
  // Zeros stay behind the columns that a row stores.
  std::vector<uint8_t> codes(shape.blocks * shape.block_cols);
  for (uint64_t p = begin; p < end; ++p, out += shape.bytes) {
    std::memset(out, 0, shape.bytes);
    const uint64_t rows = std::min(kPanelRows, g.rows - p * kPanelRows);
    for (uint64_t lane = 0; lane < rows; ++lane) {
      const uint64_t row = p * kPanelRows + lane;
      if (has_pairs(id)) {
        scatter_pairs(shape, stored_pairs(id, object, g, row), out, lane);
      } else {
        stored.codes(object, g, row, codes.data());
      }
      const StoredScales scales = has_floats(f) ? StoredScales{} : stored_scales(f, object, g, row);
      const FloatScales floats =
          has_floats(f) ? float_scales(stored, object, g, row) : FloatScales{};
      std::byte* block = out;
      for (uint64_t b = 0; b < shape.blocks; ++b, block += shape.block_bytes) {
        if (!has_pairs(id))
          scatter_codes(f, shape, codes.data() + b * shape.block_cols, block, lane);
        if (has_floats(f)) {
          scatter_floats(f, floats, b, g.cols, block, lane);
        } else {
          scatter_scales(f, scales, b, block, lane);
        }
      }
    }
  }
}

void decode_panels(FormatId id, const std::byte* panels, Geometry g, uint64_t row, uint64_t col,
                   uint64_t n_cols, float* out) {
  const PanelFormat& f = *find(id);
  const PanelShape shape = panel_shape(id, g.cols);
  FLARE_ASSERT(row < g.rows && col % f.group_cols == 0 && col <= g.cols && n_cols <= g.cols - col);
  const std::byte* panel = panels + row / kPanelRows * shape.bytes;
  const uint64_t lane = row % kPanelRows;
  const bool has_low = f.scales == Scales::kHalfAndLow || f.scales == Scales::kSixBits ||
                       f.scales == Scales::kNibbles || f.scales == Scales::kFloatAndLow;
  const int8_t* table = table_of(id);
  const bool is_fp8 = f.scales == Scales::kFloat && f.low_bits == 8;
  for (uint64_t done = 0; done < n_cols; done += f.group_cols) {
    const std::byte* block = panel + (col + done) / shape.block_cols * shape.block_bytes;
    const uint64_t in_block = (col + done) % shape.block_cols;
    const GroupScale s = group_scale(f, block, lane, in_block);
    const uint64_t n = std::min(f.group_cols, n_cols - done);
    for (uint64_t i = 0; i < n; i += 4) {
      const uint32_t step = gather_step(f, shape, block, lane, (in_block + i) / 4);
      for (uint64_t b = 0; b < 4 && i + b < n; ++b) {
        const auto code = static_cast<int>(step >> (8 * b) & 0xff);
        const float value =
            s.scale * (is_fp8
                           ? e4m3_to_f32(static_cast<uint8_t>(code))
                           : static_cast<float>(table != nullptr ? table[code] : code - f.offset));
        out[done + i + b] = has_low ? value - s.low : value;
      }
    }
  }
}

}  // namespace flare::codec
