// Op gated_delta: the Gated DeltaNet recurrence.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// qwen3_5.md §6.1 for nk K-heads of width dk and nv V-heads of width dv, r = nv/nk, V head j with K
// head j / r. From the convolved c = [q (nk·dk) | k (nk·dk) | v (nv·dv)]:
//   q̂ = q·rsqrt(Σq² + 1e-6)·dk^−½,  k̂ = k·rsqrt(Σk² + 1e-6),
//   β = σ(b),  g = −exp(A_log)·softplus(a + dt_bias)   (softplus is the identity above 20)
//   S ← e^g S;  m = Sᵀk̂;  δ = β(v − m);  S ← S + k̂δᵀ;  o = Sᵀq̂
// Operands: 0 c f32 [T, 2·nk·dk + nv·dv]; 1 a f32 [T,nv]; 2 b f32 [T,nv]; 3 A_log const [1,nv];
// 4 dt_bias const [1,nv]; 5 S row field f32 [nv][dk][dv], zero for a new sequence, updated in
// place; 6 o f32 [T, nv·dv]. Immediates: 0 nk; 1 dk; 2 nv; 3 dv. Several rows of a sequence may be
// computed in the chunk form of §6.3 (never exponentiating a positive difference); everything in
// binary32 or better.
void gated_delta_ref(const LaunchArgs& args);

}  // namespace flare::kernel
