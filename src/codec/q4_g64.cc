// q4_g64_fp16: signed 4-bit codes, 64 columns a scale.
#include "codec/formats.h"
#include "codec/row_split.h"

namespace flare::codec {
namespace {

struct Q4G64 {
  static constexpr FormatId kId = FormatId::kQ4G64;
  static constexpr std::string_view kName = "q4_g64_fp16";
  static constexpr int kBits = 4;
  static constexpr uint64_t kGroup = 64;
  static constexpr uint64_t kBaseBytes = 32;
  static constexpr uint64_t kHighBytes = 0;
  static constexpr int32_t kQmin = -8;
  static constexpr int32_t kQmax = 7;
  static constexpr ScaleRule kScales = ScaleRule::kNoNegativeZero;
  static void pack8(uint64_t lanes, std::byte* base, std::byte*) { pack_nibbles(lanes, base); }
  static uint64_t unpack8(const std::byte* base, const std::byte*) {
    return sign_extend_lanes<kBits>(unpack_nibbles(base));
  }
};

}  // namespace

Format q4_g64_format() { return RowSplit<Q4G64>::format(); }
Search q4_g64_search() { return RowSplit<Q4G64>::search; }

}  // namespace flare::codec
