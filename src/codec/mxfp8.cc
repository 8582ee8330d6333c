// mxfp8_e4m3fn: E4M3FN codes, an E8M0 scale for 32 columns (OCP Microscaling).
#include "codec/formats.h"
#include "codec/row_blocks.h"

namespace flare::codec {
namespace {

struct Mxfp8 {
  static constexpr FormatId kId = FormatId::kMxfp8;
  static constexpr std::string_view kName = "mxfp8_e4m3fn";
  using Element = E4m3Element;
  using Scale = E8m0Scale;
  static constexpr uint64_t kGroup = 32;
  static constexpr bool kRowDivisor = false;
};

}  // namespace

Format mxfp8_format() { return RowBlocks<Mxfp8>::format(); }

}  // namespace flare::codec
