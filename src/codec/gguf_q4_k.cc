// gguf_q4_k: 256 unsigned 4-bit codes; every 32 have a 6-bit scale and a 6-bit minimum, each of
// which an fp16 number scales (artifact.md §6.4).
#include "codec/formats.h"
#include "codec/gguf_blocks.h"
#include "codec/gguf_k_search.h"

namespace flare::codec {
namespace {

struct Q4K {
  static constexpr FormatId kId = FormatId::kGgufQ4K;
  static constexpr std::string_view kName = "gguf_q4_k";
  static constexpr uint64_t kValues = 256;
  static constexpr uint64_t kBytes = 144;
  static constexpr uint64_t kHalves[] = {0, 2};

  static void decode(const std::byte* block, float* out) {
    const float d = half_at(block), dmin = half_at(block + 2);
    for (int u = 0; u < 8; ++u) {
      const SixBits packed = six_bits(block + 4, u);
      const float step = d * static_cast<float>(packed.scale);
      const float low = dmin * static_cast<float>(packed.least);
      const std::byte* codes = block + 16 + 32 * (u / 2);
      const int shift = u % 2 == 0 ? 0 : 4;
      for (int l = 0; l < 32; ++l)
        out[32 * u + l] =
            step * static_cast<float>((std::to_integer<int>(codes[l]) >> shift) & 15) - low;
    }
  }
  static void codes(const std::byte* block, uint8_t* out) {
    for (int pair = 0; pair < 4; ++pair)
      for (int l = 0; l < 32; ++l) {
        const auto both = std::to_integer<uint8_t>(block[16 + 32 * pair + l]);
        out[64 * pair + l] = both & 15;
        out[64 * pair + 32 + l] = both >> 4;
      }
  }
  static bool encode(const float* x, const float* w, std::byte* block) {
    AffineBlock found;
    if (!search_affine(x, w, 15, found)) return false;
    std::memset(block, 0, 16);
    store_le(block, found.d);
    store_le(block + 2, found.dmin);
    for (int u = 0; u < 8; ++u) set_six_bits(block + 4, u, {found.scale[u], found.least[u]});
    for (int pair = 0; pair < 4; ++pair)
      for (int l = 0; l < 32; ++l)
        block[16 + 32 * pair + l] = static_cast<std::byte>(found.codes[64 * pair + l] |
                                                           found.codes[64 * pair + 32 + l] << 4);
    return true;
  }
};

}  // namespace

Format gguf_q4_k_format() { return GgufBlocks<Q4K>::format(); }
Search gguf_q4_k_search() { return GgufBlocks<Q4K>::search; }

}  // namespace flare::codec
