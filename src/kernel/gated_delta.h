// Ops gated_delta, gated_delta_verify, gated_delta_commit: the middle of a Gated DeltaNet layer.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// A sequence whose rows come in runs that begin at multiples of this many rows, and hold a multiple
// of it or are the sequence's last rows so far, has the same bits however these runs form steps:
// binary32 sums are taken in another order only where a run is cut elsewhere.
inline constexpr uint32_t kDeltaPiece = 64;

// qwen3_5.md §6.1 for nk K-heads of width dk and nv V-heads of width dv, r = nv/nk, V head j with K
// head j / r. From rows u = [q (nk·dk) | k (nk·dk) | v (nv·dv)], C columns in all:
//   c[t,ch] = silu(Σ_{i<J} w[i,ch]·u[t−J+1+i, ch])   rows before the step's first: from the tail
//   q̂ = q·rsqrt(Σq² + 1e-6)·dk^−½,  k̂ = k·rsqrt(Σk² + 1e-6)   of c, per head
//   β = σ(b),  g = −exp(A_log)·softplus(a + dt_bias)   (softplus is the identity above 20)
//   S ← e^g S;  m = Sᵀk̂;  δ = β(v − m);  S ← S + k̂δᵀ;  o = Sᵀq̂
// Operands: 0 u f32 [T,C]; 1 a f32 [T,nv]; 2 b f32 [T,nv]; 3 w const [J,C]; 4 A_log const [1,nv];
// 5 dt_bias const [1,nv]; 6 tail row field f32 [J−1,C], the last J−1 rows of u, oldest first; 7 S
// row field f32 [nv][dk][dv]; 8 o f32 [T, nv·dv], may not be u, a or b. Tail and S are zero for a
// new sequence and updated in place. Immediates: 0 nk; 1 dk; 2 nv; 3 dv. Several rows of a sequence
// may be computed in the chunk form of §6.3 (never exponentiating a positive difference);
// everything in binary32 or better.
void gated_delta_ref(const LaunchArgs& args);

// The same outputs for rows of which a suffix may be rejected: the bits of o are those of
// gated_delta given the rows one by one, tail and S are only read. Operands: 0 … 8 as above;
// 9 factors f32 [T, nk·dk + nv + nv·dv] out: k̂ of every K head, e^g and δ of every V head.
// Immediates: as above. Meant for a few rows per sequence: each passes through a head's state.
void gated_delta_verify_ref(const LaunchArgs& args);

// Keeps the first n rows of every sequence b that gated_delta_verify computed in the same step,
// n = accepted[b], 0 <= n <= its rows: S ← e^g S + k̂δᵀ row by row in order, and the tail as if u
// had ended with row n. Bit-equal to gated_delta given these rows one by one; n = 0 changes
// nothing. Operands: 0 u f32 [T,C]; 1 factors f32 [T, nk·dk + nv + nv·dv]; 2 accepted io i32 [B];
// 3 tail row field; 4 S row field. Immediates: 0 nk; 1 dk; 2 nv; 3 dv; 4 J.
void gated_delta_commit_ref(const LaunchArgs& args);

}  // namespace flare::kernel
