// row_blocks_v1 (docs/formats.md): codes, zero points, scales and row divisors in planes of rows,
// written once for every code that comes with small blocks of columns.
//
// A format supplies
//   static constexpr FormatId kId; kName;
//   using Element;                   one of the codes below
//   using Scale;                     one of the scale words below
//   static constexpr uint64_t kGroup;        columns that share a scale; 0: the whole row
//   static constexpr bool kRowDivisor;       fp32 by which the row's products are divided
// An element supplies kBits (4 or 8), kZeroBits (4, 8, or 0: no zero points), kEncodes (the rule of
// OCP's MX formats), kLargest (magnitude), legal(code) and value(code, zero); with kEncodes also
// kTopExponent and round(value). For Format::codes and Format::groups: kRaised (what turns a code
// into an unsigned one), kUnit (the value of 1) and zero(z).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/checked.h"
#include "base/float_types.h"
#include "codec/float4.h"
#include "codec/format.h"
#include "codec/lanes.h"

namespace flare::codec {

inline constexpr std::string_view kRowBlocksName = "row_blocks_v1";
inline constexpr uint64_t kRowBlocksPlane = 256;  // planes begin at a multiple of this

// ---- scale words

struct Bf16Scale {
  static constexpr uint64_t kBytes = 2;
  static float widen(const std::byte* p) { return bf16_to_f32(load_le<uint16_t>(p)); }
  static bool legal(const std::byte* p) { return std::isfinite(widen(p)); }
};
struct Fp16Scale {
  static constexpr uint64_t kBytes = 2;
  static float widen(const std::byte* p) { return fp16_to_f32(load_le<uint16_t>(p)); }
  static bool legal(const std::byte* p) { return std::isfinite(widen(p)); }
};
struct Fp32Scale {
  static constexpr uint64_t kBytes = 4;
  static float widen(const std::byte* p) { return load_le<float>(p); }
  static bool legal(const std::byte* p) { return std::isfinite(widen(p)); }
};
struct E8m0Scale {
  static constexpr uint64_t kBytes = 1;
  static float widen(const std::byte* p) { return e8m0_to_f32(std::to_integer<uint8_t>(*p)); }
  static bool legal(const std::byte* p) { return *p != std::byte{255}; }
};
// Without sign, as nvfp4 has it.
struct E4m3Scale {
  static constexpr uint64_t kBytes = 1;
  static float widen(const std::byte* p) { return e4m3_to_f32(std::to_integer<uint8_t>(*p)); }
  static bool legal(const std::byte* p) { return std::to_integer<int>(*p) < 0x7f; }
};

// ---- codes

struct E2m1Element {
  static constexpr int kBits = 4, kZeroBits = 0, kTopExponent = 2;
  static constexpr unsigned kRaised = 0;
  static constexpr float kUnit = 0.5f;
  static int zero(unsigned) { return 0; }
  static constexpr bool kEncodes = true;
  static constexpr float kLargest = 6;
  static bool legal(unsigned) { return true; }
  static float value(unsigned code, unsigned) { return kE2m1Values[code]; }
  static unsigned round(float value) { return f32_to_e2m1(value); }
};
struct E4m3Element {
  static constexpr int kBits = 8, kZeroBits = 0, kTopExponent = 8;
  static constexpr unsigned kRaised = 0;
  static constexpr float kUnit = 1;
  static int zero(unsigned) { return 0; }
  static constexpr bool kEncodes = true;
  static constexpr float kLargest = 448;
  static bool legal(unsigned code) { return (code & 0x7f) != 0x7f; }
  static float value(unsigned code, unsigned) { return kValues[code]; }
  static unsigned round(float value) { return f32_to_e4m3(value); }
  static inline const std::array<float, 256> kValues = [] {
    std::array<float, 256> values{};
    for (unsigned i = 0; i < values.size(); ++i) values[i] = e4m3_to_f32(static_cast<uint8_t>(i));
    return values;
  }();
};
// Two's complement, all words legal.
struct Signed4Element {
  static constexpr int kBits = 4, kZeroBits = 0;
  static constexpr unsigned kRaised = 8;
  static constexpr float kUnit = 1;
  static int zero(unsigned) { return 8; }
  static constexpr bool kEncodes = false;
  static constexpr float kLargest = 8;
  static bool legal(unsigned) { return true; }
  static float value(unsigned code, unsigned) {
    return static_cast<float>(static_cast<int>(code ^ 8) - 8);
  }
};
struct Signed8Element {
  static constexpr int kBits = 8, kZeroBits = 0;
  static constexpr unsigned kRaised = 128;
  static constexpr float kUnit = 1;
  static int zero(unsigned) { return 0; }
  static constexpr bool kEncodes = false;
  static constexpr float kLargest = 128;
  static bool legal(unsigned) { return true; }
  static float value(unsigned code, unsigned) {
    return static_cast<float>(static_cast<int>(code ^ 128) - 128);
  }
};
// Unsigned codes around a zero point of as many bits.
template <int kCodeBits>
struct ZeroPointElement {
  static constexpr int kBits = kCodeBits, kZeroBits = kCodeBits;
  static constexpr unsigned kRaised = 0;
  static constexpr float kUnit = 1;
  static int zero(unsigned z) { return static_cast<int>(z) - (kCodeBits == 8 ? 128 : 0); }
  static constexpr bool kEncodes = false;
  static constexpr float kLargest = (1 << kCodeBits) - 1;
  static bool legal(unsigned) { return true; }
  static float value(unsigned code, unsigned zero) {
    return static_cast<float>(static_cast<int>(code) - static_cast<int>(zero));
  }
};

template <typename C>
struct RowBlocks {
  using Element = typename C::Element;
  using Scale = typename C::Scale;
  static constexpr bool kHasZeros = Element::kZeroBits != 0;
  static constexpr int kScalePlane = kHasZeros ? 2 : 1;
  // The MX rule gives powers of two; nvfp4 has its own.
  static constexpr bool kHasEncoder = Element::kEncodes && std::is_same_v<Scale, E8m0Scale>;
  static_assert(!(kHasZeros && C::kRowDivisor) && kMaxPlanes >= 3);

  static uint64_t groups_of(uint64_t cols) {
    if constexpr (C::kGroup == 0) return 1;
    return cols / C::kGroup + (cols % C::kGroup != 0 ? 1 : 0);
  }
  // Bytes of n fields of 4 or 8 bits.
  static uint64_t packed_bytes(uint64_t n, int bits) { return bits == 8 ? n : n / 2 + n % 2; }

  static Planes planes(Geometry g) {
    if (g.rows == 0 || g.cols == 0)
      throw Error(Code::kEncoding, "{}: a matrix of {} × {}, at least one row and column expected",
                  C::kName, g.rows, g.cols);
    const uint64_t groups = groups_of(g.cols);
    Planes out;
    append_plane(out, g.rows, packed_bytes(g.cols, Element::kBits));
    if constexpr (kHasZeros) append_plane(out, g.rows, packed_bytes(groups, Element::kZeroBits));
    append_plane(out, g.rows, checked_mul(groups, Scale::kBytes, "row size"));
    if constexpr (C::kRowDivisor) append_plane(out, g.rows, sizeof(float));
    return out;
  }

  static void decode(const std::byte* object, Geometry g, uint64_t row, uint64_t col,
                     uint64_t n_cols, float* out) {
    FLARE_ASSERT(row < g.rows && col <= g.cols && n_cols <= g.cols - col);
    FLARE_ASSERT(C::kGroup == 0 || col % C::kGroup == 0);
    const Row at(planes(g), object, row);
    for (uint64_t done = 0; done < n_cols;) {
      const uint64_t group = C::kGroup == 0 ? 0 : (col + done) / C::kGroup;
      const uint64_t n = C::kGroup == 0 ? n_cols : std::min(C::kGroup, n_cols - done);
      const float scale = at.scale(group);
      const unsigned zero = at.zero(group);
      decode_group(at.plane[0], col + done, n, zero, scale, out + done);
      done += n;
    }
    if constexpr (C::kRowDivisor) {
      const float divisor = at.divisor();
      for (uint64_t i = 0; i < n_cols; ++i) out[i] /= divisor;
    }
  }

  static void codes(const std::byte* object, Geometry g, uint64_t row, uint8_t* out) {
    const Row at(planes(g), object, row);
    if constexpr (Element::kBits == 8) {
      std::memcpy(out, at.plane[0], g.cols);
    } else {
      unpack_all_nibbles(at.plane[0], g.cols, out);
    }
    if constexpr (Element::kRaised != 0)
      for (uint64_t col = 0; col < g.cols; ++col) out[col] ^= Element::kRaised;
  }

  static void groups(const std::byte* object, Geometry g, uint64_t row, float* scale, float* low) {
    const Row at(planes(g), object, row);
    for (uint64_t i = 0; i < groups_of(g.cols); ++i) {
      scale[i] = at.scale(i) * Element::kUnit;
      if constexpr (C::kRowDivisor) scale[i] /= at.divisor();
      low[i] = scale[i] * static_cast<float>(Element::zero(at.zero(i)));
    }
  }

  // The rule of the OCP Microscaling specification (v1.0, §6.3): the largest magnitude's exponent
  // less that of the element's largest number gives the scale; codes are rounded to nearest, ties
  // to even, and saturate.
  static void encode(const float* src, uint64_t n_rows, Geometry g, std::byte* const* dst) {
    const Planes p = planes(g);
    for (uint64_t row = 0; row < n_rows; ++row) {
      const float* x = src + row * g.cols;
      std::byte* codes = dst[0] + row * p.plane[0].row_bytes;
      std::byte* scales = dst[1] + row * p.plane[1].row_bytes;
      for (uint64_t col = 0; col < g.cols; col += C::kGroup)
        encode_block(x, row, col, std::min(C::kGroup, g.cols - col), codes,
                     scales + col / C::kGroup);
    }
  }
  static constexpr auto encode_function() -> decltype(&RowBlocks::encode) {
    if constexpr (kHasEncoder) return encode;
    return nullptr;
  }

  static void validate(const std::byte* object, Geometry g, uint64_t row, uint64_t n_rows) {
    FLARE_ASSERT(row <= g.rows && n_rows <= g.rows - row);
    const Planes p = planes(g);
    for (uint64_t r = row; r < row + n_rows; ++r) {
      const Row at(p, object, r);
      validate_padding(at, r, g.cols);
      if constexpr (C::kRowDivisor) {
        if (!std::isfinite(at.divisor()) || at.divisor() <= 0)
          throw Error(Code::kValue, "row {}: divisor {}, a finite number above 0 expected", r,
                      at.divisor());
      }
      const uint64_t width = C::kGroup == 0 ? g.cols : C::kGroup;
      for (uint64_t col = 0; col < g.cols; col += width)
        validate_group(at, r, col, std::min(width, g.cols - col));
    }
  }

  static Format format() {
    const double per_group = static_cast<double>(8 * Scale::kBytes) + Element::kZeroBits;
    return {.id = C::kId,
            .name = C::kName,
            .layout = LayoutId::kRowBlocks,
            .layout_name = kRowBlocksName,
            .group = C::kGroup == 0 ? 1 : static_cast<uint32_t>(C::kGroup),
            .quantised = true,
            .word_bytes = 0,
            .bits_per_weight =
                Element::kBits + (C::kGroup == 0 ? 0 : per_group / static_cast<double>(C::kGroup)),
            .planes = planes,
            .decode = decode,
            .codes = codes,
            .groups = groups,
            .encode = encode_function(),
            .validate = validate};
  }

 private:
  static unsigned field(const std::byte* fields, uint64_t i, int bits) {
    if (bits == 8) return std::to_integer<unsigned>(fields[i]);
    return std::to_integer<unsigned>(fields[i / 2]) >> (i % 2 * 4) & 15;
  }
  // Where the blocks of one row lie.
  struct Row {
    Row(const Planes& p, const std::byte* object, uint64_t row) {
      for (int i = 0; i < p.count; ++i)
        plane[i] = object + p.plane[i].offset + row * p.plane[i].row_bytes;
    }
    unsigned code(uint64_t col) const { return field(plane[0], col, Element::kBits); }
    unsigned zero(uint64_t group) const {
      if constexpr (!kHasZeros) return 0;
      return field(plane[1], group, Element::kZeroBits);
    }
    const std::byte* scale_at(uint64_t group) const {
      return plane[kScalePlane] + group * Scale::kBytes;
    }
    float scale(uint64_t group) const { return Scale::widen(scale_at(group)); }
    float divisor() const { return load_le<float>(plane[kScalePlane + 1]); }
    const std::byte* plane[kMaxPlanes] = {};
  };

  // Loops without branches, over bytes of two codes each.
  static void decode_group(const std::byte* codes, uint64_t col, uint64_t n, unsigned zero,
                           float scale, float* out) {
    if constexpr (Element::kBits == 8) {
      for (uint64_t i = 0; i < n; ++i)
        out[i] = Element::value(std::to_integer<unsigned>(codes[col + i]), zero) * scale;
    } else {
      const std::byte* pairs = codes + col / 2;  // groups begin in even columns
      for (uint64_t i = 0; i < n / 2; ++i) {
        const auto pair = std::to_integer<unsigned>(pairs[i]);
        out[2 * i] = Element::value(pair & 15, zero) * scale;
        out[2 * i + 1] = Element::value(pair >> 4, zero) * scale;
      }
      if (n % 2 == 1)
        out[n - 1] = Element::value(std::to_integer<unsigned>(pairs[n / 2]) & 15, zero) * scale;
    }
  }

  static void append_plane(Planes& planes, uint64_t rows, uint64_t row_bytes) {
    const uint64_t offset = checked_align_up(planes.total_bytes, kRowBlocksPlane, "object size");
    planes.plane[planes.count++] = {offset, row_bytes};
    planes.total_bytes =
        checked_add(offset, checked_mul(rows, row_bytes, "plane size"), "object size");
  }

  static void encode_block(const float* x, uint64_t row, uint64_t col, uint64_t n, std::byte* codes,
                           std::byte* scale_at) {
    float largest = 0;
    for (uint64_t i = col; i < col + n; ++i) {
      if (!std::isfinite(x[i]))
        throw Error(Code::kValue, "row {} column {}: {}, a finite value expected", row, i, x[i]);
      largest = std::max(largest, std::fabs(x[i]));
    }
    constexpr int kBias = 127, kLast = 254;
    int word = 0;
    if (largest != 0)
      word = std::clamp(std::ilogb(largest) - Element::kTopExponent + kBias, 0, kLast);
    *scale_at = static_cast<std::byte>(word);
    const float inverse = e8m0_to_f32(static_cast<uint8_t>(kLast - word));  // exact: 2^−exponent
    for (uint64_t i = col; i < col + n; ++i) {
      const unsigned code = Element::round(x[i] * inverse);
      if constexpr (Element::kBits == 8) {
        codes[i] = static_cast<std::byte>(code);
      } else if (i % 2 == 0) {
        codes[i / 2] = static_cast<std::byte>(code);
      } else {
        codes[i / 2] |= static_cast<std::byte>(code << 4);
      }
    }
  }

  // The upper half of a last byte that is half used.
  static void validate_padding(const Row& at, uint64_t row, uint64_t cols) {
    const auto check = [&](const std::byte* fields, uint64_t n, int bits, std::string_view what) {
      if (bits == 4 && n % 2 == 1 && (fields[n / 2] >> 4) != std::byte{0})
        throw Error(Code::kValue, "row {}: padding behind its {} {} is {}, 0 expected", row, n,
                    what, std::to_integer<int>(fields[n / 2] >> 4));
    };
    check(at.plane[0], cols, Element::kBits, "codes");
    if constexpr (kHasZeros) check(at.plane[1], groups_of(cols), Element::kZeroBits, "zero points");
  }

  static void validate_group(const Row& at, uint64_t row, uint64_t col, uint64_t n) {
    const uint64_t group = C::kGroup == 0 ? 0 : col / C::kGroup;
    const float scale = at.scale(group);
    if (!Scale::legal(at.scale_at(group)))
      throw Error(Code::kValue, "row {} column {}: scale {} of {}, a finite one expected", row, col,
                  scale, C::kName);
    if constexpr (std::is_same_v<Element, E4m3Element>) {
      for (uint64_t i = col; i < col + n; ++i)
        if (!Element::legal(at.code(i)))
          throw Error(Code::kValue, "row {} column {}: code 0x{:02X} is no number", row, i,
                      at.code(i));
    }
    if (std::isfinite(scale * Element::kLargest)) return;
    for (uint64_t i = col; i < col + n; ++i)
      if (!std::isfinite(Element::value(at.code(i), at.zero(group)) * scale))
        throw Error(Code::kValue, "row {} column {}: code 0x{:02X} under scale {} exceeds binary32",
                    row, i, at.code(i), scale);
  }
};

}  // namespace flare::codec
