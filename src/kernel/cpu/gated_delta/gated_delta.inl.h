// The body of gated_delta, included once per level: one unit is a V head of a sequence, in steps or
// in chunks.

using gated_delta_layout::kChunk;
using gated_delta_layout::Shape;

struct DeltaBuffers {
  float* q;      // [kChunk, dk], normalised and scaled
  float* k;      // [kChunk, dk], normalised
  float* kt;     // [dk, kChunk], zero past the live rows
  float* kt_w;   // [dk, kChunk], weighted by the decay to the chunk's end
  float* qk;     // [kChunk, kChunk]
  float* kk;     // [kChunk, kChunk]
  float* delta;  // [kChunk, dv_padded]
  float* out;    // [kChunk, dv_padded]
  float* state;  // [dk, dv_padded]
  float* gates;  // [3, kChunk]
};
inline DeltaBuffers delta_buffers(float* base, const Shape& s) {
  DeltaBuffers b;
  b.q = base;
  b.k = b.q + kChunk * s.dk;
  b.kt = b.k + kChunk * s.dk;
  b.kt_w = b.kt + kChunk * s.dk;
  b.qk = b.kt_w + kChunk * s.dk;
  b.kk = b.qk + kChunk * kChunk;
  b.delta = b.kk + kChunk * kChunk;
  b.out = b.delta + kChunk * s.dv_padded;
  b.state = b.out + kChunk * s.dv_padded;
  b.gates = b.state + s.dk * s.dv_padded;
  return b;
}

inline float sum_products(const float* a, const float* b, int64_t n) {
  VF sum = splat(0);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum = fma(load(a + i), load(b + i), sum);
  if (i < n) sum = fma(load_n(a + i, n - i), load_n(b + i, n - i), sum);
  return sum_lanes(sum);
}
// out = x · scale / sqrt(Σx² + 1e-6)
inline void unit_vector(const float* x, int64_t n, float scale, float* out) {
  const VF factor = splat(scale / __builtin_sqrtf(sum_products(x, x, n) + 1e-6f));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, load(x + i) * factor);
  if (i < n) store_n(out + i, load_n(x + i, n - i) * factor, n - i);
}

// Row t of the step: q̂ and k̂ of V head `head`.
inline void load_row(const LaunchArgs& args, const Shape& s, int64_t t, int64_t head, float* q,
                     float* k) {
  const float* c = args.operands[0].f32(t);
  const int64_t k_head = head / (s.nv / s.nk);
  unit_vector(c + k_head * s.dk, s.dk, 1.0f / __builtin_sqrtf(static_cast<float>(s.dk)), q);
  unit_vector(c + (s.nk + k_head) * s.dk, s.dk, 1.0f, k);
}
inline const float* value_row(const LaunchArgs& args, const Shape& s, int64_t t, int64_t head) {
  return args.operands[0].f32(t) + 2 * s.nk * s.dk + head * s.dv;
}

// One row over V vectors of state columns (qwen3_5.md §6.2): the first pass reads what the second
// finds in the first-level cache. Not Whole: n < kLanes live columns, and V is 1.
template <int V, bool Whole>
inline void step_columns(float* state, int64_t dk, int64_t stride, const float* q, const float* k,
                         float qk, float decay, float beta, const float* v, float* o, int64_t n) {
  VF m[V];
  VF r[V];
#pragma GCC unroll 4
  for (int j = 0; j < V; ++j) m[j] = r[j] = splat(0);
  for (int64_t i = 0; i < dk; ++i) {
    const VF key = splat(k[i]);
    const VF query = splat(q[i]);
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      const float* at = state + i * stride + j * kLanes;
      const VF value = Whole ? load(at) : load_n(at, n);
      m[j] = fma(key, value, m[j]);
      r[j] = fma(query, value, r[j]);
    }
  }
  VF delta[V];
#pragma GCC unroll 4
  for (int j = 0; j < V; ++j) {
    const VF value = Whole ? load(v + j * kLanes) : load_n(v, n);
    delta[j] = splat(beta) * (value - splat(decay) * m[j]);
    const VF out = fma(delta[j], splat(qk), splat(decay) * r[j]);
    if constexpr (Whole) {
      store(o + j * kLanes, out);
    } else {
      store_n(o, out, n);
    }
  }
  for (int64_t i = 0; i < dk; ++i) {
    const VF key = splat(k[i]);
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      float* at = state + i * stride + j * kLanes;
      if constexpr (Whole) {
        store(at, fma(key, delta[j], splat(decay) * load(at)));
      } else {
        store_n(at, fma(key, delta[j], splat(decay) * load_n(at, n)), n);
      }
    }
  }
}

// A short run of rows, [begin, end) of the step: the recurrence, panel of columns by panel.
inline void delta_steps(const LaunchArgs& args, const Shape& s, const DeltaBuffers& b,
                        int64_t begin, int64_t end, int64_t head, float* state) {
  float* qk = b.gates;
  float* decay = b.gates + kChunk;
  float* beta = b.gates + 2 * kChunk;
  for (int64_t t = begin; t < end; ++t) {
    const int64_t i = t - begin;
    load_row(args, s, t, head, b.q + i * s.dk, b.k + i * s.dk);
    qk[i] = sum_products(b.q + i * s.dk, b.k + i * s.dk, s.dk);
    const Gates gates = gates_of(args, t, head);
    decay[i] = exp_of(gates.log_decay);
    beta[i] = gates.beta;
  }
  for (int64_t column = 0; column < s.dv;) {
    const int64_t left = s.dv - column;
    const int64_t n = left >= 4 * kLanes ? 4 * kLanes : min64(left, kLanes);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t i = t - begin;
      const float* v = value_row(args, s, t, head) + column;
      float* o = args.operands[6].f32_out(t) + head * s.dv + column;
      const float* q = b.q + i * s.dk;
      const float* k = b.k + i * s.dk;
      float* at = state + column;
      if (n == 4 * kLanes) {
        step_columns<4, true>(at, s.dk, s.dv, q, k, qk[i], decay[i], beta[i], v, o, n);
      } else if (n == kLanes) {
        step_columns<1, true>(at, s.dk, s.dv, q, k, qk[i], decay[i], beta[i], v, o, n);
      } else {
        step_columns<1, false>(at, s.dk, s.dv, q, k, qk[i], decay[i], beta[i], v, o, n);
      }
    }
    column += n;
  }
}

// c[r, V vectors] = a·b (+ c): a[r, i] at a[r·row_step + i], b [inner, stride_b].
template <int R, int V>
inline void product_tile(const float* a, int64_t row_step, const float* b, int64_t stride_b,
                         int64_t inner, float* c, int64_t stride_c, bool add) {
  VF acc[R][V];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = add ? load(c + r * stride_c + v * kLanes) : splat(0);
  for (int64_t i = 0; i < inner; ++i) {
    VF row[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) row[v] = load(b + i * stride_b + v * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const VF scale = splat(a[r * row_step + i]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = fma(scale, row[v], acc[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(c + r * stride_c + v * kLanes, acc[r][v]);
}
inline constexpr int kProductRows = kLanes == 16 ? 4 : 2;

// c = a·b (+ c) over `columns`, a multiple of kLanes.
inline void product(const float* a, int64_t row_step, int64_t rows, const float* b,
                    int64_t stride_b, int64_t inner, float* c, int64_t stride_c, int64_t columns,
                    bool add) {
  for (int64_t j = 0; j < columns;) {
    const bool wide = columns - j >= 4 * kLanes;
    int64_t r = 0;
    for (; r + kProductRows <= rows; r += kProductRows) {
      if (wide) {
        product_tile<kProductRows, 4>(a + r * row_step, row_step, b + j, stride_b, inner,
                                      c + r * stride_c + j, stride_c, add);
      } else {
        product_tile<kProductRows, 1>(a + r * row_step, row_step, b + j, stride_b, inner,
                                      c + r * stride_c + j, stride_c, add);
      }
    }
    for (; r < rows; ++r) {
      if (wide) {
        product_tile<1, 4>(a + r * row_step, row_step, b + j, stride_b, inner, c + r * stride_c + j,
                           stride_c, add);
      } else {
        product_tile<1, 1>(a + r * row_step, row_step, b + j, stride_b, inner, c + r * stride_c + j,
                           stride_c, add);
      }
    }
    j += wide ? 4 * kLanes : kLanes;
  }
}

// q̂, k̂, k̂ᵀ and the gates of a chunk's n rows.
// gates: e^{G_t}, β, e^{G_C − G_t}; sums: G_t, in double so that differences keep their bits.
inline void load_chunk(const LaunchArgs& args, const Shape& s, const DeltaBuffers& b, int64_t begin,
                       int64_t n, int64_t head, double* sums) {
  double sum = 0;
  for (int64_t t = 0; t < n; ++t) {
    load_row(args, s, begin + t, head, b.q + t * s.dk, b.k + t * s.dk);
    const Gates gates = gates_of(args, begin + t, head);
    sum += gates.log_decay;
    sums[t] = sum;
    b.gates[t] = exp_of(sum);
    b.gates[kChunk + t] = gates.beta;
  }
  for (int64_t t = 0; t < n; ++t) b.gates[2 * kChunk + t] = exp_of(sum - sums[t]);
  const int64_t width = padded(n);
  for (int64_t i = 0; i < s.dk; ++i) {
    float* row = b.kt + i * kChunk;
    float* weighted = b.kt_w + i * kChunk;
    for (int64_t t = 0; t < n; ++t) {
      row[t] = b.k[t * s.dk + i];
      weighted[t] = row[t] * b.gates[2 * kChunk + t];
    }
    for (int64_t t = n; t < width; ++t) row[t] = 0;
  }
}

// In place: q·k becomes q·k ⊙ D (zero above the diagonal), k·k becomes −A (below it).
inline void decay_products(const DeltaBuffers& b, int64_t n, const double* sums) {
  for (int64_t t = 0; t < n; ++t) {
    const VF beta = splat(-b.gates[kChunk + t]);
    float* qk = b.qk + t * kChunk;
    float* kk = b.kk + t * kChunk;
    float d[kChunk];
    for (int64_t m = 0; m < kChunk; ++m) d[m] = m < t ? static_cast<float>(sums[t] - sums[m]) : 0;
    for (int64_t m = 0; m <= t; m += kLanes) {
      const VF factor = exp(load(d + m));
      store(qk + m, load(qk + m) * factor);
      store(kk + m, load(kk + m) * factor * beta);
    }
    for (int64_t m = t + 1; m < kChunk; ++m) qk[m] = 0;
  }
}

// (I + A)Δ = right-hand side, in place: blocks of kSolveRows rows take the rows above at once, then
// each other one by one.
inline constexpr int64_t kSolveRows = 8;
inline void solve_delta(const DeltaBuffers& b, int64_t n, int64_t width) {
  for (int64_t t0 = 0; t0 < n; t0 += kSolveRows) {
    const int64_t rows = min64(kSolveRows, n - t0);
    const float* a = b.kk + t0 * kChunk;
    product(a, kChunk, rows, b.delta, width, t0, b.delta + t0 * width, width, width, true);
    for (int64_t t = 1; t < rows; ++t)
      product(a + t * kChunk + t0, kChunk, 1, b.delta + t0 * width, width, t,
              b.delta + (t0 + t) * width, width, width, true);
  }
}

// The chunk form over rows [begin, begin+n) with the padded state (qwen3_5.md §6.3).
inline void delta_chunk(const LaunchArgs& args, const Shape& s, const DeltaBuffers& b,
                        int64_t begin, int64_t n, int64_t head) {
  double sums[kChunk];
  load_chunk(args, s, b, begin, n, head, sums);
  // Only columns m <= t are read; a tile of rows ends at the vector that holds its last one.
  for (int64_t t = 0; t < n; t += kProductRows) {
    const int64_t rows = min64(kProductRows, n - t);
    const int64_t columns = padded(t + rows);
    product(b.q + t * s.dk, s.dk, rows, b.kt, kChunk, s.dk, b.qk + t * kChunk, kChunk, columns,
            false);
    product(b.k + t * s.dk, s.dk, rows, b.kt, kChunk, s.dk, b.kk + t * kChunk, kChunk, columns,
            false);
  }
  decay_products(b, n, sums);
  const int64_t width = s.dv_padded;
  product(b.k, s.dk, n, b.state, width, s.dk, b.delta, width, width, false);
  product(b.q, s.dk, n, b.state, width, s.dk, b.out, width, width, false);
  for (int64_t t = 0; t < n; ++t) {
    const float* v = value_row(args, s, begin + t, head);
    float* delta = b.delta + t * width;
    float* out = b.out + t * width;
    const VF decay = splat(b.gates[t]);
    const VF beta = splat(b.gates[kChunk + t]);
    for (int64_t j = 0; j < width; j += kLanes) {
      const int64_t live = max64(0, min64(kLanes, s.dv - j));
      const VF value = live == kLanes ? load(v + j) : live == 0 ? splat(0) : load_n(v + j, live);
      store(delta + j, beta * (value - decay * load(delta + j)));
      store(out + j, decay * load(out + j));
    }
  }
  solve_delta(b, n, width);
  for (int64_t t = 0; t < n; t += kProductRows) {
    const int64_t rows = min64(kProductRows, n - t);
    product(b.qk + t * kChunk, kChunk, rows, b.delta, width, t + rows, b.out + t * width, width,
            width, true);
  }
  const VF decay = splat(b.gates[n - 1]);
  for (int64_t i = 0; i < s.dk * width; i += kLanes) store(b.state + i, load(b.state + i) * decay);
  product(b.kt_w, kChunk, s.dk, b.delta, width, n, b.state, width, width, true);
  for (int64_t t = 0; t < n; ++t)
    __builtin_memcpy(args.operands[6].f32_out(begin + t) + head * s.dv, b.out + t * width,
                     static_cast<size_t>(s.dv) * 4);
}

inline void delta_chunks(const LaunchArgs& args, const Shape& s, const DeltaBuffers& b,
                         int64_t begin, int64_t end, int64_t head, float* state) {
  for (int64_t i = 0; i < s.dk; ++i) {
    __builtin_memcpy(b.state + i * s.dv_padded, state + i * s.dv, static_cast<size_t>(s.dv) * 4);
    for (int64_t j = s.dv; j < s.dv_padded; ++j) b.state[i * s.dv_padded + j] = 0;
  }
  for (int64_t t = begin; t < end; t += kChunk)
    delta_chunk(args, s, b, t, min64(kChunk, end - t), head);
  for (int64_t i = 0; i < s.dk; ++i)
    __builtin_memcpy(state + i * s.dv, b.state + i * s.dv_padded, static_cast<size_t>(s.dv) * 4);
}

void gated_delta(const LaunchArgs& args, Member& member) {
  const Shape s = gated_delta_layout::shape_of(args);
  const StepInputs& step = *args.step;
  const DeltaBuffers b = delta_buffers(
      reinterpret_cast<float*>(args.workspace.data()) + member.index() * s.member_floats(), s);
  const auto part = member.share(step.n_sequences * s.nv);
  for (int64_t unit = part.first; unit < part.second; ++unit) {
    const int64_t sequence = unit / s.nv;
    const int64_t head = unit % s.nv;
    const int64_t begin = step.sequence_begin[sequence];
    const int64_t end = step.sequence_begin[sequence + 1];
    if (begin == end) continue;
    float* state = reinterpret_cast<float*>(step.rows[sequence] + args.operands[5].offset) +
                   head * s.dk * s.dv;
    if (end - begin >= gated_delta_layout::kChunkFrom) {
      delta_chunks(args, s, b, begin, end, head, state);
    } else {
      delta_steps(args, s, b, begin, end, head, state);
    }
  }
}
