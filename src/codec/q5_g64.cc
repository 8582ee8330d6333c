// q5_g64_fp16: signed 5-bit codes, 64 columns a scale; bit 4 of eight lanes is a byte of the high
// plane.
#include "codec/formats.h"
#include "codec/row_split.h"

namespace flare::codec {
namespace {

struct Q5G64 {
  static constexpr FormatId kId = FormatId::kQ5G64;
  static constexpr std::string_view kName = "q5_g64_fp16";
  static constexpr int kBits = 5;
  static constexpr uint64_t kGroup = 64;
  static constexpr uint64_t kBaseBytes = 32;
  static constexpr uint64_t kHighBytes = 8;
  static constexpr int32_t kQmin = -16;
  static constexpr int32_t kQmax = 15;
  static constexpr ScaleRule kScales = ScaleRule::kNoNegativeZero;
  static void pack8(uint64_t lanes, std::byte* base, std::byte* high) {
    pack_nibbles(lanes, base);
    // The product brings bit 0 of byte t to bit 56 + t; no two terms meet there.
    const uint64_t bits = (lanes >> 4 & 0x0101010101010101u) * 0x0102040810204080u >> 56;
    *high = static_cast<std::byte>(bits);
  }
  static uint64_t unpack8(const std::byte* base, const std::byte* high) {
    return sign_extend_lanes<kBits>(unpack_nibbles(base) | high8(high) << 4);
  }
  static uint64_t high8(const std::byte* high) { return spread_bits(*high); }
};

}  // namespace

Format q5_g64_format() { return RowSplit<Q5G64>::format(); }
Search q5_g64_search() { return RowSplit<Q5G64>::search; }

}  // namespace flare::codec
