// How a key or value goes into its page region: all that writes records includes this, once a
// level. The order of elements: kernel/kv_write.h.

inline constexpr int64_t kRecordBlock = 64;

// Where row t of the step belongs.
struct TokenPlace {
  std::byte* page;
  int64_t slot;
};
inline TokenPlace token_place(const StepInputs& step, int64_t t) {
  const int32_t b = step.row_sequence[t];
  const int64_t p = step.sequence_past[b] + (t - step.sequence_begin[b]);
  return {step.page_tables[b][p / step.page_tokens], p % step.page_tokens};
}

// n values as words of `dtype` (f32, bf16 or fp8_e4m3).
inline void narrow(const float* in, graph::DType dtype, int64_t n, std::byte* out) {
  if (dtype == graph::DType::kF32) {
    __builtin_memcpy(out, in, static_cast<size_t>(n) * 4);
  } else if (dtype == graph::DType::kBf16) {
    uint16_t* words = reinterpret_cast<uint16_t*>(out);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store_bf16(words + i, load(in + i));
    if (i < n) store_bf16_n(words + i, load_n(in + i, n - i), n - i);
  } else {
    uint8_t* codes = reinterpret_cast<uint8_t*>(out);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store_f8(codes + i, load(in + i));
    if (i < n) store_f8_n(codes + i, load_n(in + i, n - i), n - i);
  }
}

// Groups of `bytes` from a block to places `stride` bytes apart.
template <int kBytes>
inline void scatter(const std::byte* block, int64_t n, std::byte* out, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) __builtin_memcpy(out + i * stride, block + i * kBytes, kBytes);
}

// One head's key of one token, `width` values: `region` is the page's, `slot` the token's place in
// the page of `page_tokens`.
inline void write_key(const float* in, graph::DType dtype, std::byte* region, int64_t page_tokens,
                      int64_t head, int64_t slot, int64_t width) {
  const int64_t bytes = dtype == graph::DType::kF32 ? 4 : dtype == graph::DType::kBf16 ? 2 : 1;
  std::byte* out = region + head * page_tokens * width * bytes;
  alignas(64) std::byte block[kRecordBlock * 4];
  for (int64_t c = 0; c < width; c += kRecordBlock) {
    const int64_t n = min64(kRecordBlock, width - c);
    narrow(in + c, dtype, n, block);
    std::byte* column = out + c * page_tokens * bytes;
    if (dtype == graph::DType::kF32) {
      scatter<4>(block, n, column + slot * 4, page_tokens * 4);
      continue;
    }
    if (dtype == graph::DType::kBf16) {
      scatter<4>(block, n / 2, column + slot * 4, page_tokens * 4);
    } else {
      scatter<2>(block, n / 2, column + slot * 2, page_tokens * 2);
    }
    if (n % 2 != 0)  // the last column stands alone
      __builtin_memcpy(column + ((n - 1) * page_tokens + slot) * bytes, block + (n - 1) * bytes,
                       static_cast<size_t>(bytes));
  }
}
inline void write_value(const float* in, graph::DType dtype, std::byte* region, int64_t page_tokens,
                        int64_t head, int64_t slot, int64_t width) {
  const int64_t bytes = dtype == graph::DType::kF32 ? 4 : dtype == graph::DType::kBf16 ? 2 : 1;
  std::byte* out = region + head * page_tokens * width * bytes;
  if (dtype == graph::DType::kF32 || (slot | 1) >= page_tokens) {
    narrow(in, dtype, width, out + slot * width * bytes);
    return;
  }
  out += (slot / 2 * width * 2 + slot % 2) * bytes;
  alignas(64) std::byte block[kRecordBlock * 4];
  for (int64_t c = 0; c < width; c += kRecordBlock) {
    const int64_t n = min64(kRecordBlock, width - c);
    narrow(in + c, dtype, n, block);
    if (dtype == graph::DType::kBf16) {
      scatter<2>(block, n, out + c * 4, 4);
    } else {
      scatter<1>(block, n, out + c * 2, 2);
    }
  }
}
