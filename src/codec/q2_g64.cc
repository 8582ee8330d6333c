// q2_g64_fp16: 2-bit codes of −1, 0, 1 and 2, 64 columns a scale.
#include "codec/formats.h"
#include "codec/row_split.h"

namespace flare::codec {
namespace {

struct Q2G64 : ImportedCode {
  static constexpr FormatId kId = FormatId::kQ2G64;
  static constexpr std::string_view kName = "q2_g64_fp16";
  static constexpr int kBits = 2;
  static constexpr uint64_t kGroup = 64;
  static constexpr uint64_t kBaseBytes = 16;
  static constexpr uint64_t kHighBytes = 0;
  static constexpr int32_t kQmin = -1;
  static constexpr int32_t kQmax = 2;
  static constexpr ScaleRule kScales = ScaleRule::kAny;
  // Stored is the code plus one.
  static uint64_t unpack8(const std::byte* base, const std::byte*) {
    return add_bytes(unpack_pairs(base), 0xffffffffffffffffu);
  }
};

}  // namespace

Format q2_g64_format() { return RowSplit<Q2G64>::format(); }

}  // namespace flare::codec
