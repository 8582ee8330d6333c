// Oracle of linear, in binary64 over exactly decoded weights.
#include <vector>

#include "kernel/linear.h"

namespace flare::kernel {

void linear_ref(const LaunchArgs& args) {
  const OperandView& x = args.operands[0];
  const codec::Matrix& weight = *args.operands[1].weight;
  const OperandView& bias = args.operands[2];
  const OperandView& y = args.operands[3];
  std::vector<float> row(weight.cols);
  for (uint64_t n = 0; n < weight.rows; ++n) {
    codec::decode_row(weight, n, row.data());
    for (int64_t t = 0; t < x.rows; ++t) {
      double sum = bias.space == graph::Space::kNone ? 0.0 : bias.f32()[n];
      for (uint64_t k = 0; k < weight.cols; ++k)
        sum += static_cast<double>(x.f32(t)[k]) * static_cast<double>(row[k]);
      y.f32_out(t)[n] = static_cast<float>(sum);
    }
  }
}

}  // namespace flare::kernel
