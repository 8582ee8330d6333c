// The blocks of ggml that gguf_repacked.cc takes apart: their values, and their words in the planes
// of one of our formats.
//
// A block supplies kFormats (any of them; the best first), kScheme, kValues and kBytes of a block,
// kCodeBytes and kScaleBytes of it in the format's first two planes, and
//   static void check(block, refuse);          refuse(column in the block, text) does not return
//   static void decode(block, out);            kValues values
//   static void copy(block, codes, scales);    its bytes in the planes
//   kPadding                                   codes of columns behind the last; their scales are 0
// What check() refuses, the other two are not asked for.
#pragma once

#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/float_types.h"
#include "codec/float4.h"
#include "codec/gguf_blocks.h"

namespace flare::prepare {

// An E8M0 scale, then 16 bytes of E2M1 codes: value j in the low half of byte j, value 16 + j in
// the high one. The format has neighbours in a byte. Scale 0 is 2^-127; 255, which is no number of
// E8M0, readers of ggml take for 2^128.
struct Mxfp4Block {
  static constexpr std::array kFormats = {codec::FormatId::kMxfp4};
  static constexpr const char* kScheme = "GGUF MXFP4";
  static constexpr uint64_t kValues = 32, kBytes = 17, kCodeBytes = 16, kScaleBytes = 1;
  static constexpr std::byte kPadding{0};

  static float value_at(const std::byte* block, int j) {
    return codec::kE2m1Values[codec::nibble_at(block + 1, j)] *
           e8m0_to_f32(std::to_integer<uint8_t>(block[0]));
  }

  template <typename Refuse>
  static void check(const std::byte* block, Refuse refuse) {
    constexpr auto kSafe = std::byte{252};  // 6·2^125 is finite
    if (block[0] == std::byte{255}) refuse(0, "scale 255 is no number, 0..254 expected");
    if (block[0] <= kSafe) return;
    for (int j = 0; j < 32; ++j)
      if (!std::isfinite(value_at(block, j)))
        refuse(j, fmt::format("code {} under scale {} exceeds binary32",
                              codec::nibble_at(block + 1, j), codec::byte_at(block, 0)));
  }
  static void decode(const std::byte* block, float* out) {
    for (int j = 0; j < 32; ++j) out[j] = value_at(block, j);
  }
  static void copy(const std::byte* block, std::byte* codes, std::byte* scales) {
    for (int i = 0; i < 16; ++i)
      codes[i] = static_cast<std::byte>(codec::nibble_at(block + 1, 2 * i) |
                                        codec::nibble_at(block + 1, 2 * i + 1) << 4);
    scales[0] = block[0];
  }
};

// Four scales of E4M3 without sign, then the E2M1 codes of 16 values each in 8 bytes: the first
// half low, the second high. The format has neighbours in a byte. Readers of ggml take scale 0x7F,
// which is no number of E4M3, for 0 and pass over a sign.
struct Nvfp4Block {
  static constexpr std::array kFormats = {codec::FormatId::kNvfp4, codec::FormatId::kNvfp4Rows};
  static constexpr const char* kScheme = "GGUF NVFP4";
  static constexpr uint64_t kValues = 64, kBytes = 36, kCodeBytes = 32, kScaleBytes = 4;
  static constexpr std::byte kPadding{0};

  static int code_at(const std::byte* block, int j) {
    const int byte = codec::byte_at(block, 4 + 8 * (j / 16) + j % 8);
    return j % 16 < 8 ? byte & 15 : byte >> 4;
  }

  template <typename Refuse>
  static void check(const std::byte* block, Refuse refuse) {
    for (int g = 0; g < 4; ++g)
      if (codec::byte_at(block, g) >= 0x7f)
        refuse(16 * g, fmt::format("scale 0x{:02X}, a finite one without sign expected",
                                   codec::byte_at(block, g)));
  }
  static void decode(const std::byte* block, float* out) {
    for (int j = 0; j < 64; ++j)
      out[j] = codec::kE2m1Values[code_at(block, j)] *
               e4m3_to_f32(std::to_integer<uint8_t>(block[j / 16]));
  }
  static void copy(const std::byte* block, std::byte* codes, std::byte* scales) {
    for (int i = 0; i < 32; ++i)
      codes[i] = static_cast<std::byte>(code_at(block, 2 * i) | code_at(block, 2 * i + 1) << 4);
    std::memcpy(scales, block, kScaleBytes);
  }
};

// Values d·(c − 1) under one fp16 scale d. Codes supplies kScheme, kValues, kBytes, kScaleAt (where
// d stands), kHasZero (whether c may be 1) and code_at(block, j), 0..3. The format has c − 1 in
// two's complement, and a scale for 128 values.
template <typename Codes>
struct TernaryBlock {
  static constexpr std::array kFormats = {codec::FormatId::kT2G128};
  static constexpr const char* kScheme = Codes::kScheme;
  static constexpr uint64_t kValues = Codes::kValues, kBytes = Codes::kBytes;
  static constexpr uint64_t kCodeBytes = kValues / 4, kScaleBytes = 2 * (kValues / 128);
  static constexpr std::byte kPadding{0};

  static uint16_t scale_word(const std::byte* block) {
    return load_le<uint16_t>(block + Codes::kScaleAt);
  }

  template <typename Refuse>
  static void check(const std::byte* block, Refuse refuse) {
    const uint16_t word = scale_word(block);
    if ((word & 0x7c00u) == 0x7c00u || word == 0x8000)
      refuse(0, fmt::format("scale 0x{:04X}, a finite one that is not -0 expected", word));
    for (int j = 0; j < static_cast<int>(kValues); ++j) {
      const int code = Codes::code_at(block, j);
      if (code == 3) refuse(j, "code 3, 0..2 expected");
      if (word == 0 && Codes::kHasZero && code != 1)
        refuse(j, fmt::format("code {} under scale 0, 1 expected", code));
    }
  }
  static void decode(const std::byte* block, float* out) {
    const float scale = fp16_to_f32(scale_word(block));
    for (int j = 0; j < static_cast<int>(kValues); ++j)
      out[j] = scale * static_cast<float>(Codes::code_at(block, j) - 1);
  }
  static void copy(const std::byte* block, std::byte* codes, std::byte* scales) {
    const uint16_t word = scale_word(block);
    for (int i = 0; i < static_cast<int>(kCodeBytes); ++i) {
      int four = 0;
      for (int j = 0; j < 4; ++j) four |= ((Codes::code_at(block, 4 * i + j) + 3) & 3) << 2 * j;
      codes[i] = static_cast<std::byte>(word == 0 ? 0 : four);
    }
    for (uint64_t i = 0; i < kScaleBytes; i += 2) store_le(scales + i, word);
  }
};

// Bit pairs, four neighbours a byte.
struct Pq2Codes {
  static constexpr const char* kScheme = "GGUF PQ2_0";
  static constexpr uint64_t kValues = 128, kBytes = 34, kScaleAt = 0;
  static constexpr bool kHasZero = true;
  static int code_at(const std::byte* block, int j) {
    return codec::byte_at(block, 2 + j / 4) >> 2 * (j % 4) & 3;
  }
};

// Bit pairs; the four of a byte are 32 values apart.
struct Tq2Codes {
  static constexpr const char* kScheme = "GGUF TQ2_0";
  static constexpr uint64_t kValues = 256, kBytes = 66, kScaleAt = 64;
  static constexpr bool kHasZero = true;
  static int code_at(const std::byte* block, int j) {
    return codec::byte_at(block, 32 * (j / 128) + j % 32) >> 2 * (j / 32 % 4) & 3;
  }
};

// Five ternary digits a byte, which is their number in base 3 as a fraction of 256, rounded up: the
// digits come out from the top by multiplying with 3. Those of a byte are 32 values apart in the
// first 32 bytes, 16 in the next 16; the last 16 values are four digits each of four bytes.
struct Tq1Codes {
  static constexpr const char* kScheme = "GGUF TQ1_0";
  static constexpr uint64_t kValues = 256, kBytes = 54, kScaleAt = 52;
  static constexpr bool kHasZero = true;
  static int code_at(const std::byte* block, int j) {
    if (j < 160) return digit(codec::byte_at(block, j % 32), j / 32);
    if (j < 240) return digit(codec::byte_at(block, 32 + j % 16), (j - 160) / 16);
    return digit(codec::byte_at(block, 48 + j % 4), (j - 240) / 4);
  }

 private:
  static int digit(int fraction, int place) {
    for (int i = 0; i < place; ++i) fraction = fraction * 3 & 255;
    return fraction * 3 >> 8;
  }
};

// A bit a value: set is d, not set −d. Under scale 0 the format wants the code 0.
struct Q1Codes {
  static constexpr const char* kScheme = "GGUF Q1_0";
  static constexpr uint64_t kValues = 128, kBytes = 18, kScaleAt = 0;
  static constexpr bool kHasZero = false;
  static int code_at(const std::byte* block, int j) {
    return 2 * (codec::byte_at(block, 2 + j / 8) >> j % 8 & 1);
  }
};

// Bit pairs c of the values d·(c − 1), four neighbours a byte, as the format has them.
struct Q2Block {
  static constexpr std::array kFormats = {codec::FormatId::kQ2G64};
  static constexpr const char* kScheme = "GGUF Q2_0";
  static constexpr uint64_t kValues = 64, kBytes = 18, kCodeBytes = 16, kScaleBytes = 2;
  static constexpr std::byte kPadding{0x55};

  template <typename Refuse>
  static void check(const std::byte* block, Refuse refuse) {
    const auto word = load_le<uint16_t>(block);
    if ((word & 0x7c00u) == 0x7c00u)
      refuse(0, fmt::format("scale 0x{:04X}, a finite one expected", word));
  }
  static void decode(const std::byte* block, float* out) {
    for (int j = 0; j < 64; ++j)
      out[j] = codec::half_at(block) *
               static_cast<float>((codec::byte_at(block, 2 + j / 4) >> 2 * (j % 4) & 3) - 1);
  }
  static void copy(const std::byte* block, std::byte* codes, std::byte* scales) {
    std::memcpy(codes, block + 2, kCodeBytes);
    std::memcpy(scales, block, kScaleBytes);
  }
};

// Signed bytes, as the format has them but for −128.
struct Q8Block {
  static constexpr std::array kFormats = {codec::FormatId::kQ8G32};
  static constexpr const char* kScheme = "GGUF Q8_0";
  static constexpr uint64_t kValues = 32, kBytes = 34, kCodeBytes = 32, kScaleBytes = 2;
  static constexpr std::byte kPadding{0};

  static int code_at(const std::byte* block, int j) {
    return static_cast<int8_t>(codec::byte_at(block, 2 + j));
  }

  template <typename Refuse>
  static void check(const std::byte* block, Refuse refuse) {
    const auto word = load_le<uint16_t>(block);
    if ((word & 0x7c00u) == 0x7c00u || word == 0x8000)
      refuse(0, fmt::format("scale 0x{:04X}, a finite one that is not -0 expected", word));
    for (int j = 0; j < 32; ++j) {
      if (code_at(block, j) == -128) refuse(j, "code -128, -127..127 expected");
      if (word == 0 && code_at(block, j) != 0)
        refuse(j, fmt::format("code {} under scale 0, 0 expected", code_at(block, j)));
    }
  }
  static void decode(const std::byte* block, float* out) {
    for (int j = 0; j < 32; ++j)
      out[j] = codec::half_at(block) * static_cast<float>(code_at(block, j));
  }
  static void copy(const std::byte* block, std::byte* codes, std::byte* scales) {
    std::memcpy(codes, block + 2, kCodeBytes);
    std::memcpy(scales, block, kScaleBytes);
  }
};

using Pq2Block = TernaryBlock<Pq2Codes>;
using Tq1Block = TernaryBlock<Tq1Codes>;
using Tq2Block = TernaryBlock<Tq2Codes>;
using Q1Block = TernaryBlock<Q1Codes>;

}  // namespace flare::prepare
