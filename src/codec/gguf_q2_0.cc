// gguf_q2_0: 64 2-bit codes around 1, an fp16 scale.
#include "codec/formats.h"
#include "codec/gguf_blocks.h"

namespace flare::codec {
namespace {

struct Q2_0 {
  static constexpr FormatId kId = FormatId::kGgufQ2_0;
  static constexpr std::string_view kName = "gguf_q2_0";
  static constexpr uint64_t kValues = 64;
  static constexpr uint64_t kBytes = 18;
  static constexpr uint64_t kHalves[] = {0};

  static void decode(const std::byte* block, float* out) {
    const float d = half_at(block);
    for (int j = 0; j < 64; ++j)
      out[j] = d * static_cast<float>((byte_at(block, 2 + j / 4) >> 2 * (j % 4) & 3) - 1);
  }
};

}  // namespace

Format gguf_q2_0_format() { return GgufBlocks<Q2_0>::format(); }

}  // namespace flare::codec
