// Rows of the token table decoded straight into y, split over members by token.
#include "kernel/cpu/embed/embed.h"

namespace flare::kernel::v2 {

void embed(const LaunchArgs& args, Member& member) {
  const OperandView& ids = args.operands[0];
  const OperandView& table = args.operands[1];
  const OperandView& y = args.operands[2];
  const double scale = args.immediates[0].r;
  const auto [begin, end] = member.share(y.rows);
  for (int64_t t = begin; t < end; ++t) {
    float* out = y.f32_out(t);
    codec::decode_row(*table.weight, static_cast<uint64_t>(ids.i32()[t]), out);
    if (scale == 1.0) continue;
    // In binary64, so that the one product is rounded once whatever the scale.
    for (int64_t i = 0; i < y.cols; ++i) out[i] = static_cast<float>(scale * out[i]);
  }
}

}  // namespace flare::kernel::v2
