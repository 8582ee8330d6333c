// mxfp4: E2M1 codes, an E8M0 scale for 32 columns (OCP Microscaling).
#include "codec/formats.h"
#include "codec/row_blocks.h"

namespace flare::codec {
namespace {

struct Mxfp4 {
  static constexpr FormatId kId = FormatId::kMxfp4;
  static constexpr std::string_view kName = "mxfp4";
  using Element = E2m1Element;
  using Scale = E8m0Scale;
  static constexpr uint64_t kGroup = 32;
  static constexpr bool kRowDivisor = false;
};

}  // namespace

Format mxfp4_format() { return RowBlocks<Mxfp4>::format(); }

}  // namespace flare::codec
