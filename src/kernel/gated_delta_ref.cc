// Oracles of gated_delta, gated_delta_verify and gated_delta_commit: the recurrence, row by row.
#include <cmath>
#include <vector>

#include "kernel/gated_delta.h"

namespace flare::kernel {
namespace {

struct Shape {
  explicit Shape(const LaunchArgs& args)
      : nk(args.immediates[0].i),
        dk(args.immediates[1].i),
        nv(args.immediates[2].i),
        dv(args.immediates[3].i) {}
  int64_t nk, dk, nv, dv;
};

std::vector<double> unit(std::vector<double> x, double scale) {
  double sum = 0;
  for (double v : x) sum += v * v;
  for (double& v : x) v *= scale / std::sqrt(sum + 1e-6);
  return x;
}

// The tail and the rows of u of sequence s, channel ch.
std::vector<double> line(const LaunchArgs& args, const float* tail, int64_t taps, int64_t s,
                         int64_t rows, int64_t ch) {
  const OperandView& u = args.operands[0];
  std::vector<double> out;
  for (int64_t i = 0; i < taps - 1; ++i) out.push_back(tail[i * u.cols + ch]);
  for (int64_t t = 0; t < rows; ++t) out.push_back(u.f32(args.step->sequence_begin[s] + t)[ch]);
  return out;
}

// Columns [first, first + n) after convolution and SiLU, for every row of sequence s.
std::vector<std::vector<double>> convolved(const LaunchArgs& args, int64_t s, int64_t first,
                                           int64_t n) {
  const StepInputs& step = *args.step;
  const OperandView& w = args.operands[3];
  const int64_t rows = step.sequence_begin[s + 1] - step.sequence_begin[s];
  const auto* tail = reinterpret_cast<const float*>(step.rows[s] + args.operands[6].offset);
  std::vector<std::vector<double>> out(rows, std::vector<double>(n));
  for (int64_t ch = 0; ch < n; ++ch) {
    const std::vector<double> u = line(args, tail, w.rows, s, rows, first + ch);
    for (int64_t t = 0; t < rows; ++t) {
      double sum = 0;
      for (int64_t i = 0; i < w.rows; ++i) sum += w.f32(i)[first + ch] * u[t + i];
      out[t][ch] = sum / (1 + std::exp(-sum));
    }
  }
  return out;
}

// Runs V head h of sequence s over all its rows. `state` [dk][dv] is brought forward.
void run_head(const LaunchArgs& args, int64_t s, int64_t h, bool factors,
              std::vector<double>& state) {
  const Shape n(args);
  const int64_t k_head = h / (n.nv / n.nk);
  const auto q_rows = convolved(args, s, k_head * n.dk, n.dk);
  const auto k_rows = convolved(args, s, (n.nk + k_head) * n.dk, n.dk);
  const auto v_rows = convolved(args, s, 2 * n.nk * n.dk + h * n.dv, n.dv);
  const int64_t begin = args.step->sequence_begin[s];
  for (int64_t t = begin; t < args.step->sequence_begin[s + 1]; ++t) {
    const auto q = unit(q_rows[t - begin], 1 / std::sqrt(static_cast<double>(n.dk)));
    const auto k = unit(k_rows[t - begin], 1);
    const std::vector<double>& v = v_rows[t - begin];
    const double x = static_cast<double>(args.operands[1].f32(t)[h]) + args.operands[5].f32()[h];
    const double softplus = x > 20 ? x : std::log1p(std::exp(x));
    const double decay =
        std::exp(-std::exp(static_cast<double>(args.operands[4].f32()[h])) * softplus);
    const double beta = 1 / (1 + std::exp(-static_cast<double>(args.operands[2].f32(t)[h])));
    float* kept = factors ? args.operands[9].f32_out(t) : nullptr;
    for (int64_t j = 0; j < n.dv; ++j) {
      double m = 0;
      for (int64_t i = 0; i < n.dk; ++i) {
        state[i * n.dv + j] *= decay;
        m += state[i * n.dv + j] * k[i];
      }
      const double delta = beta * (v[j] - m);
      double o = 0;
      for (int64_t i = 0; i < n.dk; ++i) {
        state[i * n.dv + j] += k[i] * delta;
        o += state[i * n.dv + j] * q[i];
      }
      args.operands[8].f32_out(t)[h * n.dv + j] = static_cast<float>(o);
      if (factors) kept[n.nk * n.dk + n.nv + h * n.dv + j] = static_cast<float>(delta);
    }
    if (!factors) continue;
    kept[n.nk * n.dk + h] = static_cast<float>(decay);
    for (int64_t i = 0; i < n.dk; ++i) kept[k_head * n.dk + i] = static_cast<float>(k[i]);
  }
}

float* field(const LaunchArgs& args, int64_t s, int operand) {
  return reinterpret_cast<float*>(args.step->rows[s] + args.operands[operand].offset);
}

// The tail behind the first `rows` rows of sequence s.
void move_tail(const LaunchArgs& args, int64_t s, int64_t rows, int64_t taps, float* tail) {
  const int64_t cols = args.operands[0].cols;
  for (int64_t ch = 0; ch < cols; ++ch) {
    const std::vector<double> u = line(args, tail, taps, s, rows, ch);
    for (int64_t i = 0; i < taps - 1; ++i) tail[i * cols + ch] = static_cast<float>(u[rows + i]);
  }
}

}  // namespace

void gated_delta_ref(const LaunchArgs& args) {
  const StepInputs& step = *args.step;
  const Shape n(args);
  for (int32_t s = 0; s < step.n_sequences; ++s) {
    for (int64_t h = 0; h < n.nv; ++h) {
      float* stored = field(args, s, 7) + h * n.dk * n.dv;
      std::vector<double> state(stored, stored + n.dk * n.dv);
      run_head(args, s, h, false, state);
      for (int64_t i = 0; i < n.dk * n.dv; ++i) stored[i] = static_cast<float>(state[i]);
    }
    move_tail(args, s, step.sequence_begin[s + 1] - step.sequence_begin[s], args.operands[3].rows,
              field(args, s, 6));
  }
}

void gated_delta_verify_ref(const LaunchArgs& args) {
  const Shape n(args);
  for (int32_t s = 0; s < args.step->n_sequences; ++s)
    for (int64_t h = 0; h < n.nv; ++h) {
      const float* stored = field(args, s, 7) + h * n.dk * n.dv;
      std::vector<double> state(stored, stored + n.dk * n.dv);
      run_head(args, s, h, true, state);
    }
}

void gated_delta_commit_ref(const LaunchArgs& args) {
  const StepInputs& step = *args.step;
  const Shape n(args);
  for (int32_t s = 0; s < step.n_sequences; ++s) {
    const int64_t rows = args.operands[2].i32()[s];
    for (int64_t h = 0; h < n.nv; ++h)
      for (int64_t i = 0; i < n.dk; ++i)
        for (int64_t j = 0; j < n.dv; ++j) {
          float* stored = field(args, s, 4) + (h * n.dk + i) * n.dv + j;
          double value = *stored;
          for (int64_t t = 0; t < rows; ++t) {
            const float* f = args.operands[1].f32(step.sequence_begin[s] + t);
            const double k = f[h / (n.nv / n.nk) * n.dk + i];
            const float* gates = f + n.nk * n.dk;
            value = gates[h] * value + k * gates[n.nv + h * n.dv + j];
          }
          *stored = static_cast<float>(value);
        }
    move_tail(args, s, rows, args.immediates[4].i, field(args, s, 3));
  }
}

}  // namespace flare::kernel
