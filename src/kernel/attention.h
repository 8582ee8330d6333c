// Op attention: grouped causal attention over paged keys and values.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// For row t of sequence b at position p (see kv_write.h), head h, KV head h / (nq/nkv):
// o = Σ_j softmax_j(scale·q·k_j)·v_j over visible j: j <= p, and j > p − window if window > 0.
// Keys of the step's own rows are already in the pages (kv_write runs before).
// Operands: 0 q f32 [T, nq·dk]; 1 K page region; 2 V page region; 3 o f32 [T, nq·dv], may not be q.
// Immediates: 0 nq; 1 nkv; 2 scale (real); 3 window (0: none).
// Scores, softmax and sums in binary32. Long contexts are split by fixed token blocks, so the bits
// of a row do not depend on the team or on the rows beside it.
void attention_ref(const LaunchArgs& args);

}  // namespace flare::kernel
