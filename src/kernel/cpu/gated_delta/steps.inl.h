// The recurrence over a short run of rows, and what verification leaves for commit. The arithmetic
// of a row (qwen3_5.md §6.2) is the same wherever it is done: m = Σ k̂[i]·S[i] and r = Σ q̂[i]·S[i]
// go over ascending rows i of the state, a state's element becomes fma(k̂, δ, e^g·S).

// A state's columns: row i at data + i·stride.
struct StateColumns {
  float* data;
  int64_t stride;
};

// Rows [t, t + n) of the sequence, which lie in the buffers, over V vectors of state columns. Not
// Whole: V is 1 and only `live` < kLanes columns are. Reads `from`, leaves the advanced state in
// `to`; Keep: except after the last row. Every row but the first finds its state in the first-level
// cache and takes its sums while the one before advances it. `next`: the same columns of the state
// that is wanted after this one, or null.
template <int V, bool Whole>
struct DeltaColumns {
  const HeadRows& h;
  const DeltaBuffers& b;
  int64_t column;
  int64_t live;
  VF m[V];
  VF r[V];
  VF delta[V];

  VF read(const float* p) const { return Whole ? load(p) : load_n(p, live); }
  void write(float* p, VF v) const {
    if constexpr (Whole) {
      store(p, v);
    } else {
      store_n(p, v, live);
    }
  }
  void clear_sums() {
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) m[j] = r[j] = splat(0);
  }

  void sum(StateColumns from, int64_t row, const float* next) {
    const Shape& s = h.s;
    const float* k = b.k + row * s.dk;
    const float* q = b.q + row * s.dk;
    clear_sums();
    for (int64_t i = 0; i < s.dk; ++i) {
      if (next != nullptr) fetch(next + i * s.dv, V * kLanes);
      const VF key = splat(k[i]);
      const VF query = splat(q[i]);
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) {
        const VF value = read(from.data + i * from.stride + j * kLanes);
        m[j] = fma(key, value, m[j]);
        r[j] = fma(query, value, r[j]);
      }
    }
  }

  // δ and o of a row whose sums are known.
  void finish(int64_t t, int64_t row, float* factors) {
    const Shape& s = h.s;
    const VF decay = splat(b.decay[row]);
    float* o = h.args.operands[8].f32_out(h.line.begin + t) + h.head * s.dv + column;
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      const VF v = load(b.delta + row * s.dv_padded + column + j * kLanes);
      delta[j] = splat(b.beta[row]) * (v - decay * m[j]);
      write(o + j * kLanes, fma(delta[j], splat(b.scale[row]), decay * r[j]));
      if (factors != nullptr) write(factors + column + j * kLanes, delta[j]);
    }
  }

  // to = k̂δᵀ + e^g·from for the finished row; with Sums those of the row behind it.
  template <bool Sums>
  void advance(StateColumns from, StateColumns to, int64_t row) {
    const Shape& s = h.s;
    const float* k = b.k + row * s.dk;
    const float* next_k = k + s.dk;
    const float* next_q = b.q + (row + 1) * s.dk;
    const VF decay = splat(b.decay[row]);
    if (Sums) clear_sums();
    for (int64_t i = 0; i < s.dk; ++i) {
      const VF key = splat(k[i]);
      const VF key_sum = Sums ? splat(next_k[i]) : key;
      const VF query_sum = Sums ? splat(next_q[i]) : key;
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) {
        const VF old = read(from.data + i * from.stride + j * kLanes);
        const VF value = fma(key, delta[j], decay * old);
        write(to.data + i * to.stride + j * kLanes, value);
        if (Sums) m[j] = fma(key_sum, value, m[j]);
        if (Sums) r[j] = fma(query_sum, value, r[j]);
      }
    }
  }
};

// One block of rows that lie in the buffers.
struct DeltaBlock {
  int64_t t;    // the first row in the sequence
  int64_t n;    // rows
  bool verify;  // leaves factors; `last`: nobody reads the state after the block's last row
  bool last;
  const float* next;
};
template <int V, bool Whole>
inline void run_columns(const HeadRows& h, const DeltaBuffers& b, const DeltaBlock& block,
                        StateColumns from, StateColumns to, int64_t column, int64_t live) {
  const Shape& s = h.s;
  DeltaColumns<V, Whole> columns{h, b, column, live, {}, {}, {}};
  columns.sum(from, 0, block.next == nullptr ? nullptr : block.next + column);
  for (int64_t i = 0; i < block.n; ++i) {
    float* factors = block.verify ? h.args.operands[9].f32_out(h.line.begin + block.t + i) +
                                        s.delta_column() + h.head * s.dv
                                  : nullptr;
    columns.finish(block.t + i, i, factors);
    if (i + 1 < block.n) {
      columns.template advance<true>(from, to, i);
    } else if (!block.last) {
      columns.template advance<false>(from, to, i);
    }
    from = to;
  }
}

// q̂, k̂, v, the gates and q̂·k̂ (scale) of the n <= kChunk rows from t on.
inline void load_rows(const HeadRows& h, const DeltaBuffers& b, int64_t t, int64_t n) {
  const Shape& s = h.s;
  load_gates(h, t, n, b.g, b.beta);
  for (int64_t i = 0; i < n; i += kLanes) store(b.decay + i, exp(load(b.g + i)));
  load_keys(h, t, n, b.q, b.k);
  for (int64_t i = 0; i < n; ++i) {
    b.scale[i] = sum_products(b.q + i * s.dk, b.k + i * s.dk, s.dk);
    for (int64_t j = s.dv; j < s.dv_padded; ++j) b.delta[i * s.dv_padded + j] = 0;
  }
  convolve(h, t, n, value_column(h), s.dv, b.delta, s.dv_padded);
}

// What commit needs besides δ of the block's rows.
inline void leave_keys(const HeadRows& h, const DeltaBuffers& b, const DeltaBlock& block) {
  const Shape& s = h.s;
  for (int64_t i = 0; i < block.n; ++i) {
    float* row = h.args.operands[9].f32_out(h.line.begin + block.t + i);
    row[s.decay_column() + h.head] = b.decay[i];
    if (h.head % (s.nv / s.nk) == 0)
      __builtin_memcpy(row + h.k_head() * s.dk, b.k + i * s.dk, static_cast<size_t>(s.dk) * 4);
  }
}

// The rows of a head, one after the other. They advance `state`, or with `verify` only read it:
// then the advanced one lives in the buffers, in panels.
inline void delta_steps(const HeadRows& h, const DeltaBuffers& b, int64_t rows, float* state,
                        bool verify, const float* next) {
  const Shape& s = h.s;
  for (int64_t t = 0; t < rows; t += kChunk) {
    const int64_t n = min64(kChunk, rows - t);
    const DeltaBlock block = {t, n, verify, verify && t + n == rows, t == 0 ? next : nullptr};
    load_rows(h, b, t, n);
    if (verify) leave_keys(h, b, block);
    for (int64_t column = 0; column < s.dv;) {
      const int64_t left = s.dv - column;
      const int64_t width = left >= 4 * kLanes ? 4 * kLanes : min64(left, kLanes);
      const StateColumns stored = {state + column, s.dv};
      const StateColumns to =
          verify ? StateColumns{b.state + column * s.dk, padded(width)} : stored;
      const StateColumns from = t == 0 ? stored : to;
      if (width == 4 * kLanes) {
        run_columns<4, true>(h, b, block, from, to, column, width);
      } else if (width == kLanes) {
        run_columns<1, true>(h, b, block, from, to, column, width);
      } else {
        run_columns<1, false>(h, b, block, from, to, column, width);
      }
      column += width;
    }
  }
}

// Rows [0, R) of a state × V vectors of columns over the accepted rows of factors. Not Whole: V is
// 1 and `live` < kLanes columns are.
template <int R, int V, bool Whole>
inline void replay_tile(float* state, int64_t dv, const float* factors, int64_t stride, int64_t key,
                        int64_t decay, int64_t delta, int64_t rows, int64_t live) {
  VF value[R][V];
#pragma GCC unroll 2
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      const float* at = state + i * dv + j * kLanes;
      value[i][j] = Whole ? load(at) : load_n(at, live);
    }
  for (int64_t t = 0; t < rows; ++t) {
    const float* f = factors + t * stride;
    const VF keep = splat(f[decay]);
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      const float* at = f + delta + j * kLanes;
      const VF d = Whole ? load(at) : load_n(at, live);
#pragma GCC unroll 2
      for (int i = 0; i < R; ++i) value[i][j] = fma(splat(f[key + i]), d, keep * value[i][j]);
    }
  }
#pragma GCC unroll 2
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      float* at = state + i * dv + j * kLanes;
      if constexpr (Whole) {
        store(at, value[i][j]);
      } else {
        store_n(at, value[i][j], live);
      }
    }
}

// The first `rows` rows of factors over a head's state, in one pass.
inline void replay_state(const LaunchArgs& args, const Shape& s, int64_t begin, int64_t rows,
                         int64_t head, float* state) {
  const float* factors = args.operands[1].f32(begin);
  const int64_t stride = args.operands[1].stride;
  const int64_t key = head / (s.nv / s.nk) * s.dk;
  const int64_t decay = s.decay_column() + head;
  const int64_t delta = s.delta_column() + head * s.dv;
  for (int64_t i = 0; i < s.dk;) {
    const bool two = i + 2 <= s.dk;
    float* row = state + i * s.dv;
    int64_t j = 0;
    for (; two && j + 4 * kLanes <= s.dv; j += 4 * kLanes)
      replay_tile<2, 4, true>(row + j, s.dv, factors, stride, key + i, decay, delta + j, rows, 0);
    for (int64_t x = 0; x < (two ? 2 : 1); ++x) {
      float* at = row + x * s.dv;
      int64_t c = j;
      for (; c + kLanes <= s.dv; c += kLanes)
        replay_tile<1, 1, true>(at + c, s.dv, factors, stride, key + i + x, decay, delta + c, rows,
                                0);
      if (c < s.dv)
        replay_tile<1, 1, false>(at + c, s.dv, factors, stride, key + i + x, decay, delta + c, rows,
                                 s.dv - c);
    }
    i += two ? 2 : 1;
  }
}
