// Op attention_input: what stands between the projections and attention, in one launch.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// Per head of width d of q and k: RMS norm where its weight is given (rms_norm.h), then rotation
// (rope.h). q̂ is stored; k̂ and v go to the pages of their sequences (kv_write.h).
// Operands: 0 q f32 [T, nq·d]; 1 k f32 [T, nkv·d]; 2 v f32 [T, nkv·dv]; 3 K page region; 4 V page
// region; 5 norm weight of q const [1,d] or absent; 6 that of k, likewise; 7 f const [1, r/2]
// frequencies; 8 positions io i32 [3,T]; 9 q̂ f32 [T, nq·d], may be q, not k or v.
// Immediates: 0 nkv; 1 d; 2 factor on cos and sin (real); 3, 4 sections s1, s2 (rope.h); 5 eps
// (real) and 6 offset (integer) of both norms.
// The bits are those of rms_norm, rope and kv_write one after the other.
void attention_input_ref(const LaunchArgs& args);

}  // namespace flare::kernel
