// The chunk form (qwen3_5.md §6.3) as products of small matrices. A right-hand side is stored in
// panels of kPanel columns, so that one panel of a state lies in the first-level cache in one piece
// while every row of the left-hand side passes over it.
#include "kernel/cpu/gated_delta/rows.inl.h"

inline constexpr int kPanel = 2 * kLanes;
// Rows of a tile of sums: 2·kTileRows vectors of sums, 2 of the panel, 1 of the left-hand side.
inline constexpr int kTileRows = kLanes == 16 ? 8 : kLanes == 8 ? 6 : 4;

// Sums of R rows × V vectors.
template <int R, int V>
struct Tile {
  VF sum[R][V];
  void clear() {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[r][v] = splat(0);
  }
  // sum += a·b: a[r, i] at a[r·row_step + i], b rows of a panel.
  void add_product(const float* a, int64_t row_step, const float* b, int64_t inner) {
    for (int64_t i = 0; i < inner; ++i) {
      VF row[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) row[v] = load(b + i * kPanel + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const VF left = splat(a[r * row_step + i]);
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) sum[r][v] = fma(left, row[v], sum[r][v]);
      }
    }
  }
};

// work.rows<R>(t) for tiles of R rows that cover [0, n) in ascending order.
template <class Work>
inline void each_tile(int64_t n, const Work& work) {
  int64_t t = 0;
  for (; t + kTileRows <= n; t += kTileRows) work.template rows<kTileRows>(t);
  if (kTileRows > 4 && t + 4 <= n) {
    work.template rows<4>(t);
    t += 4;
  }
  if (t + 2 <= n) {
    work.template rows<2>(t);
    t += 2;
  }
  if (t < n) work.template rows<1>(t);
}

// q·k and k·k: of row t the columns up to the diagonal, and some beyond it.
struct KeyProducts {
  const DeltaBuffers& b;
  const Shape& s;
  template <int R, int V>
  void tile(const float* left, float* out, int64_t t, int64_t m) const {
    Tile<R, V> sums;
    sums.clear();
    sums.add_product(left + t * s.dk, s.dk, b.kt + m / kPanel * s.dk * kPanel, s.dk);
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) store(out + (t + r) * kChunk + m + v * kLanes, sums.sum[r][v]);
  }
  template <int R>
  void rows(int64_t t) const {
    for (int64_t m = 0; m < t + R; m += kPanel) {
      if (t + R - m > kLanes) {
        tile<R, 2>(b.q, b.qk, t, m);
        tile<R, 2>(b.k, b.kk, t, m);
      } else {
        tile<R, 1>(b.q, b.qk, t, m);
        tile<R, 1>(b.k, b.kk, t, m);
      }
    }
  }
};

// v becomes β(v − e^G·(k·S)), over one panel.
struct Errors {
  const DeltaBuffers& b;
  const Shape& s;
  const float* state;
  float* delta;
  template <int R>
  void rows(int64_t t) const {
    Tile<R, 2> sums;
    sums.clear();
    sums.add_product(b.k + t * s.dk, s.dk, state, s.dk);
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < 2; ++v) {
        float* at = delta + (t + r) * kPanel + v * kLanes;
        store(at, splat(b.beta[t + r]) * (load(at) - splat(b.decay[t + r]) * sums.sum[r][v]));
      }
  }
};

// (I + A)Δ = right-hand side, in place, over one panel: a tile takes the rows above it by a
// product, those inside it one by one. k·k holds −A.
struct Solve {
  const DeltaBuffers& b;
  float* delta;
  template <int R>
  void rows(int64_t t) const {
    Tile<R, 2> x;
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < 2; ++v) x.sum[r][v] = load(delta + (t + r) * kPanel + v * kLanes);
    const float* a = b.kk + t * kChunk;
    x.add_product(a, kChunk, delta, t);
#pragma GCC unroll 8
    for (int r = 1; r < R; ++r)
#pragma GCC unroll 8
      for (int m = 0; m < r; ++m) {
        const VF left = splat(a[r * kChunk + t + m]);
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) x.sum[r][v] = fma(left, x.sum[m][v], x.sum[r][v]);
      }
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < 2; ++v) store(delta + (t + r) * kPanel + v * kLanes, x.sum[r][v]);
  }
};

// o = e^G·(q·S) + (q·k ⊙ D)Δ over one panel of columns from `column` on.
struct Outputs {
  const DeltaBuffers& b;
  const Shape& s;
  const float* state;
  const float* delta;
  const OperandView& out;
  int64_t first_row;  // of the step
  int64_t column;
  int64_t live;  // columns, at most kPanel
  template <int R>
  void rows(int64_t t) const {
    Tile<R, 2> sums;
    sums.clear();
    sums.add_product(b.q + t * s.dk, s.dk, state, s.dk);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) sums.sum[r][v] = sums.sum[r][v] * splat(b.decay[t + r]);
    sums.add_product(b.qk + t * kChunk, kChunk, delta, t + R);
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < 2; ++v) {
        float* at = out.f32_out(first_row + t + r) + column + v * kLanes;
        const int64_t n = live - v * kLanes;
        if (n >= kLanes) {
          store(at, sums.sum[r][v]);
        } else if (n > 0) {
          store_n(at, sums.sum[r][v], n);
        }
      }
  }
};

// S = e^{G_C}·S + Kᵀ(e^{G_C − G} Δ) over one panel; Δ is weighted already.
struct Advance {
  const DeltaBuffers& b;
  const Shape& s;
  int64_t n;
  float* state;
  const float* delta;
  template <int R>
  void rows(int64_t i) const {
    Tile<R, 2> sums;
    const VF keep = splat(b.decay[n - 1]);
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < 2; ++v)
        sums.sum[r][v] = load(state + (i + r) * kPanel + v * kLanes) * keep;
    for (int64_t t = 0; t < n; t += kPanel)
      sums.add_product(b.kt + (t * s.dk + i * kPanel), kPanel, delta + t * kPanel,
                       min64(kPanel, n - t));
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < 2; ++v) store(state + (i + r) * kPanel + v * kLanes, sums.sum[r][v]);
  }
};

// kᵀ of n rows in panels, zero up to a panel's end.
inline void transpose_keys(const DeltaBuffers& b, const Shape& s, int64_t n) {
  for (int64_t t = 0; t < n; t += 4) {
    float* panel = b.kt + t / kPanel * s.dk * kPanel + t % kPanel;
    int64_t i = 0;
    for (; t + 4 <= n && i + 4 <= s.dk; i += 4) {
      const float* in = b.k + t * s.dk + i;
      __m128 x0 = _mm_loadu_ps(in);
      __m128 x1 = _mm_loadu_ps(in + s.dk);
      __m128 x2 = _mm_loadu_ps(in + 2 * s.dk);
      __m128 x3 = _mm_loadu_ps(in + 3 * s.dk);
      _MM_TRANSPOSE4_PS(x0, x1, x2, x3);
      _mm_storeu_ps(panel + i * kPanel, x0);
      _mm_storeu_ps(panel + (i + 1) * kPanel, x1);
      _mm_storeu_ps(panel + (i + 2) * kPanel, x2);
      _mm_storeu_ps(panel + (i + 3) * kPanel, x3);
    }
    for (; i < s.dk; ++i)
      for (int64_t r = 0; r < 4; ++r)
        panel[i * kPanel + r] = t + r < n ? b.k[(t + r) * s.dk + i] : 0;
  }
  for (int64_t t = (n + 3) / 4 * 4; t % kPanel != 0; ++t)
    for (int64_t i = 0; i < s.dk; ++i)
      b.kt[t / kPanel * s.dk * kPanel + i * kPanel + t % kPanel] = 0;
}

inline constexpr int64_t kConvRows = 4;  // convolved at a time, while the next ones are fetched
// q̂, k̂, k̂ᵀ, v and the gates of the n rows from t on. sums: G, in double so that differences keep
// their bits; decay: e^G; scale: e^{G_C − G}.
inline void load_chunk(const HeadRows& h, const DeltaBuffers& b, int64_t t, int64_t n, int64_t rows,
                       double* sums) {
  const Shape& s = h.s;
  load_gates(h, t, n, b.g, b.beta);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += b.g[i];
    sums[i] = sum;
  }
  for (int64_t i = 0; i < padded(n); ++i) {
    b.decay[i] = i < n ? static_cast<float>(sums[i]) : 0;
    b.scale[i] = i < n ? static_cast<float>(sum - sums[i]) : 0;
  }
  for (int64_t i = 0; i < n; i += kLanes) {
    store(b.decay + i, exp(load(b.decay + i)));
    store(b.scale + i, exp(load(b.scale + i)));
  }
  for (int64_t i = 0; i < n; i += kConvRows) {
    const int64_t live = min64(kConvRows, n - i);
    for (int64_t ahead = 0; ahead < kConvRows; ++ahead)
      if (t + i + kConvRows + ahead < rows) fetch_row(h, t + i + kConvRows + ahead);
    load_keys(h, t + i, live, b.q + i * s.dk, b.k + i * s.dk);
    for (int64_t j = 0; j < s.dv_padded; j += kPanel) {
      float* v = b.delta + j * kChunk + i * kPanel;
      if (j + kPanel > s.dv)
        for (int64_t r = 0; r < live * kPanel; r += kLanes) store(v + r, splat(0));
      convolve(h, t + i, live, value_column(h) + j, max64(0, min64(kPanel, s.dv - j)), v, kPanel);
    }
  }
  transpose_keys(b, s, n);
}

// In place: q·k becomes q·k ⊙ D (zero above the diagonal), k·k becomes −A (below it).
inline void decay_products(const DeltaBuffers& b, int64_t n, const double* sums) {
  for (int64_t t = 0; t < n; ++t) {
    const VF beta = splat(-b.beta[t]);
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

// Rows [t, t + n) of the sequence over the state in the buffers.
inline void delta_chunk(const HeadRows& h, const DeltaBuffers& b, int64_t t, int64_t n,
                        int64_t rows) {
  const Shape& s = h.s;
  double sums[kChunk];
  load_chunk(h, b, t, n, rows, sums);
  each_tile(n, KeyProducts{b, s});
  decay_products(b, n, sums);
  for (int64_t j = 0; j < s.dv_padded; j += kPanel) {
    float* state = b.state + j * s.dk;
    float* delta = b.delta + j * kChunk;
    each_tile(n, Errors{b, s, state, delta});
    each_tile(n, Solve{b, delta});
    each_tile(n, Outputs{b, s, state, delta, h.args.operands[8], h.line.begin + t,
                         h.head * s.dv + j, s.dv - j});
    for (int64_t i = 0; i < n; ++i)
      for (int v = 0; v < 2; ++v) {
        float* at = delta + i * kPanel + v * kLanes;
        store(at, load(at) * splat(b.scale[i]));
      }
    each_tile(s.dk, Advance{b, s, n, state, delta});
  }
}

// A long run of rows, chunk by chunk.
inline void delta_chunks(const HeadRows& h, const DeltaBuffers& b, int64_t rows, float* state) {
  const Shape& s = h.s;
  for (int64_t j = 0; j < s.dv_padded; j += kPanel) {
    const int64_t live = max64(0, min64(kPanel, s.dv - j));
    for (int64_t i = 0; i < s.dk; ++i) {
      float* row = b.state + j * s.dk + i * kPanel;
      __builtin_memcpy(row, state + i * s.dv + j, static_cast<size_t>(live) * 4);
      for (int64_t x = live; x < kPanel; ++x) row[x] = 0;
    }
  }
  for (int64_t t = 0; t < rows; t += kChunk) delta_chunk(h, b, t, min64(kChunk, rows - t), rows);
  for (int64_t j = 0; j < s.dv; j += kPanel)
    for (int64_t i = 0; i < s.dk; ++i)
      __builtin_memcpy(state + i * s.dv + j, b.state + j * s.dk + i * kPanel,
                       static_cast<size_t>(min64(kPanel, s.dv - j)) * 4);
}
