// Op attention: grouped causal attention over paged keys and values.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// For row t of sequence b at position p (see kv_write.h), head h, KV head h / (nq/nkv), over the
// visible j: j <= p, and j > p − window if window > 0:
//   z_j = scale·q·k_j, with a softcap c > 0: z_j = c·tanh(scale·q·k_j / c)
//   o = Σ_j e^(z_j) v_j / (Σ_j e^(z_j) + e^(a_h)),  without sinks: no e^(a_h).
// A sink a_h is one learnt logit of a query head, neither scaled nor capped
// (building_blocks.md §3). Keys of the step's own rows are already in the pages (kv_write or
// attention_input runs before). Pages wholly before every window are not read and may be absent.
// Operands: 0 q f32 [T, nq·dk]; 1 K page region; 2 V page region; 3 sinks const [1, nq] or none;
// 4 o f32 [T, nq·dv], may not be q.
// Immediates: 0 nq; 1 nkv; 2 scale (real); 3 window (0: none); 4 softcap (real, 0: none).
// Scores, softmax and sums in binary32. Level bf16, unless a region is f32, rounds the scaled
// queries and the weights e^(z − max) to bf16; the denominator adds the rounded weights. NaN codes
// of fp8_e4m3 may be read as ±480. Long contexts are split by fixed token blocks, so the bits of a
// row do not depend on the team or on the rows beside it.
void attention_ref(const LaunchArgs& args);

}  // namespace flare::kernel
