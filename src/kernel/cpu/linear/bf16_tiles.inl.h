// linear over bf16 weights with AMX: 16 rows of W are the first factor, as they stand in memory,
// and up to 16 rows of x the second, whose words are put in the order of tiles before. Needs
// tiles.inl.h, simd_v4.inl.h, bf16_words.inl.h and the ends before it.

constexpr int64_t kTileSide = 16;  // rows of W, and of x
constexpr int64_t kTileCols = 32;  // of both
// Two blocks of rows of W, two of x, and their sums. The last block of x may be lower than others.
enum : int { kWTile, kWTile2, kXTile, kXTile2, kSumsTile, kSumsTile2, kSumsTile3, kSumsTile4 };

// x̂ as words: blocks of 16 rows, of each block [steps of 32 columns][16 pairs][rows of the block].
struct XTiles {
  XTiles(const Problem& p, std::byte* at)
      : words(reinterpret_cast<uint32_t*>(at)),
        n_rows(p.n_rows),
        steps((p.k + kTileCols - 1) / kTileCols) {}
  int64_t height(int64_t block) const {
    const int64_t left = n_rows - block * kTileSide;
    return left < kTileSide ? left : kTileSide;
  }
  uint32_t* block(int64_t i) const { return words + i * kTileSide * steps * kTileCols / 2; }
  // Columns [32·step, 32·step + n) of row t.
  void put(int64_t t, int64_t step, const float* x, int64_t n) const {
    const int64_t of = t / kTileSide, rows = height(of);
    uint32_t* to = block(of) + step * kTileSide * rows + t % kTileSide;
    alignas(64) uint16_t row[kTileCols];
    round_words(x, n, row);
    const I lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm512_i32scatter_epi32(to, _mm512_mullo_epi32(lanes, isplat(static_cast<int32_t>(rows))),
                            iload(row), 4);
  }

  uint32_t* words;
  int64_t n_rows, steps;
};

// This member's share of x̂: blocks of 32 columns, or whole rows where something stands before the
// product.
inline void put_rows(const Problem& p, const Room& room, const XTiles& to, const Member& member) {
  const auto width = [&](int64_t step) {
    const int64_t left = p.k - step * kTileCols;
    return left < kTileCols ? left : kTileCols;
  };
  if (p.input == LinearInput::kPlain) {
    const Range share = share_of(member, p.n_rows * to.steps, 1);
    for (int64_t i = share.begin; i < share.end; ++i) {
      const int64_t t = i / to.steps, step = i % to.steps;
      to.put(t, step, p.x + t * p.x_stride + step * kTileCols, width(step));
    }
    return;
  }
  float* row = room.rows + member.index() * room.rows_stride;
  const Range share = share_of(member, p.n_rows, 1);
  for (int64_t t = share.begin; t < share.end; ++t) {
    ends::prepare_row(p, t, row);
    for (int64_t step = 0; step < to.steps; ++step)
      to.put(t, step, row + step * kTileCols, width(step));
  }
}

// Up to 16 neighbouring rows of W. What is no whole tile is copied, with zeros around it.
struct WRows {
  const uint16_t* words = nullptr;
  int64_t k = 0, rows = 0;
  template <int kTile>
  FLARE_ALWAYS_INLINE void load_tile(int64_t step) const {
    const int64_t col = step * kTileCols, n = k - col < kTileCols ? k - col : kTileCols;
    if (rows == kTileSide && n == kTileCols) return tile_load<kTile>(words + col, 2 * k);
    alignas(64) uint16_t copy[kTileSide * kTileCols] = {};
    for (int64_t r = 0; r < rows; ++r)
      __builtin_memcpy(copy + r * kTileCols, words + r * k + col, static_cast<size_t>(2 * n));
    tile_load<kTile>(copy, 2 * kTileCols);
  }
};

inline void shape_tiles(int64_t width, int64_t width2) {
  TileShapes shapes;
  for (const int tile : {kWTile, kWTile2}) shapes.set(tile, kTileSide, 64);
  shapes.set(kXTile, kTileSide, 4 * width);
  shapes.set(kXTile2, kTileSide, 4 * width2);
  for (const int tile : {kSumsTile, kSumsTile2}) shapes.set(tile, kTileSide, 4 * width);
  for (const int tile : {kSumsTile3, kSumsTile4}) shapes.set(tile, kTileSide, 4 * width2);
  tile_configure(shapes);
}

// The transpose of a[16][16].
inline void transpose(const float* a, F* out) {
  F half[16], quarter[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    const F x = load(a + i * 16), y = load(a + (i + 1) * 16);
    half[i] = _mm512_unpacklo_ps(x, y);
    half[i + 1] = _mm512_unpackhi_ps(x, y);
  }
  // Column 4·q + c of rows 4·i … 4·i + 3 is quarter q of quarter[4·i + c].
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const __m512d x = _mm512_castps_pd(half[i + j]), y = _mm512_castps_pd(half[i + j + 2]);
      quarter[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
      quarter[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const F a0 = quarter[c], a1 = quarter[4 + c], a2 = quarter[8 + c], a3 = quarter[12 + c];
    const F even01 = _mm512_shuffle_f32x4(a0, a1, 0x88), odd01 = _mm512_shuffle_f32x4(a0, a1, 0xdd);
    const F even23 = _mm512_shuffle_f32x4(a2, a3, 0x88), odd23 = _mm512_shuffle_f32x4(a2, a3, 0xdd);
    out[c] = _mm512_shuffle_f32x4(even01, even23, 0x88);
    out[8 + c] = _mm512_shuffle_f32x4(even01, even23, 0xdd);
    out[4 + c] = _mm512_shuffle_f32x4(odd01, odd23, 0x88);
    out[12 + c] = _mm512_shuffle_f32x4(odd01, odd23, 0xdd);
  }
}

// Sums of `rows` outputs from `output` on and the rows of x from t on, [16][width], to y.
inline void finish_tile(const Problem& p, int64_t t, int64_t width, int64_t output, int64_t rows,
                        const float* sums) {
  const float* bias = p.bias == nullptr ? nullptr : p.bias + output;
  float* y = p.y + t * p.y_stride + output;
  if (width == kTileSide || (width == 1 && rows == kTileSide)) {
    F columns[kTileSide];
    if (width == 1) columns[0] = load(sums);
    if (width == kTileSide) transpose(sums, columns);
    const auto some = static_cast<__mmask16>((1u << rows) - 1);
    const F add_on = bias == nullptr ? zero() : _mm512_maskz_loadu_ps(some, bias);
    for (int64_t r = 0; r < width; ++r)
      _mm512_mask_storeu_ps(y + r * p.y_stride, some,
                            bias == nullptr ? columns[r] : add(columns[r], add_on));
    return;
  }
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t r = 0; r < width; ++r)
      y[r * p.y_stride + n] = bias == nullptr ? sums[n * width + r] : sums[n * width + r] + bias[n];
}

// One or two blocks of rows of W by one or two of x, of the widths the tiles have. Nothing is asked
// for ahead: what the machine fetches by itself is faster (bench/README.md).
template <bool kTwoW, bool kTwoX>
inline void multiply_blocks(const Problem& p, const WRows* w, const XTiles& x, int64_t block,
                            int64_t output) {
  tile_zero<kSumsTile>();
  tile_zero<kSumsTile2>();
  tile_zero<kSumsTile3>();
  tile_zero<kSumsTile4>();
  const int64_t width = x.height(block), width2 = kTwoX ? x.height(block + 1) : 0;
  const uint32_t* words = x.block(block);
  const uint32_t* words2 = kTwoX ? x.block(block + 1) : nullptr;
  for (int64_t step = 0; step < x.steps; ++step) {
    w[0].load_tile<kWTile>(step);
    tile_load<kXTile>(words, 4 * width);
    tile_add_pairs<kSumsTile, kWTile, kXTile>();
    if constexpr (kTwoW) {
      w[1].load_tile<kWTile2>(step);
      tile_add_pairs<kSumsTile2, kWTile2, kXTile>();
    }
    if constexpr (kTwoX) {
      tile_load<kXTile2>(words2, 4 * width2);
      tile_add_pairs<kSumsTile3, kWTile, kXTile2>();
      if constexpr (kTwoW) tile_add_pairs<kSumsTile4, kWTile2, kXTile2>();
      words2 += kTileSide * width2;
    }
    words += kTileSide * width;
  }
  alignas(64) float sums[kTileSide * kTileSide];
  const int64_t t = block * kTileSide;
  tile_store<kSumsTile>(sums, 4 * width);
  finish_tile(p, t, width, output, w[0].rows, sums);
  if constexpr (kTwoW) {
    tile_store<kSumsTile2>(sums, 4 * width);
    finish_tile(p, t, width, output + kTileSide, w[1].rows, sums);
  }
  if constexpr (kTwoX) {
    tile_store<kSumsTile3>(sums, 4 * width2);
    finish_tile(p, t + kTileSide, width2, output, w[0].rows, sums);
    if constexpr (kTwoW) {
      tile_store<kSumsTile4>(sums, 4 * width2);
      finish_tile(p, t + kTileSide, width2, output + kTileSide, w[1].rows, sums);
    }
  }
}

template <bool kTwoX>
inline void multiply_rows(const Problem& p, Range outputs, const XTiles& x, int64_t block) {
  Pieces pieces(p, outputs, 2 * kTileSide);
  Piece piece;
  while (pieces.next(&piece)) {
    const auto* words =
        reinterpret_cast<const uint16_t*>(contiguous_row(*piece.segment, piece.row));
    const int64_t first = piece.rows < kTileSide ? piece.rows : kTileSide;
    const WRows w[2] = {{words, p.k, first}, {words + kTileSide * p.k, p.k, piece.rows - first}};
    if (w[1].rows > 0)
      multiply_blocks<true, kTwoX>(p, w, x, block, piece.output);
    else
      multiply_blocks<false, kTwoX>(p, w, x, block, piece.output);
  }
}

// Pairs of blocks of x, then what is left of them: a block, and one that is lower.
inline void multiply_words(const Problem& p, Range outputs, const XTiles& x) {
  const int64_t n_blocks = (p.n_rows + kTileSide - 1) / kTileSide;
  if (n_blocks == 1) {
    shape_tiles(x.height(0), kTileSide);
    return multiply_rows<false>(p, outputs, x, 0);
  }
  // Outputs in runs whose weights stay in L2 while all rows of x pass.
  constexpr int64_t kRunBytes = 512 << 10;
  const int64_t run = align_up(kRunBytes / (2 * p.k) + 1, 2 * kTileSide);
  for (int64_t at = outputs.begin; at < outputs.end; at += run) {
    const Range some = {at, outputs.end - at < run ? outputs.end : at + run};
    int64_t block = 0;
    shape_tiles(kTileSide, kTileSide);
    for (; (block + 2) * kTileSide <= p.n_rows; block += 2) multiply_rows<true>(p, some, x, block);
    if (n_blocks - block == 2) {
      shape_tiles(kTileSide, x.height(block + 1));
      multiply_rows<true>(p, some, x, block);
    } else if (n_blocks - block == 1) {
      shape_tiles(x.height(block), kTileSide);
      multiply_rows<false>(p, some, x, block);
    }
  }
}

inline void run_tiles(const Problem& p, Member& member) {
  const Room room = room_of(p, bf16_bytes(p, member.count()), member.count());
  const XTiles x(p, p.workspace);
  put_rows(p, room, x, member);
  member.barrier();
  ends::for_outputs(p, room, member,
                    [&](const Problem& to, Range outputs) { multiply_words(to, outputs, x); });
  tile_release();
}
