// linear over binary32 or bf16 products: blocks of kBlockRows rows of x and four rows of W, vector
// lanes along K. Needs one of simd_*.inl.h before it.
//
// An arithmetic A supplies
//   using XWord; using WWord; using X;  words in memory, and kStep words of x in a register
//   kStep; kChunk;                      columns of a register, and of a partial sum
//   x(p), x_tail(p, n); weights(p), weights_tail(p, n); fold(sum, x, weights)

// n words, and zeros up to kCount.
template <typename Word, int kCount>
struct Padded {
  Word words[kCount] = {};
  Padded(const Word* p, int64_t n) { __builtin_memcpy(words, p, n * sizeof(Word)); }
};

// f32 x, f32 W.
struct FloatWeights {
  using XWord = float;
  using WWord = float;
  using X = F;
  static constexpr int kStep = kLanes;
  static constexpr int64_t kChunk = kF32Chunk;
  static F x(const float* p) { return load(p); }
  static F x_tail(const float* p, int64_t n) { return load(Padded<float, kLanes>(p, n).words); }
  static F weights(const float* p) { return load(p); }
  static F weights_tail(const float* p, int64_t n) { return x_tail(p, n); }
  static F fold(F sum, F x, F w) { return mul_add(x, w, sum); }
};

// f32 x, bf16 W: the same numbers as FloatWeights over the widened weights.
struct Bf16Weights : FloatWeights {
  using WWord = uint16_t;
  static F weights(const uint16_t* p) { return load_bf16(p); }
  static F weights_tail(const uint16_t* p, int64_t n) {
    return load_bf16(Padded<uint16_t, kLanes>(p, n).words);
  }
};

// out[r] = [Σ x_r·w_0, …, Σ x_r·w_3] over n columns.
// The sums are four arrays, not one: g++ keeps arrays in registers only where the loops over them
// are innermost.
template <typename A, int R>
inline void multiply_block(const typename A::WWord* const* w, const typename A::XWord* x,
                           int64_t x_stride, int64_t n, __m128* out) {
  F sums0[R], sums1[R], sums2[R], sums3[R];
  for (int r = 0; r < R; ++r) sums0[r] = sums1[r] = sums2[r] = sums3[r] = zero();
  const auto fold = [&](auto w0, auto w1, auto w2, auto w3, const typename A::X* xs) {
    for (int r = 0; r < R; ++r) sums0[r] = A::fold(sums0[r], xs[r], w0);
    for (int r = 0; r < R; ++r) sums1[r] = A::fold(sums1[r], xs[r], w1);
    for (int r = 0; r < R; ++r) sums2[r] = A::fold(sums2[r], xs[r], w2);
    for (int r = 0; r < R; ++r) sums3[r] = A::fold(sums3[r], xs[r], w3);
  };
  const auto *w0 = w[0], *w1 = w[1], *w2 = w[2], *w3 = w[3];
  int64_t i = 0;
  for (; i + A::kStep <= n; i += A::kStep) {
    typename A::X xs[R];
    for (int r = 0; r < R; ++r) xs[r] = A::x(x + r * x_stride + i);
    fold(A::weights(w0 + i), A::weights(w1 + i), A::weights(w2 + i), A::weights(w3 + i), xs);
  }
  if (i < n) {
    typename A::X xs[R];
    for (int r = 0; r < R; ++r) xs[r] = A::x_tail(x + r * x_stride + i, n - i);
    fold(A::weights_tail(w0 + i, n - i), A::weights_tail(w1 + i, n - i),
         A::weights_tail(w2 + i, n - i), A::weights_tail(w3 + i, n - i), xs);
  }
  for (int r = 0; r < R; ++r) out[r] = sum4(sums0[r], sums1[r], sums2[r], sums3[r]);
}

template <typename A, int R>
inline void multiply_rows(int64_t rows, const typename A::WWord* const* w,
                          const typename A::XWord* x, int64_t x_stride, int64_t n, __m128* out) {
  if constexpr (R > 1) {
    if (rows < R) return multiply_rows<A, R - 1>(rows, w, x, x_stride, n, out);
  }
  multiply_block<A, R>(w, x, x_stride, n, out);
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
  for (int64_t t = 0; t < p.n_rows; t += kBlockRows) {
    const int64_t n_rows = p.n_rows - t < kBlockRows ? p.n_rows - t : kBlockRows;
    for (int64_t n = 0; n < tile.rows; n += 4) {
      const typename A::WWord* rows[4];
      const int64_t count = tile.rows - n < 4 ? tile.rows - n : 4;
      for (int64_t c = 0; c < 4; ++c) rows[c] = w + (n + (c < count ? c : 0)) * w_stride;
      __m128 sums[kBlockRows];
      multiply_rows<A, kBlockRows>(n_rows, rows, x + t * x_stride, x_stride, tile.n_cols, sums);
      for (int64_t r = 0; r < n_rows; ++r) {
        float values[4];
        _mm_storeu_ps(values, sums[r]);
        const int64_t output = tile.output + n;
        float* y = p.y + (t + r) * p.y_stride + output;
        for (int64_t c = 0; c < count; ++c) {
          const float value = is_first ? values[c] : y[c] + values[c];
          y[c] = bias ? value + bias[output + c] : value;
        }
      }
    }
  }
}

template <typename Body>
inline void for_tiles(const Problem& p, const Member& member, int64_t chunk, const Body& body) {
  Pieces pieces(p, share_of(member, p.n_outputs, kRowGrain), kTileRows);
  Piece piece;
  while (pieces.next(&piece))
    for (int64_t col = 0; col < p.k; col += chunk)
      body(piece, Tile{piece.rows, piece.output, col, p.k - col < chunk ? p.k - col : chunk});
}

inline float* tile_of(const Problem& p, const Member& member) {
  return reinterpret_cast<float*>(p.workspace) + member.index() * kTileRows * kF32Chunk;
}

inline void run_generic(const Problem& p, const Member& member) {
  float* values = tile_of(p, member);
  for_tiles(p, member, kF32Chunk, [&](const Piece& piece, const Tile& tile) {
    decode_tile(piece, tile.col, tile.n_cols, values, kF32Chunk);
    multiply_tile<FloatWeights>(p, tile, values, kF32Chunk, p.x + tile.col, p.x_stride);
  });
}

// Widens the tile once where many rows use it; kWidenRows and fewer use the words in place.
inline void run_bf16(const Problem& p, const Member& member) {
  constexpr int64_t kWidenRows = 2 * kBlockRows;
  float* values = tile_of(p, member);
  for_tiles(p, member, kF32Chunk, [&](const Piece& piece, const Tile& tile) {
    const auto* words =
        reinterpret_cast<const uint16_t*>(contiguous_row(*piece.segment, piece.row)) + tile.col;
    const float* x = p.x + tile.col;
    if (p.n_rows <= kWidenRows)
      return multiply_tile<Bf16Weights>(p, tile, words, p.k, x, p.x_stride);
    for (int64_t row = 0; row < tile.rows; ++row) {
      const uint16_t* from = words + row * p.k;
      float* to = values + row * kF32Chunk;
      int64_t i = 0;
      for (; i + kLanes <= tile.n_cols; i += kLanes) store(to + i, load_bf16(from + i));
      // A chunk is a multiple of the lanes, so the padded end stays inside the tile's row.
      if (i < tile.n_cols) store(to + i, Bf16Weights::weights_tail(from + i, tile.n_cols - i));
    }
    multiply_tile<FloatWeights>(p, tile, values, kF32Chunk, x, p.x_stride);
  });
}
