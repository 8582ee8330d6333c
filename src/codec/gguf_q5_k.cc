// gguf_q5_k: 256 unsigned 5-bit codes; every 32 have a 6-bit scale and a 6-bit minimum, each of
// which an fp16 number scales (artifact.md §6.4).
#include "codec/formats.h"
#include "codec/gguf_blocks.h"
#include "codec/gguf_k_search.h"

namespace flare::codec {
namespace {

struct Q5K {
  static constexpr FormatId kId = FormatId::kGgufQ5K;
  static constexpr std::string_view kName = "gguf_q5_k";
  static constexpr uint64_t kValues = 256;
  static constexpr uint64_t kBytes = 176;
  static constexpr uint64_t kHalves[] = {0, 2};

  static int code_at(const std::byte* block, int u, int l) {
    const int both = byte_at(block, 48 + u / 2 * 32 + l);
    return (u % 2 == 0 ? both & 15 : both >> 4) + 16 * (byte_at(block, 16 + l) >> u & 1);
  }
  static void decode(const std::byte* block, float* out) {
    const float d = half_at(block), dmin = half_at(block + 2);
    for (int u = 0; u < 8; ++u) {
      const SixBits packed = six_bits(block + 4, u);
      const float step = d * static_cast<float>(packed.scale);
      const float low = dmin * static_cast<float>(packed.least);
      for (int l = 0; l < 32; ++l)
        out[32 * u + l] = step * static_cast<float>(code_at(block, u, l)) - low;
    }
  }
  static void codes(const std::byte* block, uint8_t* out) {
    for (int u = 0; u < 8; ++u)
      for (int l = 0; l < 32; ++l) out[32 * u + l] = static_cast<uint8_t>(code_at(block, u, l));
  }
  static bool encode(const float* x, const float* w, std::byte* block) {
    AffineBlock found;
    if (!search_affine(x, w, 31, found)) return false;
    std::memset(block, 0, 48);
    store_le(block, found.d);
    store_le(block + 2, found.dmin);
    for (int u = 0; u < 8; ++u) {
      set_six_bits(block + 4, u, {found.scale[u], found.least[u]});
      for (int l = 0; l < 32; ++l)
        block[16 + l] |= static_cast<std::byte>(found.codes[32 * u + l] >> 4 << u);
    }
    for (int pair = 0; pair < 4; ++pair)
      for (int l = 0; l < 32; ++l)
        block[48 + 32 * pair + l] = static_cast<std::byte>(
            (found.codes[64 * pair + l] & 15) | (found.codes[64 * pair + 32 + l] & 15) << 4);
    return true;
  }
};

}  // namespace

Format gguf_q5_k_format() { return GgufBlocks<Q5K>::format(); }
Search gguf_q5_k_search() { return GgufBlocks<Q5K>::search; }

}  // namespace flare::codec
