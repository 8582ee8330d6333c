// Op kv_write: new keys and values into the pages of their sequences.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

// Token row t of sequence b stands at p = sequence_past[b] + (t − sequence_begin[b]); its page is
// page_tables[b][p / page_tokens], slot p % page_tokens. A region holds nkv heads one after the
// other, page_tokens·d elements each, in the order of key_element or value_element.
// Operands: 0 k f32 [T, nkv·dk]; 1 v f32 [T, nkv·dv]; 2 K page region (dtype f32, bf16 or fp8_e4m3,
// cols nkv·dk per token); 3 V page region (cols nkv·dv). Immediates: 0 nkv. Narrow words are
// rounded to nearest, ties to even; fp8_e4m3 has unit scale and saturates at ±448.
void kv_write_ref(const LaunchArgs& args);

// Where one head's column c of the token in `slot` stands, in elements from the head's beginning.
// Attention multiplies a query by a vector of tokens and weights by a vector of columns, so keys
// stand column by column, values token by token. Narrow words stand in pairs of the index that is
// summed over, as dot products of pairs want them: columns (2i, 2i+1) of a key, tokens (2i, 2i+1)
// of a value. An odd last one stands alone, without room for a partner.
inline int64_t key_element(graph::DType dtype, int64_t page_tokens, int64_t width, int64_t slot,
                           int64_t c) {
  if (dtype == graph::DType::kF32 || (c | 1) >= width) return c * page_tokens + slot;
  return (c & ~int64_t{1}) * page_tokens + 2 * slot + c % 2;
}
inline int64_t value_element(graph::DType dtype, int64_t page_tokens, int64_t width, int64_t slot,
                             int64_t c) {
  if (dtype == graph::DType::kF32 || (slot | 1) >= page_tokens) return slot * width + c;
  return (slot & ~int64_t{1}) * width + 2 * c + slot % 2;
}

}  // namespace flare::kernel
