// fp8 codes with one scale a row: what both formats share (artifact.md §6.3, §7.4, §7.5, §8.4).
//
// A format supplies
//   static constexpr FormatId kId; kName; kLayout; kLayoutName;
//   static float widen(uint16_t);  static uint16_t narrow(float);    of the scale word
//   static Planes planes(Geometry);                                  codes first
//   static uint64_t scale_offset(const Planes&, Geometry, uint64_t row);   from the object's start
//   static std::byte* scale_place(const Planes&, Geometry, std::byte* const* dst, uint64_t row);
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "base/float_types.h"
#include "codec/format.h"

namespace flare::codec {

template <typename R>
struct Fp8Row {
  static void decode(const std::byte* object, Geometry g, uint64_t row, uint64_t col,
                     uint64_t n_cols, float* out) {
    FLARE_ASSERT(row < g.rows && col <= g.cols && n_cols <= g.cols - col);
    const Planes p = R::planes(g);
    const std::byte* codes = object + row * p.plane[0].row_bytes + col;
    const float scale = R::widen(load_le<uint16_t>(object + R::scale_offset(p, g, row)));
    for (uint64_t i = 0; i < n_cols; ++i)
      out[i] = scale * e4m3_to_f32(std::to_integer<uint8_t>(codes[i]));
  }

  static void codes(const std::byte* object, Geometry g, uint64_t row, uint8_t* out) {
    const Planes p = R::planes(g);
    std::memcpy(out, object + row * p.plane[0].row_bytes, g.cols);
  }

  static void groups(const std::byte* object, Geometry g, uint64_t row, float* scale, float* low) {
    scale[0] = R::widen(load_le<uint16_t>(object + R::scale_offset(R::planes(g), g, row)));
    low[0] = 0;
  }

  static void encode(const float* src, uint64_t n_rows, Geometry g, std::byte* const* dst) {
    const Planes p = R::planes(g);
    for (uint64_t row = 0; row < n_rows; ++row)
      encode_row(src + row * g.cols, row, g.cols, dst[0] + row * p.plane[0].row_bytes,
                 R::scale_place(p, g, dst, row));
  }

  static void validate(const std::byte* object, Geometry g, uint64_t row, uint64_t n_rows) {
    FLARE_ASSERT(row <= g.rows && n_rows <= g.rows - row);
    const Planes p = R::planes(g);
    for (uint64_t r = row; r < row + n_rows; ++r) {
      const auto scale = load_le<uint16_t>(object + R::scale_offset(p, g, r));
      if (scale >= 0x8000u || !std::isfinite(R::widen(scale)))
        throw Error(Code::kValue, "row {}: scale word 0x{:04X}, a finite one without sign expected",
                    r, scale);
      const std::byte* codes = object + r * p.plane[0].row_bytes;
      for (uint64_t c = 0; c < g.cols; ++c) {
        const unsigned magnitude = std::to_integer<unsigned>(codes[c]) & 0x7fu;
        if (magnitude == 0x7f)
          throw Error(Code::kValue, "row {} column {}: code 0x{:02X} is no number", r, c,
                      std::to_integer<unsigned>(codes[c]));
        if (scale == 0 && magnitude != 0)
          throw Error(Code::kValue, "row {} column {}: code 0x{:02X} under scale 0, 0 expected", r,
                      c, std::to_integer<unsigned>(codes[c]));
      }
    }
  }

  static Format format() {
    return {.id = R::kId,
            .name = R::kName,
            .layout = R::kLayout,
            .layout_name = R::kLayoutName,
            .group = 1,
            .quantised = true,
            .word_bytes = 0,
            .bits_per_weight = 8,
            .planes = R::planes,
            .decode = decode,
            .codes = codes,
            .groups = groups,
            .encode = encode,
            .validate = validate};
  }

 private:
  // §8.4, values rounded to bf16 first.
  static void encode_row(const float* x, uint64_t row, uint64_t cols, std::byte* codes,
                         std::byte* scale_at) {
    const auto refuse = [&](uint64_t col, std::string_view expected) {
      throw Error(Code::kValue, "row {} column {}: {}, {} expected", row, col, x[col], expected);
    };
    uint64_t largest_at = 0;
    float largest = 0;
    for (uint64_t c = 0; c < cols; ++c) {
      const float magnitude = std::fabs(bf16_to_f32(f32_to_bf16(x[c])));
      if (!std::isfinite(magnitude)) refuse(c, "a finite value");
      if (magnitude > largest) largest = magnitude, largest_at = c;
    }
    uint16_t scale = largest == 0 ? uint16_t{0} : R::narrow(largest / 448.0f);
    if (largest != 0 && scale == 0) scale = 1;
    store_le(scale_at, scale);
    if (scale == 0) {
      std::fill(codes, codes + cols, std::byte{0});
      return;
    }
    const float inverse = 1.0f / R::widen(scale);
    if (!std::isfinite(R::widen(scale)) || !std::isfinite(inverse))
      refuse(largest_at, "a largest value with a scale that has a reciprocal");
    for (uint64_t c = 0; c < cols; ++c) {
      const float y = bf16_to_f32(f32_to_bf16(x[c])) * inverse;
      if (!std::isfinite(y)) refuse(c, "a value within its scale");
      codes[c] = std::byte{f32_to_e4m3(y)};
    }
  }
};

}  // namespace flare::codec
