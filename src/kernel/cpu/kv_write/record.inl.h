// How a key or value goes into its page region: all that writes records includes this, once a
// level.

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

// One head's key or value of one token, `width` values: `region` is the page's, `slot` the token's
// place in the page of `page_tokens`.
inline void write_key(const float* in, graph::DType dtype, std::byte* region, int64_t page_tokens,
                      int64_t head, int64_t slot, int64_t width) {
  const int64_t element = dtype == graph::DType::kF32 ? 4 : dtype == graph::DType::kBf16 ? 2 : 1;
  narrow(in, dtype, width, region + (head * page_tokens + slot) * width * element);
}
inline void write_value(const float* in, graph::DType dtype, std::byte* region, int64_t page_tokens,
                        int64_t head, int64_t slot, int64_t width) {
  const int64_t element = dtype == graph::DType::kF32 ? 4 : dtype == graph::DType::kBf16 ? 2 : 1;
  narrow(in, dtype, width, region + (head * page_tokens + slot) * width * element);
}
