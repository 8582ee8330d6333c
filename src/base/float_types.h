// bf16, fp16, fp8 and E8M0 words: exact widening to binary32, and rounding to nearest even from it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace flare {

// bf16 is the upper half of a binary32 word.
inline float bf16_to_f32(uint16_t word) {
  return std::bit_cast<float>(static_cast<uint32_t>(word) << 16);
}
// Nearest, ties to even; NaN stays NaN (quietened), infinities stay.
inline uint16_t f32_to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>(bits >> 16);
}

// IEEE binary16, subnormals, infinities and NaN included.
inline float fp16_to_f32(uint16_t word) {
  const uint32_t sign = static_cast<uint32_t>(word & 0x8000u) << 16;
  const uint32_t exponent = (word >> 10) & 0x1fu;
  const uint32_t mantissa = word & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}
// Nearest, ties to even; 65520 and above become infinity; NaN stays NaN.
inline uint16_t f32_to_fp16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above
  if (magnitude < 0x38800000u) {                        // below the smallest normal, 2^-14
    // Adding 0.5 lets the float adder round at 2^-24, the unit of subnormals.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

// OCP E4M3FN: bias 7, subnormals of 2^-9, largest 448 (0x7e); 0x7f and 0xff are NaN, no infinities.
inline float e4m3_to_f32(uint8_t word) {
  const uint32_t sign = static_cast<uint32_t>(word & 0x80u) << 24;
  const uint32_t magnitude = word & 0x7fu;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude >= 8) return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
  return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-9f) |
                              sign);
}
// Nearest, ties to even; beyond 448 and infinities become ±448; NaN stays NaN.
inline uint8_t f32_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  const float magnitude = std::min(std::bit_cast<float>(bits & 0x7fffffffu), 448.0f);
  if (magnitude < 0x1p-6f) {
    // The float adder rounds at 2^-9, the unit of subnormals: that of numbers from 2^14 on.
    const float shifted = magnitude + 0x1p14f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x46800000u));
  }
  const uint32_t word = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = (word + 0x7ffffu + ((word >> 20) & 1u)) >> 20;
  return static_cast<uint8_t>(sign | (rounded - (120u << 3)));
}

// OCP E8M0: 2^(word−127), 255 is NaN. Word 0 is 2^−127, a subnormal number.
inline float e8m0_to_f32(uint8_t word) {
  if (word == 255) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(word == 0 ? 0x00400000u : static_cast<uint32_t>(word) << 23);
}

}  // namespace flare
