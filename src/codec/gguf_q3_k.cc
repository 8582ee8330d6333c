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

  // Six bits of scale s: four in a nibble of the first eight bytes, two in one of the last four.
  static int scale_at(const std::byte* scales, int s) {
    const int low = s < 8 ? byte_at(scales, s) & 15 : byte_at(scales, s - 8) >> 4;
    return low + 16 * (byte_at(scales, 8 + s % 4) >> 2 * (s / 4) & 3);
  }
  static void decode(const std::byte* block, float* out) {
    const float d = half_at(block + 108);
    for (int j = 0; j < 256; ++j) {
      const int half = j / 128, r = j % 128 / 32, l = j % 32;
      const int low = byte_at(block, 32 + 32 * half + l) >> 2 * r & 3;
      const bool is_high = (byte_at(block, l) >> (4 * half + r) & 1) != 0;
      out[j] = d * static_cast<float>(scale_at(block + 96, j / 16) - 32) *
               static_cast<float>(is_high ? low : low - 4);
    }
  }
};

}  // namespace

Format gguf_q3_k_format() { return GgufBlocks<Q3K>::format(); }

}  // namespace flare::codec
