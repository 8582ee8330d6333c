// q8_g32_fp16: signed 8-bit codes without −128, 32 columns a scale.
#include "codec/formats.h"
#include "codec/row_split.h"

namespace flare::codec {
namespace {

struct Q8G32 {
  static constexpr FormatId kId = FormatId::kQ8G32;
  static constexpr std::string_view kName = "q8_g32_fp16";
  static constexpr int kBits = 8;
  static constexpr uint64_t kGroup = 32;
  static constexpr uint64_t kBaseBytes = 32;
  static constexpr uint64_t kHighBytes = 0;
  static constexpr int32_t kQmin = -127;
  static constexpr int32_t kQmax = 127;
  static constexpr ScaleRule kScales = ScaleRule::kNoNegativeZero;
  static void pack8(uint64_t lanes, std::byte* base, std::byte*) { store_le(base, lanes); }
  static uint64_t unpack8(const std::byte* base, const std::byte*) {
    return load_le<uint64_t>(base);
  }
};

}  // namespace

Format q8_g32_format() { return RowSplit<Q8G32>::format(); }
Search q8_g32_search() { return RowSplit<Q8G32>::search; }

}  // namespace flare::codec
