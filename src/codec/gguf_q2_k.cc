// gguf_q2_k: 256 unsigned 2-bit codes; every 16 have a 4-bit scale and a 4-bit minimum, each of
// which an fp16 number scales (artifact.md §6.4).
#include "codec/formats.h"
#include "codec/gguf_blocks.h"

namespace flare::codec {
namespace {

struct Q2K {
  static constexpr FormatId kId = FormatId::kGgufQ2K;
  static constexpr std::string_view kName = "gguf_q2_k";
  static constexpr uint64_t kValues = 256;
  static constexpr uint64_t kBytes = 84;
  static constexpr uint64_t kHalves[] = {80, 82};

  static int code_at(const std::byte* block, int j) {
    return byte_at(block, 16 + j / 128 * 32 + j % 32) >> j % 128 / 32 * 2 & 3;
  }
  static void decode(const std::byte* block, float* out) {
    const float d = half_at(block + 80), least = half_at(block + 82);
    for (int j = 0; j < 256; ++j) {
      const int scales = byte_at(block, j / 16);
      out[j] = d * static_cast<float>(scales & 15) * static_cast<float>(code_at(block, j)) -
               least * static_cast<float>(scales >> 4);
    }
  }
  static void codes(const std::byte* block, uint8_t* out) {
    for (int j = 0; j < 256; j += 8) {
      const auto four_each = load_le<uint64_t>(block + 16 + j / 128 * 32 + j % 32);
      store_le(reinterpret_cast<std::byte*>(out + j),
               four_each >> (j % 128 / 32 * 2) & 0x0303030303030303u);
    }
  }
};

}  // namespace

Format gguf_q2_k_format() { return GgufBlocks<Q2K>::format(); }

}  // namespace flare::codec
