// gguf_q3_k: 256 signed 3-bit codes; every 16 have a 6-bit scale around 32, all of which one fp16
// number scales (artifact.md §6.4).
#include "codec/formats.h"
#include "codec/gguf_blocks.h"

namespace flare::codec {
namespace {

struct Q3K {
  static constexpr FormatId kId = FormatId::kGgufQ3K;
  static constexpr std::string_view kName = "gguf_q3_k";
  static constexpr uint64_t kValues = 256;
  static constexpr uint64_t kBytes = 110;
  static constexpr uint64_t kHalves[] = {108};

  static int code_at(const std::byte* block, int j) {
    const int half = j / 128, r = j % 128 / 32, l = j % 32;
    const int low = byte_at(block, 32 + 32 * half + l) >> 2 * r & 3;
    return low + 4 * (byte_at(block, l) >> (4 * half + r) & 1);
  }
  static void decode(const std::byte* block, float* out) {
    const float d = half_at(block + 108);
    for (int j = 0; j < 256; ++j)
      out[j] = d * static_cast<float>(q3_scale(block + 96, j / 16)) *
               static_cast<float>(code_at(block, j) - 4);
  }
  static void codes(const std::byte* block, uint8_t* out) {
    // Quarter by quarter of each half, whose shifts are the same for 32 columns.
    for (int half = 0; half < 2; ++half)
      for (int r = 0; r < 4; ++r)
        for (int l = 0; l < 32; l += 8) {
          const auto lows = load_le<uint64_t>(block + 32 + 32 * half + l) >> (2 * r);
          const auto highs = load_le<uint64_t>(block + l) >> (4 * half + r);
          store_le(reinterpret_cast<std::byte*>(out + 128 * half + 32 * r + l),
                   (lows & 0x0303030303030303u) | (highs & 0x0101010101010101u) << 2);
        }
  }
};

}  // namespace

Format gguf_q3_k_format() { return GgufBlocks<Q3K>::format(); }

}  // namespace flare::codec
