// linear over binary32 or bf16 products: blocks of kBlockRows rows of x and four rows of W,
// kBlockWeights of them at a time, vector
// lanes along K. Needs one of simd_*.inl.h, pin.inl.h and the ends of linear_prologue.inl.h and
// linear_epilogue.inl.h before it.
//
// An arithmetic A supplies
//   using XWord; using WWord; using X;  words in memory, and kStep words of x in a register
//   kStep; kChunk;                      columns of a register, and of a partial sum
//   x(p); weights(p); fold(sum, x, weights)

// n words, and zeros up to kCount.
template <int kCount, typename Word>
inline void copy_padded(const Word* from, int64_t n, Word* to) {
  __builtin_memcpy(to, from, n * sizeof(Word));
  __builtin_memset(to + n, 0, (kCount - n) * sizeof(Word));
}

// f32 x, f32 W.
struct FloatWeights {
  using XWord = float;
  using WWord = float;
  using X = F;
  static constexpr int kStep = kLanes;
  static constexpr int64_t kChunk = kF32Chunk;
  static F x(const float* p) { return load(p); }
  static F weights(const float* p) { return load(p); }
  static F fold(F sum, F x, F w) { return mul_add(x, w, sum); }
};

// f32 x, bf16 W: the same numbers as FloatWeights over the widened weights.
struct Bf16Weights : FloatWeights {
  using WWord = uint16_t;
  static F weights(const uint16_t* p) { return load_bf16(p); }
};
// The same for fp16 W, finite as all weights.
struct Fp16Weights : FloatWeights {
  using WWord = uint16_t;
  static F weights(const uint16_t* p) { return load_half(p); }
};

// Rows of W at a time: as many sums as registers hold, and enough to hide an addition's latency.
template <int R>
constexpr int kWeightsOf = R <= 2 ? 4 : kBlockWeights;

// out[c][r] = Σ x_r·w_c over n columns, a partial sum a lane, for kWeightsOf<R> rows of W. The tail
// takes the same loop as the rest. Not inlined: g++ keeps the sums in registers only in a function
// of their own.
// `ahead` words behind each weight row lies what comes next: L2 is asked for it. 0: nothing.
template <typename A, int R>
[[gnu::noinline]] inline void multiply_lanes(const typename A::WWord* const* weights,
                                             const typename A::XWord* x, int64_t x_stride,
                                             int64_t n, int64_t ahead, F (*out)[R]) {
  constexpr int kWeights = kWeightsOf<R>;
  F sums[kWeights][R];
  const typename A::WWord* w[kWeights];
#pragma GCC unroll 4
  for (int c = 0; c < kWeights; ++c) {
    w[c] = weights[c];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) sums[c][r] = zero();
  }
  typename A::XWord x_end[R * A::kStep];
  typename A::WWord w_end[kWeights * A::kStep];
  while (true) {
    int64_t i = 0;
    for (; i + A::kStep <= n; i += A::kStep) {
      typename A::X ws[kWeights];
#pragma GCC unroll 4
      for (int c = 0; c < kWeights; ++c) {
        ws[c] = A::weights(w[c] + i);
        if (ahead != 0) _mm_prefetch(reinterpret_cast<const char*>(w[c] + i + ahead), _MM_HINT_T1);
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        auto word = A::x(x + r * x_stride + i);
        pin(word);
#pragma GCC unroll 4
        for (int c = 0; c < kWeights; ++c) sums[c][r] = A::fold(sums[c][r], word, ws[c]);
      }
    }
    if (i == n) break;
    for (int r = 0; r < R; ++r)
      copy_padded<A::kStep>(x + r * x_stride + i, n - i, x_end + r * A::kStep);
    for (int c = 0; c < kWeights; ++c) {
      copy_padded<A::kStep>(w[c] + i, n - i, w_end + c * A::kStep);
      w[c] = w_end + c * A::kStep;
    }
    x = x_end;
    x_stride = n = A::kStep;
    ahead = 0;
  }
#pragma GCC unroll 4
  for (int c = 0; c < kWeights; ++c)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) out[c][r] = sums[c][r];
}

// out[r] = [Σ x_r·w_0, …, Σ x_r·w_3] over n columns.
template <typename A, int R>
inline void multiply_block(const typename A::WWord* const* w, const typename A::XWord* x,
                           int64_t x_stride, int64_t n, int64_t ahead, __m128* out) {
  F sums[4][R];
  for (int c = 0; c < 4; c += kWeightsOf<R>)
    multiply_lanes<A, R>(w + c, x, x_stride, n, ahead, sums + c);
  for (int r = 0; r < R; ++r) out[r] = sum4(sums[0][r], sums[1][r], sums[2][r], sums[3][r]);
}

template <typename A, int R>
inline void multiply_rows(int64_t rows, const typename A::WWord* const* w,
                          const typename A::XWord* x, int64_t x_stride, int64_t n, int64_t ahead,
                          __m128* out) {
  if constexpr (R > 1) {
    if (rows < R) return multiply_rows<A, R - 1>(rows, w, x, x_stride, n, ahead, out);
  }
  multiply_block<A, R>(w, x, x_stride, n, ahead, out);
}

// The first `count` of four outputs. Whole blocks take no loop: g++ makes masked stores of it.
inline void finish(__m128 sums, bool is_first, const float* bias, int64_t count, float* y) {
  if (count == 4) {
    if (!is_first) sums = _mm_add_ps(_mm_loadu_ps(y), sums);
    if (bias) sums = _mm_add_ps(sums, _mm_loadu_ps(bias));
    return _mm_storeu_ps(y, sums);
  }
  float values[4];
  _mm_storeu_ps(values, sums);
  for (int64_t c = 0; c < count; ++c) {
    const float value = is_first ? values[c] : y[c] + values[c];
    y[c] = bias ? value + bias[c] : value;
  }
}

// Where a tile stands in the matrix.
struct Tile {
  int64_t rows, output;  // of W, and the first one's index among the outputs
  int64_t col, n_cols;
};

// y[:, outputs of the tile] gets (first columns) or is raised by the tile's products; the bias
// comes last. w points at the tile's first word, x at row 0 and column tile.col.
template <typename A>
inline void multiply_tile(const Problem& p, const Tile& tile, const typename A::WWord* w,
                          int64_t w_stride, const typename A::XWord* x, int64_t x_stride) {
  const bool is_first = tile.col == 0;
  const float* bias = tile.col + tile.n_cols == p.k ? p.bias : nullptr;
  // Rows a multiple of a page apart would throw each other out of L1.
  const bool is_copied = x_stride * sizeof(*x) % 4096 == 0;
  constexpr int64_t kStride = A::kChunk + 32;
  typename A::XWord block[kBlockRows * kStride];
  // Blocks of nearly equal height: a low one uses the weights' registers badly.
  const int64_t n_blocks = (p.n_rows + kBlockRows - 1) / kBlockRows;
  // Weights that pass once come from memory: the same columns of the next four rows.
  const int64_t ahead = n_blocks == 1 ? 4 * w_stride : 0;
  for (int64_t b = 0; b < n_blocks; ++b) {
    const int64_t t = p.n_rows * b / n_blocks;
    const int64_t n_rows = p.n_rows * (b + 1) / n_blocks - t;
    const typename A::XWord* xs = x + t * x_stride;
    int64_t xs_stride = x_stride;
    if (n_rows > 1 && is_copied) {
      for (int64_t r = 0; r < n_rows; ++r)
        __builtin_memcpy(block + r * kStride, xs + r * x_stride, tile.n_cols * sizeof(*xs));
      xs = block;
      xs_stride = kStride;
    }
    for (int64_t n = 0; n < tile.rows; n += 4) {
      const typename A::WWord* rows[4];
      const int64_t count = tile.rows - n < 4 ? tile.rows - n : 4;
      for (int64_t c = 0; c < 4; ++c) rows[c] = w + (n + (c < count ? c : 0)) * w_stride;
      __m128 sums[kBlockRows];
      multiply_rows<A, kBlockRows>(n_rows, rows, xs, xs_stride, tile.n_cols, ahead, sums);
      for (int64_t r = 0; r < n_rows; ++r) {
        const int64_t output = tile.output + n;
        float* y = p.y + (t + r) * p.y_stride + output;
        finish(sums[r], is_first, bias ? bias + output : nullptr, count, y);
      }
    }
  }
}

template <typename Body>
inline void for_tiles(const Problem& p, Range outputs, int64_t chunk, const Body& body) {
  Pieces pieces(p, outputs, kTileRows);
  Piece piece;
  while (pieces.next(&piece))
    for (int64_t col = 0; col < p.k; col += chunk)
      body(piece, Tile{piece.rows, piece.output, col, p.k - col < chunk ? p.k - col : chunk});
}

inline float* tile_of(const Problem& p, const Member& member) {
  return reinterpret_cast<float*>(p.workspace) + member.index() * kTileRows * kTileStride;
}

inline void multiply_generic(const Problem& p, Range outputs, float* values) {
  for_tiles(p, outputs, kF32Chunk, [&](const Piece& piece, const Tile& tile) {
    decode_tile(piece, tile.col, tile.n_cols, values, kTileStride);
    multiply_tile<FloatWeights>(p, tile, values, kTileStride, p.x + tile.col, p.x_stride);
  });
}

inline void run_generic(const Problem& problem, Member& member) {
  const Room room = room_of(problem, tile_bytes(member.count()), member.count());
  const Problem p = ends::prepared(problem, room, member);
  float* values = tile_of(p, member);
  ends::for_outputs(p, room, member, [&](const Problem& to, Range outputs) {
    multiply_generic(to, outputs, values);
  });
}

// Widens the tile once where many rows use it; kWidenRows and fewer use the words in place.
template <typename A>
inline void multiply_words(const Problem& p, Range outputs, float* values) {
  constexpr int64_t kWidenRows = 2 * kBlockRows;
  for_tiles(p, outputs, kF32Chunk, [&](const Piece& piece, const Tile& tile) {
    const auto* words =
        reinterpret_cast<const uint16_t*>(contiguous_row(*piece.segment, piece.row)) + tile.col;
    const float* x = p.x + tile.col;
    if (p.n_rows <= kWidenRows) return multiply_tile<A>(p, tile, words, p.k, x, p.x_stride);
    for (int64_t row = 0; row < tile.rows; ++row) {
      const uint16_t* from = words + row * p.k;
      float* to = values + row * kTileStride;
      int64_t i = 0;
      for (; i + kLanes <= tile.n_cols; i += kLanes) store(to + i, A::weights(from + i));
      // A chunk is a multiple of the lanes, so the padded end stays inside the tile's row.
      uint16_t end[kLanes];
      copy_padded<kLanes>(from + i, tile.n_cols - i, end);
      if (i < tile.n_cols) store(to + i, A::weights(end));
    }
    multiply_tile<FloatWeights>(p, tile, values, kTileStride, x, p.x_stride);
  });
}

template <typename A>
inline void run_words(const Problem& problem, Member& member) {
  const Room room = room_of(problem, tile_bytes(member.count()), member.count());
  const Problem p = ends::prepared(problem, room, member);
  float* values = tile_of(p, member);
  ends::for_outputs(p, room, member, [&](const Problem& to, Range outputs) {
    multiply_words<A>(to, outputs, values);
  });
}
