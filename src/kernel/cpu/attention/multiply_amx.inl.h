// Sums of products of rows with the words of a block, as tdpbf16ps makes them (tiles.inl.h): in
// steps of 32 products, each the sum of two chains of fused additions that begin with zero. Few
// rows do the same in vector registers, so that a row's bits do not depend on those beside it.
// Needs operand.inl.h, words_bf16.inl.h and tiles.inl.h.

inline constexpr int64_t kTilePairs = 16;  // steps of a product of tiles
inline constexpr int64_t kTileHeight = 16;
// Tiles: two blocks of rows, two vectors of words, and their four sums.
enum : int {
  kRowsTile,
  kRowsTile2,
  kWordsTile,
  kWordsTile2,
  kSumsTile,
  kSumsTile2,
  kSumsTile3,
  kSumsTile4
};

inline void configure_tiles() {
  TileShapes shapes;
  for (int tile = 0; tile < 8; ++tile) shapes.set(tile, kTileHeight, 64);
  tile_configure(shapes);
}

// out[row] = keep·out[row] + sums, or the sums alone.
template <class S, bool kKeep>
FLARE_ALWAYS_INLINE inline void finish_span(float* out, VF low, VF high, const float* keep) {
  S::finish(low, high);
  if constexpr (kKeep) {
    low = fma(load(out), splat(*keep), low);
    high = fma(load(out + kLanes), splat(*keep), high);
  }
  store(out, low);
  store(out + kLanes, high);
}

FLARE_ALWAYS_INLINE inline VF even_words(__m512i pairs) {
  return (VF)_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}
FLARE_ALWAYS_INLINE inline VF odd_words(__m512i pairs) {
  return (VF)_mm512_castsi512_ps(
      _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000))));
}

// R rows and the spans [span, span+L).
template <class S, int R, int L, bool kKeep>
inline void multiply_chains(const Rows& rows, const Operand& b, int64_t span) {
  VF sums[R][2 * L];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < 2 * L; ++v) sums[r][v] = splat(0);
  const std::byte* p = b.words + span * S::kSpanBytes;
  for (int64_t first = 0; first < b.steps; first += kTilePairs) {
    VF even[R][2 * L], odd[R][2 * L];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < 2 * L; ++v) even[r][v] = odd[r][v] = splat(0);
    const int64_t end = min64(first + kTilePairs, b.steps);
    for (int64_t i = first; i < end; ++i, p += b.stride) {
      typename S::Words words[L];
      read_step<S, L>(b, span, i, p, words);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        int32_t pair;
        __builtin_memcpy(&pair, rows.x + r * rows.x_stride + 2 * i, 4);
        const __m512i factor = _mm512_set1_epi32(pair);
        const VF low = even_words(factor), high = odd_words(factor);
#pragma GCC unroll 8
        for (int v = 0; v < 2 * L; ++v) {
          const __m512i w = words[v / 2].pair[v % 2];
          even[r][v] = fma(low, even_words(w), even[r][v]);
          odd[r][v] = fma(high, odd_words(w), odd[r][v]);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < 2 * L; ++v) sums[r][v] = sums[r][v] + (even[r][v] + odd[r][v]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int l = 0; l < L; ++l)
      finish_span<S, kKeep>(rows.out + r * rows.out_stride + (span + l) * 2 * kLanes,
                            sums[r][2 * l], sums[r][2 * l + 1], kKeep ? rows.keep + r : nullptr);
}

template <class S, int R, int L, bool kKeep>
inline void multiply_few(const Rows& rows, const Operand& b, int64_t spans) {
  int64_t span = 0;
  for (; span + L <= spans; span += L) multiply_chains<S, R, L, kKeep>(rows, b, span);
  if constexpr (L > 1)
    for (; span < spans; ++span) multiply_chains<S, R, 1, kKeep>(rows, b, span);
}

// The block in pairs of bf16 that tiles can be loaded from: whole steps of a product, behind the
// last of the block zeros.
template <class S>
inline Operand tiled(const Operand& b, int64_t spans, std::byte* tile) {
  const int64_t missing = (kTilePairs - b.steps % kTilePairs) % kTilePairs;
  Operand to = b;
  if constexpr (!S::kCheap) {
    to = widened<S>(b, spans, tile);
  } else {
    const bool is_apart = S::kLastApart && b.last != b.words + (b.steps - 1) * b.stride;
    if (missing == 0 && !is_apart) return to;
    to.words = tile;
    to.stride = spans * S::kSpanBytes;
    for (int64_t i = 0; i < b.steps; ++i)
      __builtin_memcpy(tile + i * to.stride, i + 1 == b.steps ? b.last : b.words + i * b.stride,
                       static_cast<size_t>(to.stride));
  }
  if (missing > 0)
    __builtin_memset(tile + b.steps * to.stride, 0, static_cast<size_t>(missing * to.stride));
  to.steps = b.steps + missing;
  return to;
}

// Two blocks of rows, or one, by one span.
template <class S, bool kTwo, bool kKeep>
inline void multiply_tiles(const Rows& rows, int64_t first, const Operand& b, int64_t span) {
  tile_zero<kSumsTile>();
  tile_zero<kSumsTile2>();
  if constexpr (kTwo) {
    tile_zero<kSumsTile3>();
    tile_zero<kSumsTile4>();
  }
  const X* x = rows.x + first * rows.x_stride;
  const auto row_bytes = rows.x_stride * static_cast<int64_t>(sizeof(X));
  const std::byte* words = b.words + span * S::kSpanBytes;
  for (int64_t i = 0; i < b.steps; i += kTilePairs) {
    tile_load<kWordsTile>(words, b.stride);
    tile_load<kWordsTile2>(words + 64, b.stride);
    tile_load<kRowsTile>(x, row_bytes);
    tile_add_pairs<kSumsTile, kRowsTile, kWordsTile>();
    tile_add_pairs<kSumsTile2, kRowsTile, kWordsTile2>();
    if constexpr (kTwo) {
      tile_load<kRowsTile2>(x + kTileHeight * rows.x_stride, row_bytes);
      tile_add_pairs<kSumsTile3, kRowsTile2, kWordsTile>();
      tile_add_pairs<kSumsTile4, kRowsTile2, kWordsTile2>();
    }
    words += kTilePairs * b.stride;
    x += 2 * kTilePairs;
  }
  constexpr int64_t kRows = kTwo ? 2 * kTileHeight : kTileHeight;
  alignas(64) float sums[kRows * 2 * kLanes];
  constexpr int64_t kSumsBytes = 2 * kLanes * static_cast<int64_t>(sizeof(float));
  tile_store<kSumsTile>(sums, kSumsBytes);
  tile_store<kSumsTile2>(sums + kLanes, kSumsBytes);
  if constexpr (kTwo) {
    tile_store<kSumsTile3>(sums + kTileHeight * 2 * kLanes, kSumsBytes);
    tile_store<kSumsTile4>(sums + kTileHeight * 2 * kLanes + kLanes, kSumsBytes);
  }
  const int64_t n = min64(kRows, rows.count - first);
  for (int64_t r = 0; r < n; ++r)
    finish_span<S, kKeep>(rows.out + (first + r) * rows.out_stride + span * 2 * kLanes,
                          load(sums + r * 2 * kLanes), load(sums + r * 2 * kLanes + kLanes),
                          kKeep ? rows.keep + first + r : nullptr);
}

template <class S>
struct TiledWords {
  using Type = typename S::Tile;
};
template <bool kSplit>
struct TiledWords<Bf16Words<kSplit>> {
  using Type = Bf16Words<kSplit>;
};

// Rows of x are read, and those that are not there let be, up to whole tiles.
template <class S, bool kKeep>
inline void multiply(const Rows& rows, const Operand& b, int64_t spans, std::byte* tile) {
  if (rows.count == 1) return multiply_few<S, 1, 2, kKeep>(rows, b, spans);
  if (rows.count == 2) return multiply_few<S, 2, 2, kKeep>(rows, b, spans);
  if (rows.count <= 4) return multiply_few<S, 4, 1, kKeep>(rows, b, spans);
  using T = typename TiledWords<S>::Type;
  const Operand words = tiled<S>(b, spans, tile);
  for (int64_t span = 0; span < spans; ++span) {
    int64_t r = 0;
    for (; r + kTileHeight < rows.count; r += 2 * kTileHeight)
      multiply_tiles<T, true, kKeep>(rows, r, words, span);
    if (r < rows.count) multiply_tiles<T, false, kKeep>(rows, r, words, span);
  }
}
