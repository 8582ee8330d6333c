// Linear over panels, see panels.h: activations, outputs and the launch of few rows. Needs
// simd_*.inl.h, panel_formats.inl.h, one of panel_dots_*.inl.h and linear_prologue.inl.h,
// linear_epilogue.inl.h before it, panel_slices.inl.h and one of panel_tiles*.inl.h behind it.
//
// Every output is Σ over groups, ascending, of scale(w)·scale(x)·(int dot product), each added to
// the total by mul_add (and of −low(w)·scale(x)·Σx behind it): the same words in all kernels.

// Whether the products take 8-bit codes as signed bytes.
template <typename P>
inline constexpr bool kIsSigned = kSignedCodes && kIsWide<P>;

// ---- activations

inline void quantise_row(const float* x, int64_t k, const Quantised& q, int64_t t) {
  int8_t* codes = q.codes + t * q.stride;
  for (int64_t g = 0; g < q.groups; ++g, codes += q.group) {
    float padded[64];
    const int64_t begin = g * q.group < k ? g * q.group : k;
    const int64_t n_real = k - begin;
    const float* values = x + begin;
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
    q.neg_sums[at] = -sum * (1 << q.sum_bits);
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

// Where R rows from t on begin; the last of the n that are there stands in for others.
template <int R>
struct Rows {
  Rows(const Quantised& q, int64_t t, int64_t n)
      : codes(q.codes + t * q.stride),
        scales(q.scales + t * q.groups),
        neg_sums(q.neg_sums + t * q.groups),
        neg_scaled(q.neg_scaled + t * q.groups) {
    for (int r = 0; r < R; ++r) {
      const int64_t row = r < n ? r : n - 1;
      code[r] = row * q.stride;
      meta[r] = row * q.groups;
    }
  }
  const int8_t* codes;
  const float* scales;
  const int32_t* neg_sums;
  const float* neg_scaled;
  int64_t code[R], meta[R];  // from row t to row t + r
};

template <typename P>
constexpr int width_of() {
  return P::kGroup == 64 ? 0 : P::kGroup == 32 ? 1 : 2;
}
// What a group's sum begins with: −offset·Σx, or nothing where codes are signed or not raised.
template <typename P, bool kSigned>
inline I first_dot(const int32_t* neg_sum) {
  if (P::kOffsetBits == kNotRaised || kSigned) return izero();
  constexpr int kMore = P::kOffsetBits - kSumBits[width_of<P>()];
  const I sum = isplat(*neg_sum);
  if constexpr (kMore > 0) return shl<kMore>(sum);
  if constexpr (kMore < 0) return shr_signed<-kMore>(sum);
  return sum;
}

// ---- outputs

// One panel, or two that are computed together: with SwiGLU a gate's and the up projection's.
struct PanelPair {
  PanelRef panels[2];
  int count = 0;
};
inline PanelPair pair_of(const PanelProblem& p, int64_t first, int64_t second) {
  PanelPair pair;
  pair.panels[pair.count++] = panel_at(p, first);
  if (second < p.n_panels) pair.panels[pair.count++] = panel_at(p, second);
  return pair;
}
inline bool has_halves(const PanelProblem& p) { return kernel::takes_halves(p.problem.output); }

// Row t of one panel's outputs from its 16 totals.
inline void finish_panel(const Problem& p, int64_t t, const PanelRef& panel, const float* totals) {
  float* y = p.y + t * p.y_stride + panel.output;
  const float* bias = p.bias == nullptr ? nullptr : p.bias + panel.output;
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

// The same for a gate's panel and the up projection's.
inline void finish_halves(const Problem& p, int64_t t, const PanelPair& pair, const float* gate,
                          const float* up) {
  float* y = p.y + t * p.y_stride + pair.panels[0].output;
  if (p.bias == nullptr) return ends::gated_row(p.output, gate, up, kPanelRows, y);
  float biased[2][kPanelRows];
  ends::add_row(gate, p.bias + pair.panels[0].output, kPanelRows, biased[0]);
  ends::add_row(up, p.bias + pair.panels[1].output, kPanelRows, biased[1]);
  ends::gated_row(p.output, biased[0], biased[1], kPanelRows, y);
}

inline void finish_pair(const Problem& p, int64_t t, const PanelPair& pair, const float* first,
                        const float* second) {
  if (kernel::takes_halves(p.output)) return finish_halves(p, t, pair, first, second);
  finish_panel(p, t, pair.panels[0], first);
  if (pair.count == 2) finish_panel(p, t, pair.panels[1], second);
}

// ---- few rows: a panel's bytes pass once

// Bytes that L2 is asked for before they are used, with R rows (measured: bench/README.md). One row
// reads line after line, and the machine's own prefetchers run ahead: short of them by 1 KiB a
// group of codes is at 95 to 100 % of DRAM read, and further off the two disturb each other. More
// work a line, as with codes of two bits, or lines that pass twice, take a longer way.
template <typename P, int R>
constexpr int64_t kAhead = R > 4 || P::kBlockGroups >= 8 || P::kLowBits == 2 ? 8192
                           : R > 1                                           ? 4096
                                                                             : 1024;
// The same where two panels pass together, at least.
constexpr int64_t kPairAhead = 2048;
// The same for the first bytes of a share, which no earlier panel asked for.
constexpr int64_t kFirstAhead = 8192;

FLARE_ALWAYS_INLINE inline void prefetch(const std::byte* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64)
    _mm_prefetch(reinterpret_cast<const char*>(from + i), _MM_HINT_T1);
}

// A panel that passes, what passes behind it in its place, and its totals, [t][16].
struct Stream {
  const std::byte* data;
  const std::byte* next;
  float* totals;
};

// N panels of one shape together: V vectors of each one's lanes from `lane` on, R rows from t on,
// of which n <= R are there.
template <typename P, int R, int V, int N>
inline void stream_lanes(const codec::PanelShape& shape, const Stream* streams, int lane,
                         const Quantised& q, int64_t t, int64_t n) {
  const Rows<R> rows(q, t, n);
  const int8_t* x = rows.codes;
  const float* x_scales = rows.scales;
  const int32_t* neg_sums = rows.neg_sums;
  const float* neg_scaled = rows.neg_scaled;
  constexpr int kVectors = N * V;
  F totals[kVectors][R];
  unrolled<0, kVectors>([&](auto v) FLARE_ALWAYS_INLINE {
    unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE { totals[v.value][r.value] = zero(); });
  });
  const auto block_bytes = static_cast<int64_t>(shape.block_bytes);
  const int64_t panel_bytes = static_cast<int64_t>(shape.blocks) * block_bytes;
  const int64_t ahead =
      N == 1 ? kAhead<P, R> : (kPairAhead + block_bytes - 1) / block_bytes * block_bytes;
  for (int64_t at = 0; at < panel_bytes; at += block_bytes) {
    const std::byte* codes[N];
    const std::byte* wanted[N];
    F scale[kVectors][P::kBlockGroups], low[kVectors][P::kHasLow ? P::kBlockGroups : 1];
    unrolled<0, N>([&](auto i) FLARE_ALWAYS_INLINE {
      const Stream& stream = streams[i.value];
      codes[i.value] = stream.data + at + shape.scale_bytes + 4 * lane;
      wanted[i.value] = N == 1 || at + ahead < panel_bytes ? stream.data + at + ahead
                                                           : stream.next + at + ahead - panel_bytes;
      unrolled<0, V>([&](auto v) FLARE_ALWAYS_INLINE {
        constexpr int kPlace = i.value * V + v.value;
        P::block_scales(stream.data + at, lane + v.value * kLanes, scale[kPlace], low[kPlace]);
      });
    });
    for (int g = 0; g < P::kBlockGroups; ++g) {
      if (lane == 0)
        unrolled<0, N>([&](auto i) FLARE_ALWAYS_INLINE {
          prefetch(wanted[i.value] + g * kGroupShare<P>, kGroupShare<P>);
        });
      I dots[kVectors][R];
      unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
        const I first = first_dot<P, kIsSigned<P>>(neg_sums + rows.meta[r.value]);
        unrolled<0, kVectors>([&](auto v) FLARE_ALWAYS_INLINE { dots[v.value][r.value] = first; });
      });
      group_dots<P, R, V, N>(codes, x, rows.code, dots);
      unrolled<0, kVectors>([&](auto v) FLARE_ALWAYS_INLINE {
        unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
          F& total = totals[v.value][r.value];
          const F both = mul(scale[v.value][g], splat(x_scales[rows.meta[r.value]]));
          total = mul_add(to_float(dots[v.value][r.value]), both, total);
          if constexpr (P::kHasLow)
            total = mul_add(low[v.value][g], splat(neg_scaled[rows.meta[r.value]]), total);
        });
      });
      unrolled<0, N>([&](auto i) FLARE_ALWAYS_INLINE { codes[i.value] += kGroupCodeBytes<P>; });
      x += P::kGroup;
      ++x_scales, ++neg_sums, ++neg_scaled;
    }
  }
  unrolled<0, kVectors>([&](auto v) FLARE_ALWAYS_INLINE {
    float* out = streams[v.value / V].totals + t * kPanelRows + lane + v.value % V * kLanes;
    unrolled<0, R>([&](auto r) FLARE_ALWAYS_INLINE {
      if (r.value < n) store(out + r.value * kPanelRows, totals[v.value][r.value]);
    });
  });
}

// All rows of x, as many at once as registers hold, and for one row all lanes. Two panels pass
// together where they pay with as many rows.
template <typename P, int R>
inline void stream_rows(const codec::PanelShape& shape, const Stream* streams, int count,
                        const Quantised& q, int64_t t, int64_t n) {
  if constexpr (R > 1) {
    constexpr int kFewer = kIsCommon<P> ? R / 2 : 1;
    if (n <= kFewer) return stream_rows<P, kFewer>(shape, streams, count, q, t, n);
  }
  constexpr int kVectors = R == 1 ? static_cast<int>(kPanelRows) / kLanes : kStreamVectors;
  constexpr int kStep = kVectors * kLanes;
  if constexpr (R <= kPairRows)
    if (count == 2) {
      for (int lane = 0; lane < kPanelRows; lane += kStep)
        stream_lanes<P, R, kVectors, 2>(shape, streams, lane, q, t, n);
      return;
    }
  for (int i = 0; i < count; ++i)
    for (int lane = 0; lane < kPanelRows; lane += kStep)
      stream_lanes<P, R, kVectors, 1>(shape, streams + i, lane, q, t, n);
}

// Totals of all rows by `count` panels like this one.
inline void stream_panels(const PanelProblem& p, const PanelRef& like, const Stream* streams,
                          int count, const Quantised* x) {
  const codec::PanelShape& shape = like.segment->shape;
  const Quantised& q = x[width_index(shape.group_cols)];
  const int64_t n_rows = p.problem.n_rows;
  with_integers(like.segment->format, [&](auto format) {
    using P = decltype(format);
    constexpr int kRows = kIsCommon<P> ? kInt8BlockRows : 4;
    for (int64_t t = 0; t < n_rows; t += kRows)
      stream_rows<P, kRows>(shape, streams, count, q, t, n_rows - t);
  });
}

// What streams together: a panel or two neighbours, or with SwiGLU a gate's and its up
// projection's.
inline PanelPair stream_pair_at(const PanelProblem& p, int64_t i) {
  if (has_halves(p)) return pair_of(p, i, p.n_panels / 2 + i);
  return p.is_paired ? pair_of(p, 2 * i, 2 * i + 1) : pair_of(p, i, p.n_panels);
}

// Asks for the first bytes of a share, which no earlier panel asked for.
inline void prefetch_share(const PanelProblem& p, Range share) {
  if (share.begin == share.end) return;
  const PanelPair pair = stream_pair_at(p, share.begin);
  for (int i = 0; i < pair.count; ++i) prefetch(pair.panels[i].data, kFirstAhead);
}

// Runs body(stream_pair_at(i), what comes behind it) over this member's shares. The next share is
// taken before the last panel of this one, so that its first bytes are on their way.
template <typename Body>
inline void for_shares(const PanelProblem& p, Member& member, const Body& body) {
  const bool is_paired = has_halves(p) || p.is_paired;
  Shares shares(is_paired ? (p.n_panels + 1) / 2 : p.n_panels, member.count());
  Range share = shares.at(member.take());
  prefetch_share(p, share);
  while (share.begin < share.end) {
    PanelPair pair = stream_pair_at(p, share.begin);
    for (int64_t i = share.begin + 1; i < share.end; ++i) {
      const PanelPair next = stream_pair_at(p, i);
      body(pair, next);
      pair = next;
    }
    const int64_t end = share.end;
    share = shares.at(member.take());
    if (share.begin != end) prefetch_share(p, share);
    body(pair, share.begin < share.end ? stream_pair_at(p, share.begin) : pair);
  }
}

inline void run_stream(const PanelProblem& p, const Quantised* x, Member& member) {
  alignas(64) float totals[2][kStreamRows * kPanelRows];
  for_shares(p, member, [&](const PanelPair& pair, const PanelPair& next) {
    const PanelRef &a = pair.panels[0], &b = pair.panels[1];
    const Stream streams[2] = {{a.data, next.panels[0].data, totals[0]},
                               {b.data, next.panels[next.count - 1].data, totals[1]}};
    if (p.is_paired && pair.count == 2 && a.segment->format == b.segment->format) {
      stream_panels(p, a, streams, 2, x);
    } else {
      for (int j = 0; j < pair.count; ++j) stream_panels(p, pair.panels[j], streams + j, 1, x);
    }
    for (int64_t t = 0; t < p.problem.n_rows; ++t)
      finish_pair(p.problem, t, pair, totals[0] + t * kPanelRows, totals[1] + t * kPanelRows);
  });
}

// ---- a launch

// Many rows: panel_tiles*.inl.h.
inline void run_tiles(const PanelProblem& p, const Quantised* x, const PanelScratch& scratch,
                      Member& member);

template <int64_t kMostStreamed = kStreamRows>
inline void run_panels(const PanelProblem& p, Member& member) {
  const PanelScratch scratch = scratch_of(p, member);
  const Quantised* x = quantise(p, scratch, member);
  if (p.problem.n_rows <= kMostStreamed) return run_stream(p, x, member);
  run_tiles(p, x, scratch, member);
}
