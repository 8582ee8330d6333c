// The weighted sum of rows of bytes, the one loop of both passes of a resize.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flare::media {

// Weights are whole numbers of 1/2^22.
inline constexpr int kWeightBits = 22;

// out[i] = clip((Σ_k weights[k]·in[k·stride + i] + 2^21) >> 22, 0, 255) for i < n, k < n_taps.
// The sum of |weights| stays below 2·2^22, so that 32 bits hold every sum.
using WeighRows = void (*)(const int32_t* weights, int n_taps, const uint8_t* in, size_t stride,
                           size_t n, uint8_t* out);

// The one for any x86-64-v2 machine, and the one with AVX2.
void weigh_rows_v2(const int32_t* weights, int n_taps, const uint8_t* in, size_t stride, size_t n,
                   uint8_t* out);
void weigh_rows_v3(const int32_t* weights, int n_taps, const uint8_t* in, size_t stride, size_t n,
                   uint8_t* out);
// The faster one that runs here.
WeighRows weigh_rows();

}  // namespace flare::media
