// q6_g64_fp16: signed 6-bit codes, 64 columns a scale; bits 4 and 5 of four lanes are a byte of the
// high plane.
#include "codec/formats.h"
#include "codec/row_split.h"

namespace flare::codec {
namespace {

struct Q6G64 {
  static constexpr FormatId kId = FormatId::kQ6G64;
  static constexpr std::string_view kName = "q6_g64_fp16";
  static constexpr int kBits = 6;
  static constexpr uint64_t kGroup = 64;
  static constexpr uint64_t kBaseBytes = 32;
  static constexpr uint64_t kHighBytes = 16;
  static constexpr int32_t kQmin = -32;
  static constexpr int32_t kQmax = 31;
  static constexpr ScaleRule kScales = ScaleRule::kNoNegativeZero;
  static void pack8(uint64_t lanes, std::byte* base, std::byte* high) {
    pack_nibbles(lanes, base);
    uint64_t pairs = lanes >> 4 & 0x0303030303030303u;
    pairs = (pairs | pairs >> 6) & 0x000f000f000f000fu;
    pairs = (pairs | pairs >> 12) & 0x000000ff000000ffu;
    store_le(high, static_cast<uint16_t>(pairs | pairs >> 24));
  }
  static uint64_t unpack8(const std::byte* base, const std::byte* high) {
    return sign_extend_lanes<kBits>(unpack_nibbles(base) | high8(high) << 4);
  }
  static uint64_t high8(const std::byte* high) { return unpack_pairs(high); }
};

}  // namespace

Format q6_g64_format() { return RowSplit<Q6G64>::format(); }
Search q6_g64_search() { return RowSplit<Q6G64>::search; }

}  // namespace flare::codec
