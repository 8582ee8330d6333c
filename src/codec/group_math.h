// The loops over one group's values that encoders are made of, once per ISA level.
//
// Every level gives the same bits: partial sums are kept in sixteen lanes and added up in one order
// whatever the width of the machine's vectors, and nothing is contracted.
#pragma once

#include <cstdint>

#include "base/cpu.h"

namespace flare::codec {

inline constexpr int kLanes = 16;  // n below is a multiple of it

// How a value becomes a code: q = clamp(rne((x + shift)·inverse), low, high), and what it stands
// for: step·q − shift. |(x + shift)·inverse| stays below 2^21.
struct Grid {
  float inverse = 0, step = 0, shift = 0;
  float low = 0, high = 0;
};

// Sums over a group with weights w: of q, q² and (x + shift)·q.
struct GridSums {
  float q = 0, qq = 0, xq = 0;
};

struct GroupMath {
  // The largest word of |x|, read as an integer: its order is that of magnitudes, and NaN and Inf
  // (from 0x7f800000 on) come last.
  int32_t (*top)(const float* x, int n);
  // codes[i] = q; low and high are those of int8.
  void (*quantise)(const float* x, int n, const Grid& grid, int8_t* codes);
  // Σ w·(x − (step·q − shift))².
  float (*error)(const float* x, const float* w, int n, const Grid& grid);
  GridSums (*sums)(const float* x, const float* w, int n, const Grid& grid);
  // Σ w and Σ w·x.
  void (*moments)(const float* x, const float* w, int n, float* sum_w, float* sum_wx);
};

// Of this machine's level.
const GroupMath& group_math();
// Of a level that this machine has; kV2, kV3, kV4.
const GroupMath& group_math(Isa isa);

}  // namespace flare::codec
