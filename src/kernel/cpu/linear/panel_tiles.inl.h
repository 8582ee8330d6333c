// Linear over panels for many rows: blocks of rows by slices of two panels, products in vector
// registers. Needs panel_slices.inl.h before it.

// Two vectors of outputs over the groups of a slice, for R rows.
struct TileOperands {
  const std::byte *w0, *w1;
  const float *scales0, *scales1, *lows0, *lows1;
  const int32_t *starts0, *starts1;
  float *totals0, *totals1;
};

template <typename P, int R>
inline void tile_rows(const TileOperands& o, const Quantised& q, int64_t t, int64_t n,
                      int64_t group, int64_t n_groups) {
  const std::byte *w0 = o.w0, *w1 = o.w1;
  const Rows<R> rows(q, t, n);
  const int8_t* x = rows.codes + group * P::kGroup;
  const float* x_scales = rows.scales + group;
  const int32_t* neg_sums = rows.neg_sums + group;
  const float* neg_scaled = rows.neg_scaled + group;
  F totals0[R], totals1[R];
  unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
    totals0[r.value] = load(o.totals0 + r.value * kTotals);
    totals1[r.value] = load(o.totals1 + r.value * kTotals);
  });
  for (int64_t g = 0; g < n_groups; ++g) {
    I dots0[R], dots1[R];
    unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
      if constexpr (kSignedCodes && P::kIsWide) {
        dots0[r.value] = iload(o.starts0 + g * kPanelRows);
        dots1[r.value] = iload(o.starts1 + g * kPanelRows);
      } else {
        dots0[r.value] = dots1[r.value] = first_dot<P, false>(neg_sums + rows.meta[r.value]);
      }
    });
    tile_dots<P, R>(w0, w1, x, rows.code, dots0, dots1);
    const F s0 = load(o.scales0 + g * kPanelRows), s1 = load(o.scales1 + g * kPanelRows);
    unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
      const F x_scale = splat(x_scales[rows.meta[r.value]]);
      totals0[r.value] = mul_add(to_float(dots0[r.value]), mul(s0, x_scale), totals0[r.value]);
      totals1[r.value] = mul_add(to_float(dots1[r.value]), mul(s1, x_scale), totals1[r.value]);
    });
    if constexpr (P::kHasLow) {
      const F low0 = load(o.lows0 + g * kPanelRows), low1 = load(o.lows1 + g * kPanelRows);
      unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
        const F sum = splat(neg_scaled[rows.meta[r.value]]);
        totals0[r.value] = mul_add(low0, sum, totals0[r.value]);
        totals1[r.value] = mul_add(low1, sum, totals1[r.value]);
      });
    }
    w0 += P::kGroup * kPanelRows;
    w1 += P::kGroup * kPanelRows;
    x += P::kGroup;
    ++x_scales, ++neg_sums, ++neg_scaled;
  }
  unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
    if (r.value >= n) return;
    store(o.totals0 + r.value * kTotals, totals0[r.value]);
    store(o.totals1 + r.value * kTotals, totals1[r.value]);
  });
}

// Up to kTileRows8 rows; of six, two and four have kernels of their own.
template <typename P>
inline void tile_block(const TileOperands& o, const Quantised& q, int64_t t, int64_t n,
                       int64_t group, int64_t n_groups) {
  if constexpr (kTileRows8 == 6 && P::kIsCommon) {
    if (n <= 2) return tile_rows<P, 2>(o, q, t, n, group, n_groups);
    if (n <= 4) return tile_rows<P, 4>(o, q, t, n, group, n_groups);
  }
  tile_rows<P, kTileRows8>(o, q, t, n, group, n_groups);
}

// Which of a pair's results a multiplication keeps.
struct Kept {
  bool first, second;
  bool operator[](int place) const { return place == 0 ? first : second; }
};

// Adds the products of a slice of two panels of one format, `slices`, and `height` <= kTileRows8
// rows of x to totals[row][place][16]; what is not kept goes to `waste`.
template <typename P>
inline void tile_slice(const Slice* slices, Kept kept, const Quantised& q, int64_t col,
                       int64_t n_cols, int64_t t, int64_t height, float* totals, float* waste) {
  // Vector v of the two panels' 32 outputs.
  const auto place_of = [](int v) { return v * kLanes / static_cast<int>(kPanelRows); };
  const auto lane_of = [](int v) { return v * kLanes % static_cast<int>(kPanelRows); };
  for (int v = 0; v * kLanes < kTotals; v += 2) {
    const int a = place_of(v), b = place_of(v + 1);
    if (!kept[a] && !kept[b]) continue;
    const int la = lane_of(v), lb = lane_of(v + 1);
    const TileOperands o = {slices[a].codes + 4 * la,
                            slices[b].codes + 4 * lb,
                            slices[a].scales + la,
                            slices[b].scales + lb,
                            slices[a].lows + la,
                            slices[b].lows + lb,
                            slices[a].starts + la,
                            slices[b].starts + lb,
                            (kept[a] ? totals : waste) + v * kLanes,
                            (kept[b] ? totals : waste) + (v + 1) * kLanes};
    tile_block<TileFormatOf<P>>(o, q, t, height, col / P::kGroup, n_cols / P::kGroup);
  }
}

template <typename P>
inline void tile_pair(const PanelProblem& p, const PanelPair& pair, const PanelRef* two, Kept kept,
                      const TileStep& step, const Quantised& q, Range rows, SliceAhead& ahead,
                      float* totals, const PanelScratch& scratch) {
  Slice slices[2];
  for (int i = 0; i < 2; ++i) {
    slices[i] = slice_of(scratch, i);
    unpack_slice<P>(two[i], step.col, step.n_cols, slices[i]);
  }
  const bool finishes = step.is_last && kept.second;  // a pair of two formats comes twice
  for (int64_t t = rows.begin; t < rows.end; t += kTileRows8) {
    const int64_t height = rows.end - t < kTileRows8 ? rows.end - t : kTileRows8;
    float* block = totals + (t - rows.begin) * kTotals;
    ahead.ask();
    if (step.is_first && kept.first)
      __builtin_memset(block, 0, static_cast<size_t>(height * kTotals) * sizeof(float));
    if (finishes)
      for (int64_t r = 0; r < height; ++r) prefetch_outputs(p.problem, t + r, pair);
    tile_slice<P>(slices, kept, q, step.col, step.n_cols, t, height, block, scratch.waste);
    if (!finishes) continue;
    for (int64_t r = 0; r < height; ++r)
      finish_pair(p.problem, t + r, pair, block + r * kTotals, block + r * kTotals + kPanelRows);
  }
}

// A run of pairs over rows of x: a slice of x stays in L2 while all pairs pass.
inline void tile_item(const PanelProblem& p, Range pairs, const Quantised* x, Range rows,
                      const PanelScratch& scratch) {
  const int64_t padded_k = p.padded_k;
  for (int64_t col = 0; col < padded_k; col += kSliceCols) {
    const int64_t n_cols = padded_k - col < kSliceCols ? padded_k - col : kSliceCols;
    const TileStep step = {col, n_cols, col == 0, col + n_cols == padded_k};
    for (int64_t i = pairs.begin; i < pairs.end; ++i) {
      const PanelPair pair = tile_pair_at(p, i);
      float* totals = scratch.totals + (i - pairs.begin) * (rows.end - rows.begin) * kTotals;
      const PanelRef &a = pair.panels[0], &b = pair.panels[pair.count - 1];
      SliceAhead ahead =
          slice_behind(p, pairs, i, 1, col, (rows.end - rows.begin + kTileRows8 - 1) / kTileRows8);
      const auto multiply = [&](const PanelRef& left, const PanelRef& right, Kept kept) {
        const PanelRef two[2] = {left, right};
        const Quantised& q = x[width_index(left.segment->shape.group_cols)];
        with_integers(left.segment->format, [&](auto format) {
          tile_pair<decltype(format)>(p, pair, two, kept, step, q, rows, ahead, totals, scratch);
        });
      };
      if (a.segment->format == b.segment->format) {
        multiply(a, b, {true, true});
      } else {
        multiply(a, a, {true, false});
        multiply(b, b, {false, true});
      }
    }
  }
}

inline void run_tiles(const PanelProblem& p, const Quantised* x, const PanelScratch& scratch,
                      Member& member) {
  const TileItems items(p, member.count(), 1);
  for (int64_t item = member.take(); item < items.count; item = member.take())
    tile_item(p, items.pairs(item), x, items.rows(item), scratch);
}
