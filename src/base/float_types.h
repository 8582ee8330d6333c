// bf16 and fp16 words: exact widening to binary32, and rounding to nearest even from it.
#pragma once

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

}  // namespace flare
