// gguf_q5_1: 32 unsigned 5-bit codes, an fp16 scale and an fp16 minimum.
#include "codec/formats.h"
#include "codec/gguf_blocks.h"

namespace flare::codec {
namespace {

struct Q5_1 {
  static constexpr FormatId kId = FormatId::kGgufQ5_1;
  static constexpr std::string_view kName = "gguf_q5_1";
  static constexpr uint64_t kValues = 32;
  static constexpr uint64_t kBytes = 24;
  static constexpr uint64_t kHalves[] = {0, 2};

  static void decode(const std::byte* block, float* out) {
    const float d = half_at(block), least = half_at(block + 2);
    for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(five_bits(block + 4, j)) + least;
  }
  static void codes(const std::byte* block, uint8_t* out) { five_bit_codes(block + 4, out); }
};

}  // namespace

Format gguf_q5_1_format() { return GgufBlocks<Q5_1>::format(); }

}  // namespace flare::codec
