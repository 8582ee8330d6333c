// How a key or value goes into its page region: all that writes records includes this, once a
// level.

// One head's record of one token.
inline void write_record(const float* in, std::byte* region, bool bf16, int64_t record,
                         int64_t width) {
  if (!bf16) {
    __builtin_memcpy(reinterpret_cast<float*>(region) + record * width, in,
                     static_cast<size_t>(width) * 4);
    return;
  }
  uint16_t* out = reinterpret_cast<uint16_t*>(region) + record * width;
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) store_bf16(out + i, load(in + i));
  if (i < width) store_bf16_n(out + i, load_n(in + i, width - i), width - i);
}
