// gguf_q8_0: 32 signed 8-bit codes, one fp16 scale (artifact.md §6.4).
#include <bit>

#include "codec/formats.h"
#include "codec/gguf_blocks.h"
#include "codec/group_math.h"

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
    const int32_t top = group_math().top(x, kValues);
    const float scale = std::bit_cast<float>(top) / 127;
    const uint16_t word = f32_to_fp16(scale);
    if (top >= 0x7f800000 || word >= 0x7c00u) return false;
    float inverse = 1 / scale;
    if (!std::isfinite(inverse)) inverse = 0;  // of zeros and of what rounds to them
    store_le(block, word);
    int32_t codes[kValues];
    for (uint64_t i = 0; i < kValues; ++i) {
      const float value = x[i] * inverse;
      // To the nearest even integer first; a half that went towards zero then goes on.
      const float even = (value + 0x1.8p23f) - 0x1.8p23f;
      const float rest = value - even;
      const int up = (rest == 0.5f) & (value > 0), down = (rest == -0.5f) & (value < 0);
      codes[i] = static_cast<int32_t>(even) + up - down;
    }
    for (uint64_t i = 0; i < kValues; ++i) block[2 + i] = static_cast<std::byte>(codes[i]);
    return true;
  }
};

}  // namespace

Format gguf_q8_0_format() { return GgufBlocks<Q8_0>::format(); }

}  // namespace flare::codec
