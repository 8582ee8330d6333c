// nvfp4: E2M1 codes, an E4M3 scale for 16 columns, and divisors of whole matrices.
#include "codec/nvfp4.h"

#include <cmath>

#include "base/checked.h"
#include "base/float_types.h"
#include "codec/float4.h"
#include "codec/formats.h"
#include "codec/lanes.h"

namespace flare::codec {
namespace {

constexpr std::string_view kName = "nvfp4";
constexpr uint64_t kGroup = 16;
constexpr uint64_t kTileRows = 128;   // of the scale map
constexpr uint64_t kTileCols = 64;    // four groups
constexpr uint64_t kTileBytes = 512;  // scales of a tile
constexpr uint64_t kPlaneAlignment = 256;

// The scales of 128 rows lie together, those of one row do not: plane 1 counts rows in 128s.
// Behind them, at total_bytes − 4·divisors, are the divisors.
Planes planes(Geometry g) {
  if (g.rows % kTileRows != 0 || g.cols % kTileCols != 0 || g.rows == 0 || g.cols == 0)
    throw Error(Code::kEncoding, "{}: a matrix of {} × {}, multiples of {} and {} expected", kName,
                g.rows, g.cols, kTileRows, kTileCols);
  if (g.divisors == 0 || g.rows % g.divisors != 0 ||
      (g.divisors > 1 && g.rows / g.divisors % kTileRows != 0))
    throw Error(Code::kEncoding,
                "{}: {} divisors of {} rows, matrices of a multiple of {} rows each expected",
                kName, g.divisors, g.rows, kTileRows);
  Planes out;
  out.count = 2;
  out.plane[0] = {0, g.cols / 2};
  const uint64_t codes = checked_mul(g.rows, g.cols / 2, "object size");
  out.plane[1] = {checked_align_up(codes, kPlaneAlignment, "object size"), g.cols / kGroup};
  const uint64_t scales = checked_mul(g.rows, g.cols / kGroup, "plane size");
  out.total_bytes = checked_add(checked_add(out.plane[1].offset, scales, "object size"),
                                checked_mul(g.divisors, 4, "divisors"), "object size");
  return out;
}

float divisor_of(const std::byte* object, const Planes& p, Geometry g, uint64_t row) {
  const uint64_t index = row / (g.rows / g.divisors);
  return load_le<float>(object + p.total_bytes - 4 * g.divisors + 4 * index);
}

void decode(const std::byte* object, Geometry g, uint64_t row, uint64_t col, uint64_t n_cols,
            float* out) {
  FLARE_ASSERT(row < g.rows && col % kGroup == 0 && col <= g.cols && n_cols <= g.cols - col);
  const Planes p = planes(g);
  const std::byte* codes = object + row * p.plane[0].row_bytes;
  const std::byte* scales = object + p.plane[1].offset;
  const float divisor = divisor_of(object, p, g, row);
  for (uint64_t i = 0; i < n_cols; ++i) {
    const uint64_t c = col + i;
    const auto scale = std::to_integer<uint8_t>(scales[nvfp4_scale_offset(g, row, c / kGroup)]);
    const unsigned pair = std::to_integer<unsigned>(codes[c / 2]);
    out[i] = kE2m1Values[c % 2 == 0 ? pair & 15 : pair >> 4] * e4m3_to_f32(scale) / divisor;
  }
}

void codes(const std::byte* object, Geometry g, uint64_t row, uint8_t* out) {
  unpack_all_nibbles(object + row * planes(g).plane[0].row_bytes, g.cols, out);
}

void groups(const std::byte* object, Geometry g, uint64_t row, float* scale, float* low) {
  const Planes p = planes(g);
  const std::byte* scales = object + p.plane[1].offset;
  const float divisor = divisor_of(object, p, g, row);
  for (uint64_t i = 0; i < g.cols / kGroup; ++i) {
    const auto word = std::to_integer<uint8_t>(scales[nvfp4_scale_offset(g, row, i)]);
    scale[i] = 0.5f * e4m3_to_f32(word) / divisor;
    low[i] = 0;
  }
}

// Needs the parent's largest magnitude first: nvfp4.h.
void encode(const float*, uint64_t, Geometry, std::byte* const*) {
  throw Error(Code::kInternal, "{} is encoded by nvfp4_encode_rows", kName);
}

void validate(const std::byte* object, Geometry g, uint64_t row, uint64_t n_rows) {
  FLARE_ASSERT(row <= g.rows && n_rows <= g.rows - row);
  const Planes p = planes(g);
  const std::byte* scales = object + p.plane[1].offset;
  for (uint64_t r = row; r < row + n_rows; ++r) {
    const float divisor = divisor_of(object, p, g, r);
    if (!std::isfinite(divisor) || divisor <= 0)
      throw Error(Code::kValue, "row {}: divisor {}, a finite number above 0 expected", r, divisor);
    for (uint64_t group = 0; group < g.cols / kGroup; ++group) {
      const auto scale = std::to_integer<unsigned>(scales[nvfp4_scale_offset(g, r, group)]);
      if (scale >= 0x7f)
        throw Error(Code::kValue,
                    "row {} column {}: scale 0x{:02X}, a number without sign expected", r,
                    group * kGroup, scale);
    }
  }
}

// §8.5 steps 2 to 5 on sixteen values; `codes` are eight bytes. False: a value is not finite.
bool encode_block(const float* x, float divisor, std::byte* codes, std::byte* scale_at) {
  float scaled[kGroup], largest = 0;
  for (uint64_t i = 0; i < kGroup; ++i) {
    scaled[i] = x[i] * divisor;
    if (!std::isfinite(scaled[i])) return false;
    largest = std::max(largest, std::fabs(scaled[i]));
  }
  const uint8_t word = f32_to_e4m3(std::min(largest / 6.0f, 448.0f));
  *scale_at = std::byte{word};
  const float scale = e4m3_to_f32(word);
  for (uint64_t i = 0; i < kGroup; i += 2) {
    const auto code = [&](float value) { return word == 0 ? 0 : f32_to_e2m1(value / scale); };
    codes[i / 2] = static_cast<std::byte>(code(scaled[i]) | code(scaled[i + 1]) << 4);
  }
  return true;
}

}  // namespace

uint64_t nvfp4_scale_offset(Geometry g, uint64_t row, uint64_t group) {
  const uint64_t tile = row / kTileRows * (g.cols / kTileCols) + group / 4;
  return kTileBytes * tile + 16 * (row % 32) + 4 * (row % kTileRows / 32) + group % 4;
}

float nvfp4_divisor(float largest) {
  if (largest == 0) return 1;
  const float divisor = 2688.0f / largest;
  if (!std::isfinite(divisor) || divisor <= 0)
    throw Error(Code::kValue, "largest magnitude {} has no nvfp4 divisor, a normal number expected",
                largest);
  return divisor;
}

void nvfp4_encode_rows(const float* src, uint64_t row, uint64_t n_rows, Geometry g, float divisor,
                       std::byte* object) {
  const Planes p = planes(g);
  FLARE_ASSERT(row <= g.rows && n_rows <= g.rows - row);
  for (uint64_t r = 0; r < n_rows; ++r)
    for (uint64_t group = 0; group < g.cols / kGroup; ++group) {
      const float* x = src + r * g.cols + group * kGroup;
      std::byte* codes = object + (row + r) * p.plane[0].row_bytes + group * kGroup / 2;
      std::byte* scale = object + p.plane[1].offset + nvfp4_scale_offset(g, row + r, group);
      if (!encode_block(x, divisor, codes, scale))
        throw Error(Code::kValue, "row {} columns {}..{}: a value that is not finite under {}", r,
                    group * kGroup, group * kGroup + kGroup - 1, kName);
    }
}

void nvfp4_set_divisors(Geometry g, const float* divisors, std::byte* object) {
  const Planes p = planes(g);
  for (uint64_t i = 0; i < g.divisors; ++i)
    store_le(object + p.total_bytes - 4 * (g.divisors - i), divisors[i]);
}

Format nvfp4_format() {
  return {.id = FormatId::kNvfp4,
          .name = kName,
          .layout = LayoutId::kBlockScale,
          .layout_name = "block_scale_k16_m128x4_v1",
          .group = kGroup,
          .quantised = true,
          .word_bytes = 0,
          .bits_per_weight = 4.5,
          .planes = planes,
          .decode = decode,
          .codes = codes,
          .groups = groups,
          .encode = encode,
          .validate = validate};
}

}  // namespace flare::codec
