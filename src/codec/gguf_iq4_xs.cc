// gguf_iq4_xs: 256 codes of 4 bits that stand for fixed values; every 32 have a 6-bit scale around
// 32, all of which one fp16 number scales (artifact.md §6.4).
#include "codec/formats.h"
#include "codec/gguf_blocks.h"

namespace flare::codec {
namespace {

struct Iq4Xs {
  static constexpr FormatId kId = FormatId::kGgufIq4Xs;
  static constexpr std::string_view kName = "gguf_iq4_xs";
  static constexpr uint64_t kValues = 256;
  static constexpr uint64_t kBytes = 136;
  static constexpr uint64_t kHalves[] = {0};

  static void decode(const std::byte* block, float* out) {
    const float d = half_at(block);
    for (int u = 0; u < 8; ++u)
      for (int l = 0; l < 32; ++l)
        out[32 * u + l] = d * static_cast<float>(iq4_scale(block, u)) *
                          static_cast<float>(kIq4Values[nibble_at(block + 8 + 16 * u, l)]);
  }
  static void codes(const std::byte* block, uint8_t* out) {
    for (int u = 0; u < 8; ++u) nibble_codes(block + 8 + 16 * u, out + 32 * u);
  }
};

}  // namespace

Format gguf_iq4_xs_format() { return GgufBlocks<Iq4Xs>::format(); }

}  // namespace flare::codec
