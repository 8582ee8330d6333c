// Linear over panels with binary32 activations (kA16Only): weights have the values of
// decode_panels, see panels.h. Needs what panels.inl.h needs, and that file, before it.
//
// Every output is two sums over its columns, the even and the odd ones, ascending, each by mul_add,
// and their sum at the end: the same words for one row and for many.

// E4M3 words in 32-bit lanes, zero above; exact. Not for NaN.
inline F widen_e4m3(I words) {
  const I magnitude = shl<20>(and_(words, isplat(0x7f)));
  const I sign = shl<24>(and_(words, isplat(0x80)));
  return mul(as_float(or_(magnitude, sign)), splat(0x1p120f));
}

// The values of step S: out[b] is column 4·S + b.
template <typename P, int S>
FLARE_ALWAYS_INLINE inline void step_values(const std::byte* codes, F scale, F neg_low, F* out) {
  const I w = step_codes<P, S>(codes);
  const I bytes[4] = {and_(w, isplat(0xff)), and_(shr<8>(w), isplat(0xff)),
                      and_(shr<16>(w), isplat(0xff)), shr<24>(w)};
  unrolled<0, 4>([&](auto b) FLARE_ALWAYS_INLINE {
    F code = kHoldsFp8<P> ? widen_e4m3(bytes[b.value]) : to_float(bytes[b.value]);
    if constexpr (P::kOffsetBits != kNotRaised)
      code = add(code, splat(-static_cast<float>(1 << P::kOffsetBits)));
    out[b.value] = P::kHasLow ? mul_add(scale, code, neg_low) : mul(scale, code);
  });
}

// body(column, values of columns column … column + 3) over blocks from `block` on.
template <typename P, typename Body>
FLARE_ALWAYS_INLINE inline void for_steps(const codec::PanelShape& shape, const std::byte* block,
                                          int64_t n_cols, int lane, const Body& body) {
  constexpr int64_t kBlockCols = P::kGroup * P::kBlockGroups;
  constexpr int kSteps = P::kGroup / 4, kTurn = kSteps < 8 ? kSteps : 8;
  for (int64_t col = 0; col < n_cols; col += kBlockCols, block += shape.block_bytes) {
    const std::byte* codes = block + shape.scale_bytes + 4 * lane;
    F scale[P::kBlockGroups], low[P::kHasLow ? P::kBlockGroups : 1];
    P::block_scales(block, lane, scale, low);
    for (int turn = 0; turn < P::kBlockGroups * (kSteps / kTurn); ++turn) {
      const int g = turn / (kSteps / kTurn);
      if (lane == 0) prefetch(block + kFirstAhead + turn * kTurnShare<P>, kTurnShare<P>);
      const F neg_low = P::kHasLow ? sub(zero(), low[P::kHasLow ? g : 0]) : zero();
      unrolled<0, kTurn>([&](auto s) FLARE_ALWAYS_INLINE {
        F values[4];
        step_values<P, s.value>(codes, scale[g], neg_low, values);
        body(col + turn * kTurn * 4 + s.value * 4, values);
      });
      codes += kTurn * kStepCodeBytes<P>;
    }
  }
}

// ---- one row: decoded in registers

template <typename P>
inline void float_lanes(const PanelRef& panel, int lane, const float* x, int64_t padded_k,
                        float* out) {
  F even = zero(), odd = zero();
  for_steps<P>(panel.segment->shape, panel.data, padded_k, lane,
               [&](int64_t col, const F* values) FLARE_ALWAYS_INLINE {
                 even = mul_add(values[0], splat(x[col]), even);
                 odd = mul_add(values[1], splat(x[col + 1]), odd);
                 even = mul_add(values[2], splat(x[col + 2]), even);
                 odd = mul_add(values[3], splat(x[col + 3]), odd);
               });
  store(out + lane, add(even, odd));
}

inline void run_float_row(const PanelProblem& p, Member& member) {
  alignas(64) float totals[2][kPanelRows];
  for_shares(p, member, [&](const PanelPair& pair, const PanelPair&) {
    for (int j = 0; j < pair.count; ++j)
      with_format(pair.panels[j].segment->format, [&](auto format) {
        for (int lane = 0; lane < kPanelRows; lane += kLanes)
          float_lanes<decltype(format)>(pair.panels[j], lane, p.rows, p.padded_k, totals[j]);
      });
    finish_pair(p.problem, 0, pair, totals[0], totals[1]);
  });
}

// ---- more rows: slices of two panels as floats, used by blocks of rows

// to[column][16] = values of the columns [col, col + n_cols).
inline void decode_slice(const PanelRef& panel, int64_t col, int64_t n_cols, float* to) {
  const codec::PanelShape& shape = panel.segment->shape;
  const std::byte* block = panel.data + col / static_cast<int64_t>(shape.block_cols) *
                                            static_cast<int64_t>(shape.block_bytes);
  with_format(panel.segment->format, [&](auto format) {
    for (int lane = 0; lane < kPanelRows; lane += kLanes)
      for_steps<decltype(format)>(shape, block, n_cols, lane,
                                  [&](int64_t at, const F* values) FLARE_ALWAYS_INLINE {
                                    float* out = to + at * kPanelRows + lane;
                                    unrolled<0, 4>([&](auto b) FLARE_ALWAYS_INLINE {
                                      store(out + b.value * kPanelRows, values[b.value]);
                                    });
                                  });
  });
}

// Totals of a row: [even, odd][place][16].
constexpr int64_t kFloatTotals = 2 * kTotals;

// Two vectors of outputs over every other of n_cols columns for R rows, of which n are there: 2·R
// sums in registers, and fewer loads than products.
template <int R>
inline void float_rows(const float* w0, const float* w1, const float* x, int64_t stride, int64_t n,
                       int64_t n_cols, float* totals0, float* totals1) {
  const float* rows[R];
  F sums0[R], sums1[R];
  unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
    rows[r.value] = x + (r.value < n ? r.value : n - 1) * stride;
    sums0[r.value] = load(totals0 + r.value * kFloatTotals);
    sums1[r.value] = load(totals1 + r.value * kFloatTotals);
  });
  for (int64_t k = 0; k < n_cols; k += 2) {
    const F a = load(w0 + k * kPanelRows), b = load(w1 + k * kPanelRows);
    unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
      const F value = splat(rows[r.value][k]);
      sums0[r.value] = mul_add(a, value, sums0[r.value]);
      sums1[r.value] = mul_add(b, value, sums1[r.value]);
    });
  }
  unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
    if (r.value >= n) return;
    store(totals0 + r.value * kFloatTotals, sums0[r.value]);
    store(totals1 + r.value * kFloatTotals, sums1[r.value]);
  });
}

constexpr int64_t kFloatRows = 6;

inline void float_block(const PanelProblem& p, const PanelScratch& scratch, int64_t t,
                        int64_t height, int64_t col, int64_t n_cols, float* totals) {
  const float* x = p.rows + t * p.rows_stride + col;
  for (int v = 0; v * kLanes < kTotals; v += 2) {
    const auto values_of = [&](int i) {
      return scratch.values + i * kLanes / kPanelRows * kPanelRows * kFloatSliceCols +
             i * kLanes % kPanelRows;
    };
    const auto run = [&](auto r) {
      for (int odd = 0; odd < 2; ++odd)
        float_rows<r.value>(values_of(v) + odd * kPanelRows, values_of(v + 1) + odd * kPanelRows,
                            x + odd, p.rows_stride, height, n_cols,
                            totals + odd * kTotals + v * kLanes,
                            totals + odd * kTotals + (v + 1) * kLanes);
    };
    if (height <= 2) {
      run(Constant<2>{});
    } else {
      run(Constant<kFloatRows>{});
    }
  }
}

inline void float_item(const PanelProblem& p, const PanelPair* pairs, int64_t n, Range rows,
                       const PanelScratch& scratch) {
  const int64_t n_rows = rows.end - rows.begin;
  for (int64_t col = 0; col < p.padded_k; col += kFloatSliceCols) {
    const int64_t left = p.padded_k - col;
    const int64_t n_cols = left < kFloatSliceCols ? left : kFloatSliceCols;
    const bool is_last = n_cols == left;
    for (int64_t j = 0; j < n; ++j) {
      for (int i = 0; i < 2; ++i)
        decode_slice(pairs[j].panels[i < pairs[j].count ? i : 0], col, n_cols,
                     scratch.values + i * kPanelRows * kFloatSliceCols);
      for (int64_t first = 0; first < n_rows; first += kFloatRows) {
        const int64_t height = n_rows - first < kFloatRows ? n_rows - first : kFloatRows;
        float* totals = scratch.totals + (j * n_rows + first) * kFloatTotals;
        if (col == 0)
          __builtin_memset(totals, 0, static_cast<size_t>(height * kFloatTotals) * sizeof(float));
        float_block(p, scratch, rows.begin + first, height, col, n_cols, totals);
        if (!is_last) continue;
        for (int64_t r = 0; r < height; ++r) {
          float* sums = totals + r * kFloatTotals;
          for (int64_t i = 0; i < kTotals; i += kLanes)
            store(sums + i, add(load(sums + i), load(sums + kTotals + i)));
          finish_pair(p.problem, rows.begin + first + r, pairs[j], sums, sums + kPanelRows);
        }
      }
    }
  }
}

inline void run_float_rows(const PanelProblem& p, const PanelScratch& scratch, Member& member) {
  const TileItems items(p, member.count(), 1);
  for (int64_t item = member.take(); item < items.count; item = member.take()) {
    PanelPair pairs[kPairsAtOnce];
    const Range range = items.pairs(item);
    for (int64_t i = range.begin; i < range.end; ++i) pairs[i - range.begin] = tile_pair_at(p, i);
    float_item(p, pairs, range.end - range.begin, items.rows(item), scratch);
  }
}

// x̂ of all rows in the workspace, zeros behind column K.
inline void prepare_rows(const PanelProblem& p, const Member& member) {
  const Problem& problem = p.problem;
  const Range rows = share_of(member, problem.n_rows, 1);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    float* row = p.rows + t * p.rows_stride;
    ends::prepare_row(problem, t, row);
    for (int64_t k = problem.k; k < p.padded_k; ++k) row[k] = 0;
  }
}

inline void run_panel_floats(const PanelProblem& p, Member& member) {
  prepare_rows(p, member);
  member.barrier();
  if (p.problem.n_rows == 1) return run_float_row(p, member);
  run_float_rows(p, scratch_of(p, member), member);
}
