// Oracle of embed, in binary64.
#include <vector>

#include "kernel/embed.h"

namespace flare::kernel {

void embed_ref(const LaunchArgs& args) {
  const OperandView& ids = args.operands[0];
  const OperandView& y = args.operands[2];
  const codec::Matrix& table = *args.operands[1].weight;
  std::vector<float> row(table.cols);
  for (int64_t t = 0; t < y.rows; ++t) {
    codec::decode_row(table, static_cast<uint64_t>(ids.i32()[t]), row.data());
    for (int64_t i = 0; i < y.cols; ++i)
      y.f32_out(t)[i] = static_cast<float>(args.immediates[0].r * static_cast<double>(row[i]));
  }
}

}  // namespace flare::kernel
