// Linear over panels, see panels.h. Needs simd_*.inl.h, panel_formats.inl.h, one of dot_*.inl.h and
// linear_prologue.inl.h, linear_epilogue.inl.h before it.
//
// Every output is Σ over groups, ascending, of scale(w)·scale(x)·(int dot product), each added to
// the total by mul_add (and of −low(w)·scale(x)·Σx behind it): the same words in both kernels.

// ---- activations

inline void quantise_row(const float* x, int64_t k, const Quantised& q, int64_t t) {
  int8_t* codes = q.codes + t * q.stride;
  for (int64_t g = 0; g < q.groups; ++g, codes += q.group) {
    const float* values = x + g * q.group;
    float padded[64];
    const int64_t n_real = k - g * q.group;
    if (n_real < q.group) {
      __builtin_memset(padded, 0, sizeof padded);
      __builtin_memcpy(padded, values, static_cast<size_t>(n_real) * 4);
      values = padded;
    }
    const float largest = largest_magnitude(values, q.group);
    // Below this 127/largest overflows; such a group adds nothing a binary32 sum could show.
    const bool is_zero = largest < 0x1p-100f;
    const float scale = is_zero ? 0.0f : largest / 127.0f;
    const int32_t sum = round_to_codes(values, q.group, is_zero ? 0.0f : 127.0f / largest, codes);
    const int64_t at = t * q.groups + g;
    q.scales[at] = scale;
    q.neg_sums[at] = -sum;
    q.neg_scaled[at] = -scale * static_cast<float>(sum);
  }
}

inline void quantise_prepared(const PanelProblem& p, int64_t t, const Quantised* to, float* row) {
  const Problem& problem = p.problem;
  const float* x = problem.x + t * problem.x_stride;
  if (problem.input != LinearInput::kPlain) {
    ends::prepare_row(problem, t, row);
    x = row;
  }
  for (int w = 0; w < kWidths; ++w)
    if (p.is_wanted[w]) quantise_row(x, problem.k, to[w], t);
}

// The activations this member reads; a barrier stands inside where the team shares them.
inline const Quantised* quantise(const PanelProblem& p, const PanelScratch& scratch,
                                 Member& member) {
  const int64_t n = p.problem.n_rows;
  if (n * p.problem.k <= kOwnElements) {
    for (int64_t t = 0; t < n; ++t) quantise_prepared(p, t, scratch.own, scratch.row);
    return scratch.own;
  }
  const Range rows = share_of(member, n, 1);
  for (int64_t t = rows.begin; t < rows.end; ++t) quantise_prepared(p, t, p.shared, scratch.row);
  member.barrier();
  return p.shared;
}

// ---- outputs

// Totals of row t for a unit: 16 of its panel, and with SwiGLU 16 of the up projection's behind
// `up`.
inline void finish_unit(const Problem& p, int64_t t, const PanelRef& panel, const float* totals,
                        const float* up) {
  float* y = p.y + t * p.y_stride + panel.output;
  const float* bias = p.bias == nullptr ? nullptr : p.bias + panel.output;
  if (p.output == LinearOutput::kSwiglu) {
    const float* up_bias = bias == nullptr ? nullptr : bias + p.n_outputs / 2;
    float gates[kPanelRows], ups[kPanelRows];
    for (int64_t i = 0; i < kPanelRows; i += kLanes) {
      F g = load(totals + i), u = load(up + i);
      if (bias != nullptr) g = add(g, load(bias + i)), u = add(u, load(up_bias + i));
      store(gates + i, g);
      store(ups + i, u);
    }
    return ends::swiglu_row(gates, ups, kPanelRows, y);
  }
  const float* residual =
      p.residual == nullptr ? nullptr : p.residual + t * p.residual_stride + panel.output;
  if (panel.rows == kPanelRows) {
    for (int64_t i = 0; i < kPanelRows; i += kLanes) {
      F sum = load(totals + i);
      if (bias != nullptr) sum = add(sum, load(bias + i));
      if (residual != nullptr) sum = add(load(residual + i), sum);
      store(y + i, sum);
    }
    return;
  }
  for (int64_t i = 0; i < panel.rows; ++i) {
    const float sum = bias == nullptr ? totals[i] : totals[i] + bias[i];
    y[i] = residual == nullptr ? sum : residual[i] + sum;
  }
}

// ---- few rows: a panel's bytes pass once

constexpr int64_t kAhead = 4096;  // bytes that are asked for before they are used

inline void prefetch(const std::byte* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
}

template <typename P, int R>
inline void stream_lanes(const PanelRef& panel, int lane, const Quantised& q, int64_t t,
                         float* out) {
  const codec::PanelShape& shape = panel.segment->shape;
  const std::byte* codes = panel.data + 4 * lane;
  const std::byte* high = codes + shape.high_at;
  const std::byte* scales = panel.data + shape.scale_at;
  const std::byte* ahead = panel.data + kAhead;
  const int64_t block_bytes =
      static_cast<int64_t>(shape.code_bytes + shape.high_bytes + shape.scale_bytes);
  const int8_t* x = q.codes + t * q.stride;
  const float* x_scales = q.scales + t * q.groups;
  const int32_t* neg_sums = q.neg_sums + t * q.groups;
  const float* neg_scaled = q.neg_scaled + t * q.groups;
  F totals[R];
  for (int r = 0; r < R; ++r) totals[r] = zero();
  for (uint64_t b = 0; b < shape.blocks; ++b) {
    if (lane == 0) {
      for (int64_t i = 0; i < block_bytes; i += 64) prefetch(ahead + i);
      ahead += block_bytes;
    }
    F scale[P::kBlockGroups], low[P::kHasLow ? P::kBlockGroups : 1];
    P::block_scales(scales, lane, scale, low);
    scales += shape.scale_bytes;
    for (int i = 0; i < P::kBlockGroups; ++i) {
      I dots[R];
      group_dots<P, R>(codes, high, x, q.stride, neg_sums, q.groups, dots);
      for (int r = 0; r < R; ++r) {
        const F both = mul(scale[i], splat(x_scales[r * q.groups]));
        totals[r] = mul_add(to_float(dots[r]), both, totals[r]);
        if constexpr (P::kHasLow)
          totals[r] = mul_add(low[i], splat(neg_scaled[r * q.groups]), totals[r]);
      }
      codes += kGroupCodeBytes<P>;
      high += kGroupHighBytes<P>;
      x += P::kGroup;
      ++x_scales, ++neg_sums, ++neg_scaled;
    }
  }
  for (int r = 0; r < R; ++r) store(out + r * kPanelRows + lane, totals[r]);
}

template <typename P, int R = kInt8BlockRows>
inline void stream_rows(const PanelRef& panel, int lane, const Quantised& q, int64_t t, int64_t n,
                        float* out) {
  if constexpr (R > 1) {
    if (n < R) return stream_rows<P, R - 1>(panel, lane, q, t, n, out);
  }
  stream_lanes<P, R>(panel, lane, q, t, out);
}

// out[t][16] = totals of all rows.
inline void stream_panel(const PanelProblem& p, const PanelRef& panel, const Quantised* x,
                         float* out) {
  const Quantised& q = x[width_index(panel.segment->format)];
  with_format(panel.segment->format, [&](auto format) {
    using P = decltype(format);
    for (int64_t t = 0; t < p.problem.n_rows; t += kInt8BlockRows)
      for (int lane = 0; lane < kPanelRows; lane += kLanes)
        stream_rows<P>(panel, lane, q, t, p.problem.n_rows - t, out + t * kPanelRows);
  });
}

inline void run_stream(const PanelProblem& p, const Quantised* x, Member& member) {
  // Items of about this many bytes: long enough to stream, short enough to end together.
  constexpr int64_t kItemBytes = 32 << 10;
  const int64_t unit_bytes =
      static_cast<int64_t>(p.segments[0].shape.bytes) * (p.n_panels / p.n_units);
  const int64_t per_item = kItemBytes / unit_bytes > 1 ? kItemBytes / unit_bytes : 1;
  alignas(64) float totals[2][kStreamRows * kPanelRows];
  for (int64_t unit = member.take() * per_item; unit < p.n_units;) {
    const int64_t end = unit + per_item < p.n_units ? unit + per_item : p.n_units;
    for (; unit < end; ++unit) {
      const PanelRef panel = panel_at(p, unit);
      stream_panel(p, panel, x, totals[0]);
      if (p.n_units < p.n_panels) stream_panel(p, panel_at(p, p.n_units + unit), x, totals[1]);
      for (int64_t t = 0; t < p.problem.n_rows; ++t)
        finish_unit(p.problem, t, panel, totals[0] + t * kPanelRows, totals[1] + t * kPanelRows);
    }
    unit = member.take() * per_item;
  }
}

// ---- many rows: slices of two panels as bytes, used by blocks of rows

// A slice of one panel in the member's room.
struct Slice {
  std::byte* codes;
  float* scales;
  float* lows;
};

template <typename P>
inline void unpack_slice(const PanelRef& panel, int64_t col, int64_t n_cols, const Slice& to) {
  const codec::PanelShape& shape = panel.segment->shape;
  constexpr int kBlockCols = P::kGroup * P::kBlockGroups;
  for (int lane = 0; lane < kPanelRows; lane += kLanes) {
    const std::byte* codes = panel.data + col / P::kGroup * kGroupCodeBytes<P> + 4 * lane;
    const std::byte* high =
        panel.data + shape.high_at + col / P::kGroup * kGroupHighBytes<P> + 4 * lane;
    const std::byte* scales =
        panel.data + shape.scale_at + col / kBlockCols * static_cast<int64_t>(shape.scale_bytes);
    std::byte* out = to.codes + 4 * lane;
    float* out_scales = to.scales + lane;
    float* out_lows = to.lows + lane;
    for (int64_t done = 0; done < n_cols; done += kBlockCols) {
      F scale[P::kBlockGroups], low[P::kHasLow ? P::kBlockGroups : 1];
      P::block_scales(scales, lane, scale, low);
      scales += shape.scale_bytes;
      for (int g = 0; g < P::kBlockGroups; ++g) {
        store(out_scales, scale[g]);
        out_scales += kPanelRows;
        if constexpr (P::kHasLow) {
          store(out_lows, low[g]);
          out_lows += kPanelRows;
        }
        unrolled<0, P::kGroup / 4>([&](auto s) {
          I w = step_codes<P, s.value>(codes, high);
          if (kSignedCodes && P::kLowBits == 8)
            w = xor_(w, isplat(static_cast<int32_t>(0x80808080u)));
          istore(out + s.value * 64, w);
        });
        out += P::kGroup * kPanelRows;
        codes += kGroupCodeBytes<P>;
        high += kGroupHighBytes<P>;
      }
    }
  }
}

// Two vectors of outputs over the groups of a slice, for R rows; totals of a row are kTotals apart.
constexpr int64_t kTotals = 2 * kPanelRows;
struct TileOperands {
  const std::byte *w0, *w1;
  const float *scales0, *scales1, *lows0, *lows1;
  float *totals0, *totals1;
};

template <typename P, int R>
inline void tile_rows(const TileOperands& o, const Quantised& q, int64_t t, int64_t group,
                      int64_t n_groups) {
  constexpr bool kSigned = kSignedCodes && P::kLowBits == 8;
  const std::byte *w0 = o.w0, *w1 = o.w1;
  const int8_t* x = q.codes + t * q.stride + group * P::kGroup;
  const float* x_scales = q.scales + t * q.groups + group;
  const int32_t* neg_sums = q.neg_sums + t * q.groups + group;
  const float* neg_scaled = q.neg_scaled + t * q.groups + group;
  F totals0[R], totals1[R];
  for (int r = 0; r < R; ++r) totals0[r] = load(o.totals0 + r * kTotals);
  for (int r = 0; r < R; ++r) totals1[r] = load(o.totals1 + r * kTotals);
  for (int64_t g = 0; g < n_groups; ++g) {
    I dots0[R], dots1[R];
    for (int r = 0; r < R; ++r)
      dots0[r] = dots1[r] = kSigned || P::kOffsetBits == 0
                                ? izero()
                                : shl<P::kOffsetBits>(isplat(neg_sums[r * q.groups]));
    tile_dots<P::kGroup / 4, run_of<P>(), kSigned, R>(w0, w1, x, q.stride, dots0, dots1);
    const F s0 = load(o.scales0 + g * kPanelRows), s1 = load(o.scales1 + g * kPanelRows);
    for (int r = 0; r < R; ++r) {
      const F x_scale = splat(x_scales[r * q.groups]);
      totals0[r] = mul_add(to_float(dots0[r]), mul(s0, x_scale), totals0[r]);
      totals1[r] = mul_add(to_float(dots1[r]), mul(s1, x_scale), totals1[r]);
    }
    if constexpr (P::kHasLow) {
      const F low0 = load(o.lows0 + g * kPanelRows), low1 = load(o.lows1 + g * kPanelRows);
      for (int r = 0; r < R; ++r) {
        const F sum = splat(neg_scaled[r * q.groups]);
        totals0[r] = mul_add(low0, sum, totals0[r]);
        totals1[r] = mul_add(low1, sum, totals1[r]);
      }
    }
    w0 += P::kGroup * kPanelRows;
    w1 += P::kGroup * kPanelRows;
    x += P::kGroup;
    ++x_scales, ++neg_sums, ++neg_scaled;
  }
  for (int r = 0; r < R; ++r) store(o.totals0 + r * kTotals, totals0[r]);
  for (int r = 0; r < R; ++r) store(o.totals1 + r * kTotals, totals1[r]);
}

template <typename P, int R = kTileRows8>
inline void tile_block(const TileOperands& o, const Quantised& q, int64_t t, int64_t n,
                       int64_t group, int64_t n_groups) {
  if constexpr (R > 1) {
    if (n < R) return tile_block<P, R - 1>(o, q, t, n, group, n_groups);
  }
  tile_rows<P, R>(o, q, t, group, n_groups);
}

// Two panels of one format over rows [t_begin, t_end); totals [row][2][16].
template <typename P>
inline void tile_panels(const PanelRef* const* panels, const Quantised& q, Range rows,
                        const PanelScratch& scratch) {
  const int64_t padded_k = q.groups * q.group;
  Slice slices[2];
  for (int i = 0; i < 2; ++i) {
    slices[i].codes = scratch.slice + i * kPanelRows * kSliceCols;
    slices[i].scales = scratch.slice_scales + i * kPanelRows * kSliceCols / 16;
    slices[i].lows = scratch.slice_lows + i * kPanelRows * kSliceCols / 16;
  }
  // Blocks of nearly equal height: a low one uses the weights' registers badly.
  const int64_t n_rows = rows.end - rows.begin;
  const int64_t n_blocks = (n_rows + kTileRows8 - 1) / kTileRows8;
  for (int64_t col = 0; col < padded_k; col += kSliceCols) {
    const int64_t n_cols = padded_k - col < kSliceCols ? padded_k - col : kSliceCols;
    for (int i = 0; i < 2; ++i) unpack_slice<P>(*panels[i], col, n_cols, slices[i]);
    for (int64_t b = 0; b < n_blocks; ++b) {
      const int64_t first = n_rows * b / n_blocks;
      const int64_t height = n_rows * (b + 1) / n_blocks - first;
      float* totals = scratch.totals + first * kTotals;
      // Vector v of the two panels' 32 outputs.
      const auto panel_of = [](int v) { return v * kLanes / static_cast<int>(kPanelRows); };
      const auto lane_of = [](int v) { return v * kLanes % static_cast<int>(kPanelRows); };
      for (int v = 0; v * kLanes < kTotals; v += 2) {
        const Slice &a = slices[panel_of(v)], &c = slices[panel_of(v + 1)];
        const int la = lane_of(v), lc = lane_of(v + 1);
        const TileOperands o = {
            a.codes + 4 * la, c.codes + 4 * lc, a.scales + la,       c.scales + lc,
            a.lows + la,      c.lows + lc,      totals + v * kLanes, totals + (v + 1) * kLanes};
        tile_block<P>(o, q, rows.begin + first, height, col / P::kGroup, n_cols / P::kGroup);
      }
    }
  }
}

// Two panels, or one (b null). Where they differ in format each goes with itself.
inline void tile_pair(const PanelProblem& p, const PanelRef& a, const PanelRef* b,
                      const Quantised* x, Range rows, const PanelScratch& scratch) {
  const Problem& problem = p.problem;
  const bool is_swiglu = problem.output == LinearOutput::kSwiglu;
  const auto multiply = [&](const PanelRef& first, const PanelRef& second) {
    const PanelRef* const both[2] = {&first, &second};
    __builtin_memset(scratch.totals, 0,
                     static_cast<size_t>((rows.end - rows.begin) * kTotals) * sizeof(float));
    const Quantised& q = x[width_index(first.segment->format)];
    with_format(first.segment->format,
                [&](auto format) { tile_panels<decltype(format)>(both, q, rows, scratch); });
  };
  const auto totals_of = [&](int64_t t, int64_t place) {
    return scratch.totals + (t - rows.begin) * kTotals + place * kPanelRows;
  };
  const auto finish = [&](const PanelRef& panel, int64_t place) {
    for (int64_t t = rows.begin; t < rows.end; ++t)
      finish_unit(problem, t, panel, totals_of(t, place), totals_of(t, 1));
  };
  if (b != nullptr && b->segment->format == a.segment->format) {
    multiply(a, *b);
    finish(a, 0);
    if (!is_swiglu) finish(*b, 1);
    return;
  }
  multiply(a, a);
  if (!is_swiglu) finish(a, 0);
  if (b == nullptr) return;
  // The gate's totals wait in y.
  const auto gate_of = [&](int64_t t) { return problem.y + t * problem.y_stride + a.output; };
  if (is_swiglu)
    for (int64_t t = rows.begin; t < rows.end; ++t)
      __builtin_memcpy(gate_of(t), totals_of(t, 0), kPanelRows * sizeof(float));
  multiply(*b, *b);
  if (!is_swiglu) return finish(*b, 0);
  for (int64_t t = rows.begin; t < rows.end; ++t)
    finish_unit(problem, t, a, gate_of(t), totals_of(t, 0));
}

inline void run_tiles(const PanelProblem& p, const Quantised* x, const PanelScratch& scratch,
                      Member& member) {
  const bool is_swiglu = p.problem.output == LinearOutput::kSwiglu;
  const int64_t n_pairs = is_swiglu ? p.n_units : (p.n_panels + 1) / 2;
  const int64_t most = rows_at_once(p.problem.k);
  const int64_t n_chunks = (p.problem.n_rows + most - 1) / most;
  for (int64_t item = member.take(); item < n_chunks * n_pairs; item = member.take()) {
    const int64_t chunk = item / n_pairs, pair = item % n_pairs;
    const Range rows = {p.problem.n_rows * chunk / n_chunks,
                        p.problem.n_rows * (chunk + 1) / n_chunks};
    const PanelRef a = panel_at(p, is_swiglu ? pair : 2 * pair);
    const int64_t other = is_swiglu ? p.n_units + pair : 2 * pair + 1;
    if (other >= p.n_panels) {
      tile_pair(p, a, nullptr, x, rows, scratch);
      continue;
    }
    const PanelRef b = panel_at(p, other);
    tile_pair(p, a, &b, x, rows, scratch);
  }
}

inline void run_panels(const PanelProblem& p, Member& member) {
  const PanelScratch scratch = scratch_of(p, member);
  const Quantised* x = quantise(p, scratch, member);
  if (p.problem.n_rows <= kStreamRows) return run_stream(p, x, member);
  run_tiles(p, x, scratch, member);
}
