// Op kv_write: new keys and values into the pages of their sequences.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// Token row t of sequence b stands at p = sequence_past[b] + (t − sequence_begin[b]); its page is
// page_tables[b][p / page_tokens], slot p % page_tokens. A region holds [nkv][page_tokens][d].
// Operands: 0 k f32 [T, nkv·dk]; 1 v f32 [T, nkv·dv]; 2 K page region (dtype f32, bf16 or fp8_e4m3,
// cols nkv·dk per token); 3 V page region (cols nkv·dv). Immediates: 0 nkv. Narrow words are
// rounded to nearest, ties to even; fp8_e4m3 has unit scale and saturates at ±448.
void kv_write_ref(const LaunchArgs& args);

}  // namespace flare::kernel
