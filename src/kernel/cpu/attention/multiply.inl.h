// Sums of products of rows with the words of a block, in vector registers. Needs operand.inl.h.

// out[r] = keep[r]·out[r] + Σ_i x[r]·words_i for R rows and the spans [span, span+L); without keep:
// out[r] = Σ_i.
template <class S, int R, int L, bool kKeep>
inline void multiply_tile(const X* x, int64_t x_stride, const Operand& b, int64_t span, float* out,
                          int64_t out_stride, const float* keep) {
  VF sums[R][2 * L];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < 2 * L; ++v) sums[r][v] = splat(0);
  const std::byte* p = b.words + span * S::kSpanBytes;
  for (int64_t i = 0; i < b.steps; ++i) {
    typename S::Words words[L];
    read_step<S, L>(b, span, i, p, words);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const typename S::Factor factor = S::factor(x + r * x_stride + i * S::kStep);
#pragma GCC unroll 4
      for (int l = 0; l < L; ++l) S::fold(sums[r] + 2 * l, factor, words[l]);
    }
    p += b.stride;
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int l = 0; l < L; ++l) {
      float* at = out + r * out_stride + (span + l) * 2 * kLanes;
      VF low = sums[r][2 * l];
      VF high = sums[r][2 * l + 1];
      S::finish(low, high);
      if constexpr (kKeep) {
        low = fma(load(at), splat(keep[r]), low);
        high = fma(load(at + kLanes), splat(keep[r]), high);
      }
      store(at, low);
      store(at + kLanes, high);
    }
}

template <class S, int R, int L, bool kKeep>
inline void multiply_spans(const Rows& rows, int64_t first, const Operand& b, int64_t span) {
  multiply_tile<S, R, L, kKeep>(rows.x + first * rows.x_stride, rows.x_stride, b, span,
                                rows.out + first * rows.out_stride, rows.out_stride,
                                kKeep ? rows.keep + first : nullptr);
}

template <class S, int R, int L, bool kKeep>
inline void multiply_few(const Rows& rows, const Operand& b, int64_t spans) {
  int64_t span = 0;
  for (; span + L <= spans; span += L) multiply_spans<S, R, L, kKeep>(rows, 0, b, span);
  if constexpr (L > 1)
    for (; span < spans; ++span) multiply_spans<S, R, 1, kKeep>(rows, 0, b, span);
}

// Many rows: the words of some spans stay in the first-level cache for all of them.
template <class S, int L, bool kKeep>
inline void multiply_many(const Rows& rows, const Operand& block, int64_t span) {
  int64_t r = 0;
  Operand b = block;
  for (; r + 6 <= rows.count; r += 6, b.ahead = 0) multiply_spans<S, 6, L, kKeep>(rows, r, b, span);
  for (; r + 4 <= rows.count; r += 4, b.ahead = 0) multiply_spans<S, 4, L, kKeep>(rows, r, b, span);
  for (; r + 2 <= rows.count; r += 2, b.ahead = 0) multiply_spans<S, 2, L, kKeep>(rows, r, b, span);
  if (r < rows.count) multiply_spans<S, 1, L, kKeep>(rows, r, b, span);
}

// Up to kRowPadding − 1 rows more than there are may be read and written.
template <class S, bool kKeep>
inline void multiply(const Rows& rows, const Operand& b, int64_t spans, std::byte* tile) {
  constexpr int kWide = kLanes == 16 ? 2 : 1;
  if constexpr (S::kCheap) {
    int64_t span = 0;
    for (; span + kWide <= spans; span += kWide) multiply_many<S, kWide, kKeep>(rows, b, span);
    if constexpr (kWide > 1)
      for (; span < spans; ++span) multiply_many<S, 1, kKeep>(rows, b, span);
  } else if (rows.count > kDirectRows) {
    multiply<typename S::Tile, kKeep>(rows, widened<S>(b, spans, tile), spans, tile);
  } else if (rows.count > 4) {
    if constexpr (kDirectRows > 4) multiply_few<S, 8, 1, kKeep>(rows, b, spans);
  } else if (rows.count > 2) {
    multiply_few<S, 4, kWide, kKeep>(rows, b, spans);
  } else if (rows.count == 2) {
    multiply_few<S, 2, 2 * kWide, kKeep>(rows, b, spans);
  } else {
    multiply_few<S, 1, 2 * kWide, kKeep>(rows, b, spans);
  }
}
