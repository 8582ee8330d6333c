// gguf_blocks_v1 (artifact.md §7.6): rows of ggml's blocks, written once for every block type.
//
// A block type supplies
//   static constexpr FormatId kId; kName;
//   static constexpr uint64_t kValues; kBytes;       of a block
//   static constexpr uint64_t kHalves[];             offsets of its fp16 fields
//   static void decode(const std::byte* block, float* out);      kValues exact values
//   static void codes(const std::byte* block, uint8_t* out);     kValues codes, see Format::codes;
//                                                    absent where nothing needs them
//   static bool encode(const float* x, const float* w, std::byte* block);   absent without an
//                                                    encoder; w: weights of squared errors, kValues
//                                                    of them, >= 0; false: x cannot be held
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "base/float_types.h"
#include "codec/format.h"
#include "codec/grouped_search.h"
#include "codec/lanes.h"

namespace flare::codec {

inline constexpr std::string_view kGgufBlocksName = "gguf_blocks_v1";

inline float half_at(const std::byte* p) { return fp16_to_f32(load_le<uint16_t>(p)); }
inline int byte_at(const std::byte* p, int i) { return std::to_integer<int>(p[i]); }
// Code j of 32 in 16 bytes: low halves first.
inline int nibble_at(const std::byte* codes, int j) {
  return j < 16 ? byte_at(codes, j) & 15 : byte_at(codes, j - 16) >> 4;
}
// The same with a fifth bit each in the four bytes before them.
inline int five_bits(const std::byte* fifths_and_codes, int j) {
  return nibble_at(fifths_and_codes + 4, j) +
         16 * static_cast<int>(load_le<uint32_t>(fifths_and_codes) >> j & 1);
}
// All 32 of either, without a branch in the loop.
inline void nibble_codes(const std::byte* codes, uint8_t* out) {
  for (int i = 0; i < 16; ++i) {
    const auto pair = std::to_integer<uint8_t>(codes[i]);
    out[i] = pair & 15;
    out[16 + i] = pair >> 4;
  }
}
inline void five_bit_codes(const std::byte* fifths_and_codes, uint8_t* out) {
  for (int i = 0; i < 4; ++i) {
    const auto pairs = load_le<uint64_t>(fifths_and_codes + 4 + i % 2 * 8) >> (i / 2 * 4);
    store_le(reinterpret_cast<std::byte*>(out + 8 * i),
             (pairs & 0x0f0f0f0f0f0f0f0fu) | spread_bits(fifths_and_codes[i]) << 4);
  }
}
// Scale and minimum of 32 values in the 12 bytes of q4_k and q5_k.
struct SixBits {
  int scale, least;
};
inline SixBits six_bits(const std::byte* packed, int u) {
  if (u < 4) return {byte_at(packed, u) & 63, byte_at(packed, u + 4) & 63};
  const int low = byte_at(packed, u + 4);
  return {(low & 15) + 16 * (byte_at(packed, u - 4) >> 6),
          (low >> 4) + 16 * (byte_at(packed, u) >> 6)};
}
// Scale u of 16 in the 12 bytes of q3_k: four bits in a nibble of the first eight, two in the rest.
inline int q3_scale(const std::byte* packed, int u) {
  const int low = u < 8 ? byte_at(packed, u) & 15 : byte_at(packed, u - 8) >> 4;
  return low + 16 * (byte_at(packed, 8 + u % 4) >> 2 * (u / 4) & 3) - 32;
}
// Scales [4·w, 4·w + 4), one a byte.
inline uint32_t q3_scales(const std::byte* packed, int w) {
  const uint32_t low = load_le<uint32_t>(packed + w % 2 * 4) >> (w / 2 * 4) & 0x0f0f0f0fu;
  const uint32_t high = load_le<uint32_t>(packed + 8) >> (2 * w) & 0x03030303u;
  // 32 off each byte; the top bits keep what one borrows from the next.
  return ((low | high << 4 | 0x80808080u) - 0x20202020u) ^ 0x80808080u;
}
// Scale u of the 8 of an iq4_xs block.
inline int iq4_scale(const std::byte* block, int u) {
  const int low = byte_at(block, 4 + u / 2) >> 4 * (u % 2) & 15;
  return low + 16 * (load_le<uint16_t>(block + 2) >> 2 * u & 3) - 32;
}
// The same pair written: six_bits of the result gives it back.
inline void set_six_bits(std::byte* packed, int u, SixBits pair) {
  const auto put = [&](int i, int value) { packed[i] = static_cast<std::byte>(value); };
  if (u < 4) {
    put(u, (byte_at(packed, u) & 0xc0) | pair.scale);
    put(u + 4, (byte_at(packed, u + 4) & 0xc0) | pair.least);
    return;
  }
  put(u + 4, (pair.scale & 15) | (pair.least & 15) << 4);
  put(u - 4, (byte_at(packed, u - 4) & 63) | (pair.scale >> 4) << 6);
  put(u, (byte_at(packed, u) & 63) | (pair.least >> 4) << 6);
}
// What the codes of iq4_nl and iq4_xs stand for.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

template <typename Block>
struct GgufBlocks {
  static Planes planes(Geometry g) {
    if (g.cols % Block::kValues != 0)
      throw Error(Code::kEncoding, "{}: rows of {} columns, a multiple of {} expected",
                  Block::kName, g.cols, Block::kValues);
    Planes out;
    out.count = 1;
    out.plane[0] = {0, checked_mul(g.cols / Block::kValues, Block::kBytes, "row size")};
    out.total_bytes = checked_mul(g.rows, out.plane[0].row_bytes, "object size");
    return out;
  }

  static const std::byte* block_at(const std::byte* object, Geometry g, uint64_t row,
                                   uint64_t col) {
    return object + (row * (g.cols / Block::kValues) + col / Block::kValues) * Block::kBytes;
  }

  static void decode(const std::byte* object, Geometry g, uint64_t row, uint64_t col,
                     uint64_t n_cols, float* out) {
    const std::byte* block = block_at(object, g, row, col);
    for (; n_cols >= Block::kValues; n_cols -= Block::kValues, out += Block::kValues) {
      Block::decode(block, out);
      block += Block::kBytes;
    }
    if (n_cols == 0) return;
    float values[Block::kValues];
    Block::decode(block, values);
    std::memcpy(out, values, n_cols * sizeof(float));
  }

  static void codes(const std::byte* object, Geometry g, uint64_t row, uint8_t* out) {
    const std::byte* block = block_at(object, g, row, 0);
    for (uint64_t col = 0; col < g.cols; col += Block::kValues, block += Block::kBytes)
      Block::codes(block, out + col);
  }

  static void encode(const float* src, uint64_t n_rows, Geometry g, std::byte* const* dst) {
    search(src, n_rows, g, nullptr, dst);
  }

  static void search(const float* src, uint64_t n_rows, Geometry g, const float* importance,
                     std::byte* const* dst) {
    const GroupWeights weights(importance, g.cols, Block::kValues);
    const Planes p = planes(g);
    for (uint64_t r = 0; r < n_rows; ++r)
      for (uint64_t col = 0; col < g.cols; col += Block::kValues) {
        std::byte* block = dst[0] + r * p.plane[0].row_bytes + col / Block::kValues * Block::kBytes;
        const float* x = src + r * g.cols + col;
        if (!Block::encode(x, weights.of_group(col / Block::kValues), block)) refuse(x, r, col);
      }
  }

  [[noreturn]] static void refuse(const float* x, uint64_t row, uint64_t first_col) {
    uint64_t worst = 0;
    for (uint64_t i = 0; i < Block::kValues; ++i) {
      if (!std::isfinite(x[i]))
        throw Error(Code::kValue, "row {} column {}: {}, a finite value expected", row,
                    first_col + i, x[i]);
      if (std::fabs(x[i]) > std::fabs(x[worst])) worst = i;
    }
    throw Error(Code::kValue, "row {} column {}: {} needs a scale above fp16, less expected for {}",
                row, first_col + worst, x[worst], Block::kName);
  }

  static void validate(const std::byte* object, Geometry g, uint64_t row, uint64_t n_rows) {
    for (uint64_t r = row; r < row + n_rows; ++r)
      for (uint64_t col = 0; col < g.cols; col += Block::kValues) {
        const std::byte* block = block_at(object, g, r, col);
        for (const uint64_t at : Block::kHalves) {
          const auto word = load_le<uint16_t>(block + at);
          if ((word & 0x7c00u) == 0x7c00u)
            throw Error(Code::kValue,
                        "row {} column {}: scale 0x{:04X} of {}, a finite one expected", r, col,
                        word, Block::kName);
        }
      }
  }

  static constexpr auto codes_function() -> decltype(&GgufBlocks::codes) {
    if constexpr (requires { &Block::codes; }) return codes;
    return nullptr;
  }
  static constexpr auto encode_function() -> decltype(&GgufBlocks::encode) {
    if constexpr (requires { &Block::encode; }) return encode;
    return nullptr;
  }

  static Format format() {
    return {.id = Block::kId,
            .name = Block::kName,
            .layout = LayoutId::kGgufBlocks,
            .layout_name = kGgufBlocksName,
            .group = Block::kValues,
            .quantised = true,
            .word_bytes = 0,
            .bits_per_weight = 8.0 * Block::kBytes / Block::kValues,
            .planes = planes,
            .decode = decode,
            .codes = codes_function(),
            .encode = encode_function(),
            .validate = validate};
  }
};

}  // namespace flare::codec
