// Oracle of gated_delta: the recurrence, row by row.
#include <cmath>
#include <vector>

#include "kernel/gated_delta.h"

namespace flare::kernel {
namespace {

std::vector<double> unit(const float* x, int64_t n, double scale) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  std::vector<double> out(n);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] / std::sqrt(sum + 1e-6) * scale;
  return out;
}

}  // namespace

void gated_delta_ref(const LaunchArgs& args) {
  const StepInputs& step = *args.step;
  const int64_t nk = args.immediates[0].i;
  const int64_t dk = args.immediates[1].i;
  const int64_t nv = args.immediates[2].i;
  const int64_t dv = args.immediates[3].i;
  for (int32_t s = 0; s < step.n_sequences; ++s)
    for (int64_t h = 0; h < nv; ++h) {
      float* stored =
          reinterpret_cast<float*>(step.rows[s] + args.operands[5].offset) + h * dk * dv;
      std::vector<double> state(stored, stored + dk * dv);
      for (int64_t t = step.sequence_begin[s]; t < step.sequence_begin[s + 1]; ++t) {
        const float* c = args.operands[0].f32(t);
        const int64_t k_head = h / (nv / nk);
        const auto q = unit(c + k_head * dk, dk, 1 / std::sqrt(static_cast<double>(dk)));
        const auto k = unit(c + (nk + k_head) * dk, dk, 1);
        const float* v = c + 2 * nk * dk + h * dv;
        const double x =
            static_cast<double>(args.operands[1].f32(t)[h]) + args.operands[4].f32()[h];
        const double softplus = x > 20 ? x : std::log1p(std::exp(x));
        const double decay =
            std::exp(-std::exp(static_cast<double>(args.operands[3].f32()[h])) * softplus);
        const double beta = 1 / (1 + std::exp(-static_cast<double>(args.operands[2].f32(t)[h])));
        for (int64_t j = 0; j < dv; ++j) {
          double m = 0;
          for (int64_t i = 0; i < dk; ++i) {
            state[i * dv + j] *= decay;
            m += state[i * dv + j] * k[i];
          }
          const double delta = beta * (v[j] - m);
          double o = 0;
          for (int64_t i = 0; i < dk; ++i) {
            state[i * dv + j] += k[i] * delta;
            o += state[i * dv + j] * q[i];
          }
          args.operands[6].f32_out(t)[h * dv + j] = static_cast<float>(o);
        }
      }
      for (int64_t i = 0; i < dk * dv; ++i) stored[i] = static_cast<float>(state[i]);
    }
}

}  // namespace flare::kernel
