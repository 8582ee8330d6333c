// gguf_q5_0: 32 unsigned 5-bit codes around 16, an fp16 scale; the fifth bits stand together.
#include "codec/formats.h"
#include "codec/gguf_blocks.h"

namespace flare::codec {
namespace {

struct Q5_0 {
  static constexpr FormatId kId = FormatId::kGgufQ5_0;
  static constexpr std::string_view kName = "gguf_q5_0";
  static constexpr uint64_t kValues = 32;
  static constexpr uint64_t kBytes = 22;
  static constexpr uint64_t kHalves[] = {0};

  static void decode(const std::byte* block, float* out) {
    const float d = half_at(block);
    for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(five_bits(block + 2, j) - 16);
  }
  static void codes(const std::byte* block, uint8_t* out) { five_bit_codes(block + 2, out); }
};

}  // namespace

Format gguf_q5_0_format() { return GgufBlocks<Q5_0>::format(); }

}  // namespace flare::codec
