// gguf_q6_k: 256 unsigned 6-bit codes around 32; every 16 have a signed 8-bit scale, all of which
// one fp16 number scales (artifact.md §6.4).
#include "codec/formats.h"
#include "codec/gguf_blocks.h"
#include "codec/gguf_k_search.h"

namespace flare::codec {
namespace {

struct Q6K {
  static constexpr FormatId kId = FormatId::kGgufQ6K;
  static constexpr std::string_view kName = "gguf_q6_k";
  static constexpr uint64_t kValues = 256;
  static constexpr uint64_t kBytes = 210;
  static constexpr uint64_t kHalves[] = {208};

  static void decode(const std::byte* block, float* out) {
    const float d = half_at(block + 208);
    for (int half = 0; half < 2; ++half)
      for (int r = 0; r < 4; ++r) {
        const std::byte* low = block + 64 * half + 32 * (r % 2);
        const std::byte* high = block + 128 + 32 * half;
        const int low_shift = r < 2 ? 0 : 4;
        for (int l = 0; l < 32; ++l) {
          const int j = 128 * half + 32 * r + l;
          const int code = ((std::to_integer<int>(low[l]) >> low_shift) & 15) +
                           16 * ((std::to_integer<int>(high[l]) >> (2 * r)) & 3);
          const int scale = load_le<int8_t>(block + 192 + j / 16);
          out[j] = d * static_cast<float>(scale) * static_cast<float>(code - 32);
        }
      }
  }
  static void codes(const std::byte* block, uint8_t* out) {
    for (int half = 0; half < 2; ++half)
      for (int l = 0; l < 32; ++l) {
        const auto low = std::to_integer<uint8_t>(block[64 * half + l]);
        const auto next = std::to_integer<uint8_t>(block[64 * half + 32 + l]);
        const auto high = std::to_integer<uint8_t>(block[128 + 32 * half + l]);
        uint8_t* to = out + 128 * half + l;
        to[0] = static_cast<uint8_t>((low & 15) | (high & 3) << 4);
        to[32] = static_cast<uint8_t>((next & 15) | (high >> 2 & 3) << 4);
        to[64] = static_cast<uint8_t>((low >> 4) | (high >> 4 & 3) << 4);
        to[96] = static_cast<uint8_t>((next >> 4) | (high >> 6) << 4);
      }
  }
  static bool encode(const float* x, const float* w, std::byte* block) {
    SignedBlock found;
    if (!search_signed(x, w, found)) return false;
    store_le(block + 208, found.d);
    for (int s = 0; s < 16; ++s) block[192 + s] = static_cast<std::byte>(found.scale[s]);
    for (int half = 0; half < 2; ++half)
      for (int l = 0; l < 32; ++l) {
        const auto code = [&](int r) { return found.codes[128 * half + 32 * r + l] + 32; };
        block[64 * half + l] = static_cast<std::byte>((code(0) & 15) | (code(2) & 15) << 4);
        block[64 * half + 32 + l] = static_cast<std::byte>((code(1) & 15) | (code(3) & 15) << 4);
        block[128 + 32 * half + l] = static_cast<std::byte>(code(0) >> 4 | code(1) >> 4 << 2 |
                                                            code(2) >> 4 << 4 | code(3) >> 4 << 6);
      }
    return true;
  }
};

}  // namespace

Format gguf_q6_k_format() { return GgufBlocks<Q6K>::format(); }
Search gguf_q6_k_search() { return GgufBlocks<Q6K>::search; }

}  // namespace flare::codec
