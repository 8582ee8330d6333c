// Oracle of linear, in binary64 over exactly decoded weights.
#include <cmath>
#include <vector>

#include "kernel/geglu.h"
#include "kernel/linear.h"

namespace flare::kernel {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// x̂ of row t.
std::vector<double> prepared(const LaunchArgs& args, int64_t t) {
  const OperandView& x = args.operands[0];
  const OperandView& w = args.operands[4];
  const OperandView& g = args.operands[5];
  const auto input = static_cast<LinearInput>(args.immediates[1].i);
  std::vector<double> out(x.f32(t), x.f32(t) + x.cols);
  if (input == LinearInput::kRmsNorm || input == LinearInput::kGatedNorm)
    for (int64_t begin = 0; begin < x.cols; begin += w.cols) {
      double sum = 0;
      for (int64_t i = 0; i < w.cols; ++i) sum += out[begin + i] * out[begin + i];
      const double root = std::sqrt(sum / static_cast<double>(w.cols) + args.immediates[3].r);
      for (int64_t i = 0; i < w.cols; ++i)
        out[begin + i] *= (w.f32()[i] + static_cast<double>(args.immediates[4].i)) / root;
    }
  for (int64_t i = 0; i < x.cols; ++i) {
    if (input == LinearInput::kGateMul) out[i] *= sigmoid(g.f32(t)[i]);
    if (input == LinearInput::kGatedNorm) out[i] *= g.f32(t)[i] * sigmoid(g.f32(t)[i]);
  }
  return out;
}

}  // namespace

void linear_ref(const LaunchArgs& args) {
  const OperandView& x = args.operands[0];
  const codec::Matrix& weight = *args.operands[1].weight;
  const OperandView& bias = args.operands[2];
  const OperandView& y = args.operands[3];
  const OperandView& residual = args.operands[6];
  std::vector<std::vector<double>> product(x.rows);
  std::vector<std::vector<double>> rows(x.rows);
  for (int64_t t = 0; t < x.rows; ++t) rows[t] = prepared(args, t);
  std::vector<float> row(weight.cols);
  for (uint64_t n = 0; n < weight.rows; ++n) {
    codec::decode_row(weight, n, row.data());
    for (int64_t t = 0; t < x.rows; ++t) {
      double sum = bias.space == graph::Space::kNone ? 0.0 : bias.f32()[n];
      for (uint64_t k = 0; k < weight.cols; ++k) sum += rows[t][k] * static_cast<double>(row[k]);
      product[t].push_back(sum);
    }
  }
  const auto output = static_cast<LinearOutput>(args.immediates[2].i);
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t n = 0; n < y.cols; ++n) {
      double value = product[t][n];
      if (output == LinearOutput::kSwiglu) value *= sigmoid(value) * product[t][y.cols + n];
      if (output == LinearOutput::kGeglu) value = gelu_tanh(value) * product[t][y.cols + n];
      if (residual.space != graph::Space::kNone) value += residual.f32(t)[n];
      y.f32_out(t)[n] = static_cast<float>(value);
    }
}

}  // namespace flare::kernel
