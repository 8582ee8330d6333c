// gguf_q8_0: 32 signed 8-bit codes, one fp16 scale (artifact.md §6.4).
#include "codec/formats.h"
#include "codec/gguf_blocks.h"

namespace flare::codec {
namespace {

struct Q8_0 {
  static constexpr FormatId kId = FormatId::kGgufQ8_0;
  static constexpr std::string_view kName = "gguf_q8_0";
  static constexpr uint64_t kValues = 32;
  static constexpr uint64_t kBytes = 34;
  static constexpr uint64_t kHalves[] = {0};
  static void decode(const std::byte* block, float* out) {
    const float scale = half_at(block);
    for (int i = 0; i < 32; ++i)
      out[i] = scale * static_cast<float>(load_le<int8_t>(block + 2 + i));
  }
  static void codes(const std::byte* block, uint8_t* out) {
    for (int i = 0; i < 32; ++i) out[i] = std::to_integer<uint8_t>(block[2 + i]) ^ 0x80;
  }
  // ggml's rule: codes round half away from zero.
  static bool encode(const float* x, const float*, std::byte* block) {
    float largest = 0;
    for (uint64_t i = 0; i < kValues; ++i) {
      if (!std::isfinite(x[i])) return false;
      largest = std::max(largest, std::fabs(x[i]));
    }
    const float scale = largest / 127;
    const uint16_t word = f32_to_fp16(scale);
    if (word >= 0x7c00u) return false;
    float inverse = 1 / scale;
    if (!std::isfinite(inverse)) inverse = 0;  // of zeros and of what rounds to them
    store_le(block, word);
    for (uint64_t i = 0; i < kValues; ++i)
      block[2 + i] = static_cast<std::byte>(static_cast<int>(std::round(x[i] * inverse)));
    return true;
  }
};

}  // namespace

Format gguf_q8_0_format() { return GgufBlocks<Q8_0>::format(); }

}  // namespace flare::codec
