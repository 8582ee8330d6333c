// t2_g128_fp16: signed 2-bit codes without −2, 128 columns a scale.
#include "codec/formats.h"
#include "codec/row_split.h"

namespace flare::codec {
namespace {

struct T2G128 : ImportedCode {
  static constexpr FormatId kId = FormatId::kT2G128;
  static constexpr std::string_view kName = "t2_g128_fp16";
  static constexpr int kBits = 2;
  static constexpr uint64_t kGroup = 128;
  static constexpr uint64_t kBaseBytes = 32;
  static constexpr uint64_t kHighBytes = 0;
  static constexpr int32_t kQmin = -1;
  static constexpr int32_t kQmax = 1;
  static constexpr ScaleRule kScales = ScaleRule::kNoNegativeZero;
  static uint64_t unpack8(const std::byte* base, const std::byte*) {
    return sign_extend_lanes<kBits>(unpack_pairs(base));
  }
};

}  // namespace

Format t2_g128_format() { return RowSplit<T2G128>::format(); }

}  // namespace flare::codec
