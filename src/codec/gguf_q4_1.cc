// gguf_q4_1: 32 unsigned 4-bit codes, an fp16 scale and an fp16 minimum.
#include "codec/formats.h"
#include "codec/gguf_blocks.h"

namespace flare::codec {
namespace {

struct Q4_1 {
  static constexpr FormatId kId = FormatId::kGgufQ4_1;
  static constexpr std::string_view kName = "gguf_q4_1";
  static constexpr uint64_t kValues = 32;
  static constexpr uint64_t kBytes = 20;
  static constexpr uint64_t kHalves[] = {0, 2};

  static void decode(const std::byte* block, float* out) {
    const float d = half_at(block), least = half_at(block + 2);
    for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(nibble_at(block + 4, j)) + least;
  }
  static void codes(const std::byte* block, uint8_t* out) { nibble_codes(block + 4, out); }
};

}  // namespace

Format gguf_q4_1_format() { return GgufBlocks<Q4_1>::format(); }

}  // namespace flare::codec
