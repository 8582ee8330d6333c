// E2M1, the 4-bit float of nvfp4 and the MX formats (artifact.md §6.2).
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace flare::codec {

// Values of the sixteen words; 8 is −0.
inline constexpr std::array<float, 16> kE2m1Values = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,
                                                      4.0f,  6.0f,  -0.0f, -0.5f, -1.0f, -1.5f,
                                                      -2.0f, -3.0f, -4.0f, -6.0f};

// Nearest, ties to the even word; beyond 6 becomes 6. The sign of zero stays. Not for NaN.
inline uint8_t f32_to_e2m1(float value) {
  const float magnitude = std::fabs(value);
  // On a threshold the even neighbour wins: above it for 0.75, 1.75 and 3.5.
  const int word = (magnitude > 0.25f) + (magnitude >= 0.75f) + (magnitude > 1.25f) +
                   (magnitude >= 1.75f) + (magnitude > 2.5f) + (magnitude >= 3.5f) +
                   (magnitude > 5.0f);
  return static_cast<uint8_t>(word | (std::signbit(value) ? 8 : 0));
}

}  // namespace flare::codec
