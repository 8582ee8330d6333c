// gguf_q4_0: 32 unsigned 4-bit codes around 8, one fp16 scale (artifact.md §6.4).
#include <bit>

#include "codec/formats.h"
#include "codec/gguf_blocks.h"
#include "codec/group_math.h"

namespace flare::codec {
namespace {

struct Q4_0 {
  static constexpr FormatId kId = FormatId::kGgufQ4_0;
  static constexpr std::string_view kName = "gguf_q4_0";
  static constexpr uint64_t kValues = 32;
  static constexpr uint64_t kBytes = 18;
  static constexpr uint64_t kHalves[] = {0};
  static void decode(const std::byte* block, float* out) {
    const float scale = half_at(block);
    for (int i = 0; i < 16; ++i) {
      const int codes = std::to_integer<int>(block[2 + i]);
      out[i] = scale * static_cast<float>((codes & 15) - 8);
      out[16 + i] = scale * static_cast<float>((codes >> 4) - 8);
    }
  }
  static void codes(const std::byte* block, uint8_t* out) { nibble_codes(block + 2, out); }
  // ggml's rule: the value of the largest magnitude, sign included, becomes code 0, which stands
  // for −8; a half step is added and the rest cut off. A block of zeros has scale −0.
  static bool encode(const float* x, const float*, std::byte* block) {
    const int32_t top = group_math().top(x, kValues);
    if (top >= 0x7f800000) return false;
    const auto magnitude = [&](uint64_t i) { return std::bit_cast<int32_t>(x[i]) & 0x7fffffff; };
    uint64_t first = 0;
    while (magnitude(first) != top) ++first;
    const float largest = top == 0 ? 0 : x[first];
    const float scale = largest / -8;
    const uint16_t word = f32_to_fp16(scale);
    if ((word & 0x7c00u) == 0x7c00u) return false;
    float inverse = 1 / scale;
    if (!std::isfinite(inverse)) inverse = 0;  // of zeros and of what rounds to them
    store_le(block, word);
    int32_t codes[kValues];
    for (uint64_t i = 0; i < kValues; ++i)
      codes[i] = std::min(15, static_cast<int32_t>(x[i] * inverse + 8.5f));
    for (int i = 0; i < 16; ++i)
      block[2 + i] = static_cast<std::byte>(codes[i] | codes[16 + i] << 4);
    return true;
  }
};

}  // namespace

Format gguf_q4_0_format() { return GgufBlocks<Q4_0>::format(); }

}  // namespace flare::codec
