// fp8_e4m3fn_g32_fp32 and fp8_e4m3fn_g128_fp32: E4M3FN codes, an fp32 scale for some columns of a
// row. A scale that a checkpoint has for a block of rows stands in each of them.
#include "codec/formats.h"
#include "codec/row_blocks.h"

namespace flare::codec {
namespace {

struct Fp8Group {
  using Element = E4m3Element;
  using Scale = Fp32Scale;
  static constexpr bool kRowDivisor = false;
};
struct Fp8G32 : Fp8Group {
  static constexpr FormatId kId = FormatId::kFp8G32;
  static constexpr std::string_view kName = "fp8_e4m3fn_g32_fp32";
  static constexpr uint64_t kGroup = 32;
};
struct Fp8G128 : Fp8Group {
  static constexpr FormatId kId = FormatId::kFp8G128;
  static constexpr std::string_view kName = "fp8_e4m3fn_g128_fp32";
  static constexpr uint64_t kGroup = 128;
};

}  // namespace

Format fp8_g32_format() { return RowBlocks<Fp8G32>::format(); }
Format fp8_g128_format() { return RowBlocks<Fp8G128>::format(); }

}  // namespace flare::codec
