// The rows of one V head before the delta rule: q̂, k̂, v and the gates.
#include "kernel/cpu/conv_causal/conv.inl.h"

using gated_delta_layout::kChunk;
using gated_delta_layout::Shape;

struct DeltaBuffers {
  float* q;      // [kChunk, dk], normalised and scaled
  float* k;      // [kChunk, dk], normalised
  float* kt;     // panels of [dk, kPanel] of kᵀ
  float* qk;     // [kChunk, kChunk]
  float* kk;     // [kChunk, kChunk]
  float* delta;  // chunks: panels of [kChunk, kPanel] of v, then Δ; steps: v [kChunk, dv_padded]
  float* state;  // chunks: panels of [dk, kPanel]; verification: panels of columns
  float* g;      // [kChunk] each
  float* beta;
  float* decay;
  float* scale;
};
inline DeltaBuffers delta_buffers(const LaunchArgs& args, const Member& member, const Shape& s) {
  DeltaBuffers b;
  b.q = reinterpret_cast<float*>(args.workspace.data()) + member.index() * s.member_floats();
  b.k = b.q + kChunk * s.dk_padded();
  b.kt = b.k + kChunk * s.dk_padded();
  b.qk = b.kt + kChunk * s.dk_padded();
  b.kk = b.qk + kChunk * kChunk;
  b.delta = b.kk + kChunk * kChunk;
  b.state = b.delta + kChunk * s.dv_padded;
  b.g = b.state + s.dk * s.dv_padded;
  b.beta = b.g + kChunk;
  b.decay = b.beta + kChunk;
  b.scale = b.decay + kChunk;
  return b;
}

// Asks for `floats` floats that are wanted soon.
inline void fetch(const float* p, int64_t floats) {
  for (int64_t i = 0; i < floats; i += 16) __builtin_prefetch(p + i, 0, 2);
}

inline float sum_products(const float* a, const float* b, int64_t n) {
  VF sum = splat(0);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum = fma(load(a + i), load(b + i), sum);
  if (i < n) sum = fma(load_n(a + i, n - i), load_n(b + i, n - i), sum);
  return sum_lanes(sum);
}
// x ← x · scale / sqrt(Σx² + 1e-6)
inline void make_unit(float* x, int64_t n, float scale) {
  const VF factor = splat(scale / __builtin_sqrtf(sum_products(x, x, n) + 1e-6f));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, load(x + i) * factor);
  if (i < n) store_n(x + i, load_n(x + i, n - i) * factor, n - i);
}

// log(1 + e^x) to a few ulp: max(x, 0) + 2·artanh(z), z = y/(2 + y), y = e^−|x|.
inline VF softplus(VF x) {
  const VF y = exp(-max(x, -x));
  const VF z = y / (splat(2) + y);
  const VF z2 = z * z;  // at most 1/9: the first term left out is below 2^−30 of the sum
  VF p = splat(1.0f / 17);
  p = fma(p, z2, splat(1.0f / 15));
  p = fma(p, z2, splat(1.0f / 13));
  p = fma(p, z2, splat(1.0f / 11));
  p = fma(p, z2, splat(1.0f / 9));
  p = fma(p, z2, splat(1.0f / 7));
  p = fma(p, z2, splat(1.0f / 5));
  p = fma(p, z2, splat(1.0f / 3));
  p = fma(p, z2, splat(1.0f));
  return max(x, splat(0)) + splat(2) * z * p;
}

// One V head of a sequence in this step.
struct HeadRows {
  const LaunchArgs& args;
  const Shape& s;
  ConvLine line;
  int64_t head;
  int64_t k_head() const { return head / (s.nv / s.nk); }
  const OperandView& weight() const { return args.operands[3]; }
};
inline HeadRows head_rows(const LaunchArgs& args, const Shape& s, int64_t sequence, int64_t head) {
  const StepInputs& step = *args.step;
  const auto* tail = reinterpret_cast<const float*>(step.rows[sequence] + args.operands[6].offset);
  return {args,
          s,
          {args.operands[0], tail, step.sequence_begin[sequence], args.operands[3].rows},
          head};
}

// n columns of `rows` rows, convolved and activated.
inline void convolve(const HeadRows& h, int64_t t, int64_t rows, int64_t column, int64_t n,
                     float* out, int64_t out_stride) {
  conv_rows<Silu>(h.line, h.weight(), t, rows, column, n, out, out_stride);
}

// q̂ and k̂ of `rows` rows from t on.
inline void load_keys(const HeadRows& h, int64_t t, int64_t rows, float* q, float* k) {
  const Shape& s = h.s;
  convolve(h, t, rows, h.k_head() * s.dk, s.dk, q, s.dk);
  convolve(h, t, rows, (s.nk + h.k_head()) * s.dk, s.dk, k, s.dk);
  for (int64_t i = 0; i < rows; ++i) {
    make_unit(q + i * s.dk, s.dk, 1.0f / __builtin_sqrtf(static_cast<float>(s.dk)));
    make_unit(k + i * s.dk, s.dk, 1.0f);
  }
}
inline int64_t value_column(const HeadRows& h) { return 2 * h.s.key_cols() + h.head * h.s.dv; }

// Asks for what load_keys and the values need of row t. A head's columns of a row are a short piece
// of a wide one, which no prefetcher of the machine foresees.
inline void fetch_row(const HeadRows& h, int64_t t) {
  const float* u = h.line.row(t);
  fetch(u + h.k_head() * h.s.dk, h.s.dk);
  fetch(u + (h.s.nk + h.k_head()) * h.s.dk, h.s.dk);
  fetch(u + value_column(h), h.s.dv);
}

// g and β of rows [t, t + n), n <= kChunk.
inline void load_gates(const HeadRows& h, int64_t t, int64_t n, float* g, float* beta) {
  const VF rate = -exp(splat(h.args.operands[4].f32()[h.head]));
  const VF bias = splat(h.args.operands[5].f32()[h.head]);
  for (int64_t i = 0; i < n; i += kLanes) {
    float a[kLanes] = {};
    float b[kLanes] = {};
    for (int64_t lane = 0; lane < min64(kLanes, n - i); ++lane) {
      const int64_t row = h.line.begin + t + i + lane;
      a[lane] = h.args.operands[1].f32(row)[h.head];
      b[lane] = h.args.operands[2].f32(row)[h.head];
    }
    store(g + i, rate * softplus(load(a) + bias));
    store(beta + i, sigmoid(load(b)));
  }
}
