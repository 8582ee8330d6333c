// nvfp4 in the layout row_blocks_v1: any shape, and a divisor of each row instead of each matrix.
#include "codec/formats.h"
#include "codec/row_blocks.h"

namespace flare::codec {
namespace {

struct Nvfp4Rows {
  static constexpr FormatId kId = FormatId::kNvfp4Rows;
  static constexpr std::string_view kName = "nvfp4";
  using Element = E2m1Element;
  using Scale = E4m3Scale;
  static constexpr uint64_t kGroup = 16;
  static constexpr bool kRowDivisor = true;
};

}  // namespace

Format nvfp4_rows_format() { return RowBlocks<Nvfp4Rows>::format(); }

}  // namespace flare::codec
