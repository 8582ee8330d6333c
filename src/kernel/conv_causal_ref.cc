// Oracle of conv_causal.
#include <cmath>
#include <vector>

#include "kernel/conv_causal.h"

namespace flare::kernel {

void conv_causal_ref(const LaunchArgs& args) {
  const OperandView& u = args.operands[0];
  const OperandView& w = args.operands[1];
  const OperandView& c = args.operands[3];
  const StepInputs& step = *args.step;
  const int64_t history = w.rows - 1;
  for (int32_t b = 0; b < step.n_sequences; ++b) {
    const int64_t begin = step.sequence_begin[b];
    const int64_t rows = step.sequence_begin[b + 1] - begin;
    float* tail = reinterpret_cast<float*>(step.rows[b] + args.operands[2].offset);
    for (int64_t ch = 0; ch < u.cols; ++ch) {
      std::vector<float> line;  // tail, then the step's rows
      for (int64_t i = 0; i < history; ++i) line.push_back(tail[i * u.cols + ch]);
      for (int64_t t = 0; t < rows; ++t) line.push_back(u.f32(begin + t)[ch]);
      for (int64_t t = 0; t < rows; ++t) {
        double sum = 0;
        for (int64_t j = 0; j < w.rows; ++j) sum += static_cast<double>(w.f32(j)[ch]) * line[t + j];
        if (args.immediates[0].i == 1) sum = sum / (1 + std::exp(-sum));
        c.f32_out(begin + t)[ch] = static_cast<float>(sum);
      }
      for (int64_t i = 0; i < history; ++i) tail[i * u.cols + ch] = line[rows + i];
    }
  }
}

}  // namespace flare::kernel
