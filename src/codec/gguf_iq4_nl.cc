// gguf_iq4_nl: 32 codes of 4 bits that stand for fixed values, an fp16 scale.
#include "codec/formats.h"
#include "codec/gguf_blocks.h"

namespace flare::codec {
namespace {

struct Iq4Nl {
  static constexpr FormatId kId = FormatId::kGgufIq4Nl;
  static constexpr std::string_view kName = "gguf_iq4_nl";
  static constexpr uint64_t kValues = 32;
  static constexpr uint64_t kBytes = 18;
  static constexpr uint64_t kHalves[] = {0};

  static void decode(const std::byte* block, float* out) {
    const float d = half_at(block);
    for (int j = 0; j < 32; ++j)
      out[j] = d * static_cast<float>(kIq4Values[nibble_at(block + 2, j)]);
  }
  static void codes(const std::byte* block, uint8_t* out) { nibble_codes(block + 2, out); }
};

}  // namespace

Format gguf_iq4_nl_format() { return GgufBlocks<Iq4Nl>::format(); }

}  // namespace flare::codec
