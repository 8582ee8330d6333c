// Op rope: rotary position embedding of every head.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// Per head of width d, for pair i < r/2 with angle a = position[axis(i)]·f_i:
// half pairing: (x_i, x_{i+r/2}) → (x_i cos a − x_{i+r/2} sin a, x_{i+r/2} cos a + x_i sin a) · m
// Columns r..d−1 of a head pass through (not multiplied). building_blocks.md §2, qwen3_5.md §5.
// Operands: 0 x f32 [T, n·d]; 1 f const [1, r/2] frequencies; 2 positions io i32 [3,T]; 3 y f32 [T,
// n·d], may be x. Immediates: 0 head width d; 1 m, the factor on cos and sin (real); 2, 3 sections
// s1, s2 of interleaved MRoPE: axis(i) = 1 if i%3 = 1 and i < 3·s1, 2 if i%3 = 2 and i < 3·s2, else
// 0. Angles in binary32 products of exact integers or better; sin and cos to 2 ulp of the angle
// used.
void rope_ref(const LaunchArgs& args);

}  // namespace flare::kernel
