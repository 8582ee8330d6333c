// Linear over panels for many rows with AMX: a block is 16 rows of x by one panel, a group of its
// columns one product of tiles. Codes of a slice lie as the second factor wants them. Needs
// tiles.inl.h and panel_slices.inl.h before it.

constexpr int64_t kBlockHeight = 16;  // rows of x
// Tiles. The last block of a launch may be lower than others. Two of each take turns.
enum : int { kXTile, kLastXTile, kSumsTile, kSumsTile2, kLastSumsTile, kPanelTile, kPanelTile2 };

// Keeps the tiles in the shape of the format at hand.
class TileState {
 public:
  explicit TileState(int64_t n_rows) : last_(n_rows % kBlockHeight) {}
  ~TileState() { tile_release(); }
  void shape_for(int64_t group) {
    if (group == group_) return;
    group_ = group;
    TileShapes shapes;
    shapes.set(kXTile, kBlockHeight, group);
    shapes.set(kLastXTile, last_ == 0 ? kBlockHeight : last_, group);
    for (const int tile : {kSumsTile, kSumsTile2}) shapes.set(tile, kBlockHeight, 64);
    shapes.set(kLastSumsTile, last_ == 0 ? kBlockHeight : last_, 64);
    for (const int tile : {kPanelTile, kPanelTile2}) shapes.set(tile, group / 4, 64);
    tile_configure(shapes);
  }

 private:
  int64_t last_;
  int64_t group_ = 0;
};

// The integer products of a group of a block, to `dots`: [16][16], of the last block fewer rows.
template <int kGroup, bool kIsLast, int kTurn>
FLARE_ALWAYS_INLINE inline void multiply_group(const int8_t* x, int64_t x_stride,
                                               const std::byte* codes, int32_t* dots) {
  constexpr int kX = kIsLast ? kLastXTile : kXTile, kPanel = kTurn == 0 ? kPanelTile : kPanelTile2;
  constexpr int kSums = kIsLast ? kLastSumsTile : kTurn == 0 ? kSumsTile : kSumsTile2;
  tile_zero<kSums>();
  tile_load<kX>(x, x_stride);
  tile_load<kPanel>(codes, 64);
  tile_add_bytes<kSums, kX, kPanel>();
  tile_store<kSums>(dots, 64);
}

// totals[row][16] += the products of a slice and the rows of a block, kTotals floats from row to
// row. Of the last block all 16 rows of totals and scales are touched.
template <typename P, bool kIsLast>
inline void multiply_panel(const Slice& slice, const Quantised& q, int64_t t, const TileStep& step,
                           float* totals) {
  alignas(64) int32_t dots[2][kBlockHeight * kPanelRows];
  if constexpr (kIsLast) __builtin_memset(dots, 0, sizeof dots);
  const int64_t n_groups = step.n_cols / P::kGroup, first = step.col / P::kGroup;
  const int64_t x_stride = q.stride, columns_stride = q.columns_stride;
  const int8_t* x = q.codes + t * x_stride + step.col;
  const float* x_scales = q.scale_columns + first * columns_stride + t;
  const float* neg_scaled = q.neg_scaled_columns + first * columns_stride + t;
  const std::byte* codes = slice.codes;
  const float* scales = slice.scales;
  const float* lows = slice.lows;
  F sums[kBlockHeight];
  unrolled<0, kBlockHeight>([&](auto r) FLARE_ALWAYS_INLINE {
    sums[r.value] = step.is_first ? zero() : load(totals + r.value * kTotals);
  });
  const auto multiply = [&](auto turn) FLARE_ALWAYS_INLINE {
    multiply_group<P::kGroup, kIsLast, turn.value>(x, x_stride, codes, dots[turn.value]);
    x += P::kGroup;
    codes += P::kGroup * kPanelRows;
  };
  const auto add_dots = [&](const int32_t* of) FLARE_ALWAYS_INLINE {
    const F scale = load(scales);
    unrolled<0, kBlockHeight>([&](auto r) FLARE_ALWAYS_INLINE {
      F& sum = sums[r.value];
      const F both = mul(scale, splat(x_scales[r.value]));
      sum = mul_add(to_float(iload(of + r.value * kPanelRows)), both, sum);
    });
    if constexpr (P::kHasLow) {
      const F low = load(lows);
      unrolled<0, kBlockHeight>([&](auto r) FLARE_ALWAYS_INLINE {
        sums[r.value] = mul_add(low, splat(neg_scaled[r.value]), sums[r.value]);
      });
      lows += kPanelRows;
      neg_scaled += columns_stride;
    }
    scales += kPanelRows;
    x_scales += columns_stride;
  };
  // The tiles of a group are under way while the sums before them are scaled. Groups of a slice
  // are even in number: it is of whole blocks.
  multiply(Constant<0>{});
  for (int64_t g = 0; g < n_groups; g += 2) {
    multiply(Constant<1>{});
    add_dots(dots[0]);
    if (g + 2 < n_groups) multiply(Constant<0>{});
    add_dots(dots[1]);
  }
  unrolled<0, kBlockHeight>(
      [&](auto r) FLARE_ALWAYS_INLINE { store(totals + r.value * kTotals, sums[r.value]); });
}

// A slice of one panel, ready to be multiplied.
struct ReadySlice {
  using Multiply = void (*)(const Slice&, const Quantised&, int64_t t, const TileStep&,
                            float* totals);
  Slice slice;
  Multiply multiply, multiply_last;
  const Quantised* x;
  float* totals;  // of its pair's first row
};

inline ReadySlice ready_slice(const PanelRef& panel, const TileStep& step, const Quantised* x,
                              const Slice& room, float* totals) {
  ReadySlice ready = {room, nullptr, nullptr, x + width_index(panel.segment->shape.group_cols),
                      totals};
  with_integers(panel.segment->format, [&](auto format) {
    using P = decltype(format);
    unpack_slice<P, /*kLowersCodes=*/true>(panel, step.col, step.n_cols, room);
    ready.multiply = multiply_panel<P, false>;
    ready.multiply_last = multiply_panel<P, true>;
  });
  return ready;
}

// Slices that a block of x is multiplied with while it is in L1.
constexpr int kSlicesAtOnce = 2 * kPairsInL1;

// The slices of a few pairs over rows of x; behind the last columns their outputs are finished.
inline void multiply_pairs(const PanelProblem& p, Range pairs, const TileStep& step,
                           const Quantised* x, Range rows, const PanelScratch& scratch,
                           float* totals, int64_t pair_totals, SliceAhead* aheads,
                           TileState& tiles) {
  PanelPair pair[kPairsInL1];
  ReadySlice slices[kSlicesAtOnce];
  int n_pairs = 0, n_slices = 0;
  for (int64_t i = pairs.begin; i < pairs.end; ++i, ++n_pairs) {
    pair[n_pairs] = tile_pair_at(p, i);
    for (int place = 0; place < pair[n_pairs].count; ++place, ++n_slices)
      slices[n_slices] =
          ready_slice(pair[n_pairs].panels[place], step, x, slice_of(scratch, n_slices),
                      totals + n_pairs * pair_totals + place * kPanelRows);
  }
  // Tiles have one shape at a time.
  int from = 0;
  for (int to = 1; to <= n_slices; ++to) {
    if (to < n_slices && slices[to].x == slices[from].x) continue;
    tiles.shape_for(slices[from].x->group);
    const bool finishes = step.is_last && to == n_slices;
    for (int64_t t = rows.begin; t < rows.end; t += kBlockHeight) {
      const int64_t height = rows.end - t < kBlockHeight ? rows.end - t : kBlockHeight;
      if (to == n_slices)
        for (int i = 0; i < n_pairs; ++i) aheads[i].ask();
      if (finishes)
        for (int i = 0; i < n_pairs; ++i)
          for (int64_t r = 0; r < height; ++r) prefetch_outputs(p.problem, t + r, pair[i]);
      for (int i = from; i < to; ++i) {
        const ReadySlice& s = slices[i];
        (height == kBlockHeight ? s.multiply : s.multiply_last)(
            s.slice, *s.x, t, step, s.totals + (t - rows.begin) * kTotals);
      }
      if (!finishes) continue;
      for (int i = 0; i < n_pairs; ++i) {
        const float* block = totals + i * pair_totals + (t - rows.begin) * kTotals;
        for (int64_t r = 0; r < height; ++r)
          finish_pair(p.problem, t + r, pair[i], block + r * kTotals,
                      block + r * kTotals + kPanelRows);
      }
    }
    from = to;
  }
}

// A run of pairs over rows of x: a slice of x stays in L2 while all pairs pass.
inline void tile_item(const PanelProblem& p, Range pairs, const Quantised* x, Range rows,
                      const PanelScratch& scratch, TileState& tiles) {
  const int64_t height = align_up(rows.end - rows.begin, kBlockHeight);
  for (int64_t col = 0; col < p.padded_k; col += kSliceCols) {
    const int64_t n_cols = p.padded_k - col < kSliceCols ? p.padded_k - col : kSliceCols;
    const TileStep step = {col, n_cols, col == 0, col + n_cols == p.padded_k};
    for (int64_t i = pairs.begin; i < pairs.end; i += kPairsInL1) {
      const Range some = {i, pairs.end - i < kPairsInL1 ? pairs.end : i + kPairsInL1};
      SliceAhead aheads[kPairsInL1];
      for (int64_t j = some.begin; j < some.end; ++j)
        aheads[j - i] =
            slice_behind(p, pairs, j, some.end - some.begin, col, height / kBlockHeight);
      multiply_pairs(p, some, step, x, rows, scratch,
                     scratch.totals + (i - pairs.begin) * height * kTotals, height * kTotals,
                     aheads, tiles);
    }
  }
}

// The scales of x by columns, this member's share of rows.
inline void transpose_scales(const PanelProblem& p, const Quantised* x, Range rows) {
  for (int w = 0; w < kWidths; ++w) {
    const Quantised& q = x[w];
    if (!p.is_wanted[w]) continue;
    const auto groups = static_cast<int32_t>(q.groups);
    const I lanes = _mm512_mullo_epi32(
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), isplat(groups));
    for (int64_t t = rows.begin; t < rows.end; t += kBlockHeight) {
      const int64_t n = rows.end - t < kBlockHeight ? rows.end - t : kBlockHeight;
      const auto some = static_cast<__mmask16>((1u << n) - 1);
      for (int64_t g = 0; g < q.groups; ++g) {
        const int64_t from = t * q.groups + g, to = g * q.columns_stride + t;
        store(q.scale_columns + to,
              _mm512_mask_i32gather_ps(zero(), some, lanes, q.scales + from, 4));
        store(q.neg_scaled_columns + to,
              _mm512_mask_i32gather_ps(zero(), some, lanes, q.neg_scaled + from, 4));
      }
    }
  }
}

inline void run_tiles(const PanelProblem& p, const Quantised* x, const PanelScratch& scratch,
                      Member& member) {
  const int64_t n_rows = p.problem.n_rows;
  if (x == scratch.own) {
    transpose_scales(p, x, {0, n_rows});
  } else {
    transpose_scales(p, x, share_of(member, n_rows, kBlockHeight));
    member.barrier();
  }
  TileState tiles(n_rows);
  const TileItems items(p, member.count(), kBlockHeight);
  for (int64_t item = member.take(); item < items.count; item = member.take())
    tile_item(p, items.pairs(item), x, items.rows(item), scratch, tiles);
}
