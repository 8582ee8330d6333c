// linear over int8 activations and row-split weights: panels of kLanes weight rows, one output a
// lane. Needs one of simd_*.inl.h before it, and
//   template <typename Q, int R> void dot_group(const I* w, const int8_t* x, I* sums)
//   constexpr bool kSignedQ8;  whether dot_group takes q8 codes as they are, not raised by 128
//
// Unpacked group of a panel: Q::kSteps registers; register s holds four codes of every row, as
// unsigned bytes raised by Q::kOffset. Activations: four codes of a row a step, see Quantised.

// Low nibbles to out[0], high nibbles to out[1], raised by 8.
inline void split_nibbles(I words, I* out) {
  const I mask = isplat(0x0f0f0f0f);
  const I raised = xor_(words, isplat(static_cast<int32_t>(0x88888888u)));
  out[0] = and_(raised, mask);
  out[1] = and_(shr<4>(raised), mask);
}

struct Q4 {
  static constexpr int kGroup = 64;
  static constexpr int kSteps = 16;
  static constexpr int kOffset = 8;
  static constexpr StepOrder kOrder = StepOrder::kEvensOdds;
  static constexpr int kRun = 8;  // 8 · 2·15·127 < 2^15: steps that add up in 16 bits
  static constexpr bool kSigned = false;
  static void unpack(const RowPlanes& rows, int64_t group, I* out) {
    for (int half = 0; half < 2; ++half) {
      I words[4];
      load_transposed(rows.base + group * 32 + half * 16, rows.base_stride, words);
      for (int i = 0; i < 4; ++i) split_nibbles(words[i], out + 8 * half + 2 * i);
    }
  }
};

struct Q6 {
  static constexpr int kGroup = 64;
  static constexpr int kSteps = 16;
  static constexpr int kOffset = 32;
  static constexpr StepOrder kOrder = StepOrder::kEvensOdds;
  static constexpr int kRun = 2;  // 2 · 2·63·127 < 2^15
  static constexpr bool kSigned = false;
  static void unpack(const RowPlanes& rows, int64_t group, I* out) {
    I high[4];  // word h holds two bits of the 16 lanes from 16·h on
    load_transposed(rows.high + group * 16, rows.high_stride, high);
    for (int half = 0; half < 2; ++half) {
      I words[4];
      load_transposed(rows.base + group * 32 + half * 16, rows.base_stride, words);
      for (int i = 0; i < 4; ++i) {
        const I pair = high[2 * half + i / 2];
        const I bits = i % 2 == 0 ? and_(pair, isplat(0xffff)) : shr<16>(pair);
        add_high(words[i], bits, out + 8 * half + 2 * i);
      }
    }
  }
  // bits: two bits of eight lanes in order. Spread so that byte j has those of lanes 2j and 2j+1.
  static void add_high(I words, I bits, I* out) {
    I spread = and_(or_(bits, shl<8>(bits)), isplat(0x00ff00ff));
    spread = and_(or_(spread, shl<4>(spread)), isplat(0x0f0f0f0f));
    const I mask = isplat(0x0f0f0f0f), flip = isplat(0x20202020);
    const I evens = shl<4>(and_(spread, isplat(0x03030303)));
    const I odds = shl<2>(and_(spread, isplat(0x0c0c0c0c)));
    out[0] = xor_(or_(and_(words, mask), evens), flip);
    out[1] = xor_(or_(and_(shr<4>(words), mask), odds), flip);
  }
};

struct Q8 {
  static constexpr int kGroup = 32;
  static constexpr int kSteps = 8;
  static constexpr int kOffset = kSignedQ8 ? 0 : 128;
  static constexpr StepOrder kOrder = StepOrder::kPlain;
  static constexpr int kRun = 1;
  static constexpr bool kSigned = kSignedQ8;
  static void unpack(const RowPlanes& rows, int64_t group, I* out) {
    for (int half = 0; half < 2; ++half) {
      load_transposed(rows.base + group * 32 + half * 16, rows.base_stride, out + 4 * half);
      if (kSigned) continue;
      for (int i = 0; i < 4; ++i)
        out[4 * half + i] = xor_(out[4 * half + i], isplat(static_cast<int32_t>(0x80808080u)));
    }
  }
};

constexpr int64_t kChunkGroups = 8;  // 16 bytes of scales

// fp16 words, zero above; exact, infinities and NaN are not legal scales.
inline F widen_scale(I words) {
  const I magnitude = shl<13>(and_(words, isplat(0x7fff)));
  const I sign = shl<16>(and_(words, isplat(0x8000)));
  return mul(as_float(or_(magnitude, sign)), splat(0x1p112f));
}

// Scales of n <= kChunkGroups groups; nothing behind them is read.
inline void unpack_scales(const RowPlanes& rows, int64_t group, int64_t n, float* out) {
  I words[4];
  if (n == kChunkGroups) {
    load_transposed(rows.scale + 2 * group, rows.scale_stride, words);
  } else {
    alignas(16) std::byte copies[kLanes * 16] = {};
    for (int64_t lane = 0; lane < kLanes; ++lane)
      __builtin_memcpy(copies + lane * 16, rows.scale + lane * rows.scale_stride + 2 * group,
                       2 * n);
    load_transposed(copies, 16, words);
  }
  for (int64_t i = 0; i < n; ++i) {
    const I word = words[i / 2];
    store(out + i * kLanes, widen_scale(i % 2 == 0 ? and_(word, isplat(0xffff)) : shr<16>(word)));
  }
}

// sums[r] += Σ over groups of scale(x_r)·scale(w)·(int dot product), groups ascending.
template <typename Q, int R>
inline void multiply_groups(const I* w, const float* scales, const int8_t* x, const float* x_scales,
                            const int32_t* x_sums, int64_t n_groups, F* sums) {
  F totals[R];
  for (int r = 0; r < R; ++r) totals[r] = sums[r];
  for (int64_t g = 0; g < n_groups; ++g) {
    I dots[R];
    for (int r = 0; r < R; ++r) dots[r] = isplat(x_sums[r]);
    dot_group<Q, R>(w, x, dots);
    const F scale = load(scales);
    for (int r = 0; r < R; ++r)
      totals[r] = mul_add(to_float(dots[r]), mul(scale, splat(x_scales[r])), totals[r]);
    w += Q::kSteps;
    scales += kLanes;
    x += Q::kSteps * R * 4;
    x_scales += R;
    x_sums += R;
  }
  for (int r = 0; r < R; ++r) sums[r] = totals[r];
}

// The rows [t, t + n_rows) of one block over groups [group, group + n_groups).
template <typename Q, int R = kInt8BlockRows>
inline void multiply_block_groups(const Quantised& q, int64_t t, int64_t n_rows, const I* w,
                                  const float* scales, int64_t group, int64_t n_groups, F* sums) {
  if constexpr (R > 1) {
    if (n_rows < R)
      return multiply_block_groups<Q, R - 1>(q, t, n_rows, w, scales, group, n_groups, sums);
  }
  multiply_groups<Q, R>(w, scales, q.codes + t * q.padded_k + group * Q::kGroup * R,
                        q.scales + t * q.groups + group * R, q.sums + t * q.groups + group * R,
                        n_groups, sums);
}

inline void store_outputs(const Problem& p, const Piece& piece, int64_t t, F sums) {
  float* y = p.y + t * p.y_stride + piece.output;
  const float* bias = p.bias ? p.bias + piece.output : nullptr;
  if (piece.rows == kLanes) return store(y, bias ? add(sums, load(bias)) : sums);
  float values[kLanes];
  store(values, sums);
  for (int64_t i = 0; i < piece.rows; ++i) y[i] = bias ? values[i] + bias[i] : values[i];
}

constexpr int64_t kStreamRows = 8;

// Few rows: a chunk of unpacked groups stays in L1 and is used by all of them at once.
template <typename Q>
inline void multiply_stream(const Problem& p, const Quantised& q, const Member& member) {
  Pieces pieces(p, share_of(member, p.n_outputs, kRowGrain), kLanes);
  Piece piece;
  std::byte* spare = spare_of(p, q, member);
  alignas(64) I w[kChunkGroups * Q::kSteps];
  alignas(64) float scales[kChunkGroups * kLanes];
  while (pieces.next(&piece)) {
    const RowPlanes rows = panel_rows(piece, kLanes, spare);
    F sums[kStreamRows];
    for (F& sum : sums) sum = zero();
    for (int64_t group = 0; group < q.groups; group += kChunkGroups) {
      const int64_t n = q.groups - group < kChunkGroups ? q.groups - group : kChunkGroups;
      unpack_scales(rows, group, n, scales);
      for (int64_t i = 0; i < n; ++i) {
        // The same columns of the next panel: a line of each row every other group.
        const std::byte* next = rows.base + kLanes * rows.base_stride + 32 * (group + i);
        if (i % 2 == 0)
          for (int64_t lane = 0; lane < kLanes; ++lane)
            _mm_prefetch(reinterpret_cast<const char*>(next + lane * rows.base_stride),
                         _MM_HINT_T0);
        Q::unpack(rows, group + i, w + i * Q::kSteps);
      }
      for (int64_t t = 0; t < p.n_rows; t += kInt8BlockRows) {
        const int64_t n_rows = p.n_rows - t < kInt8BlockRows ? p.n_rows - t : kInt8BlockRows;
        multiply_block_groups<Q>(q, t, n_rows, w, scales, group, n, sums + t);
      }
    }
    for (int64_t t = 0; t < p.n_rows; ++t) store_outputs(p, piece, t, sums[t]);
  }
}

// Many rows: a panel is unpacked whole and used by all rows whose codes fit the L2 cache.
template <typename Q>
inline void multiply_panels(const Problem& p, const Quantised& q, const Member& member) {
  constexpr int64_t kCodeBytes = 512 << 10;
  const int64_t fitting = kCodeBytes / q.padded_k / kInt8BlockRows * kInt8BlockRows;
  const int64_t rows_at_once = fitting > 8 * kInt8BlockRows ? fitting : 8 * kInt8BlockRows;
  std::byte* spare = spare_of(p, q, member);
  I* w = reinterpret_cast<I*>(panel_of(p, q, member));
  float* scales = reinterpret_cast<float*>(w + q.groups * Q::kSteps);
  const Range outputs = share_of(member, p.n_outputs, kRowGrain);
  for (int64_t t_begin = 0; t_begin < p.n_rows; t_begin += rows_at_once) {
    const int64_t t_end = t_begin + rows_at_once < p.n_rows ? t_begin + rows_at_once : p.n_rows;
    Pieces pieces(p, outputs, kLanes);
    Piece piece;
    while (pieces.next(&piece)) {
      const RowPlanes rows = panel_rows(piece, kLanes, spare);
      for (int64_t group = 0; group < q.groups; group += kChunkGroups) {
        const int64_t n = q.groups - group < kChunkGroups ? q.groups - group : kChunkGroups;
        unpack_scales(rows, group, n, scales + group * kLanes);
        for (int64_t i = 0; i < n; ++i) Q::unpack(rows, group + i, w + (group + i) * Q::kSteps);
      }
      for (int64_t t = t_begin; t < t_end; t += kInt8BlockRows) {
        const int64_t n_rows = t_end - t < kInt8BlockRows ? t_end - t : kInt8BlockRows;
        F sums[kInt8BlockRows];
        for (F& sum : sums) sum = zero();
        multiply_block_groups<Q>(q, t, n_rows, w, scales, 0, q.groups, sums);
        for (int64_t r = 0; r < n_rows; ++r) store_outputs(p, piece, t + r, sums[r]);
      }
    }
  }
}

template <typename Q>
inline void run_int8(const Problem& problem, Member& member) {
  const Room room = room_of(problem, int8_bytes(problem, member.count()), member.count());
  const Problem p = ends::prepared(problem, room, member);
  const Quantised q = quantised_in(p, Q::kGroup, kInt8BlockRows);
  quantise(p, q, Q::kGroup, Q::kOrder, Q::kOffset, member);
  member.barrier();
  Problem to = p;
  if (!p.is_stored_at_once()) {
    to.y = room.product;
    to.y_stride = p.n_outputs;
  }
  if (p.n_rows <= kStreamRows) {
    multiply_stream<Q>(to, q, member);
  } else {
    multiply_panels<Q>(to, q, member);
  }
  if (p.is_stored_at_once()) return;
  member.barrier();
  const Range stored = share_of(member, p.n_stored(), kRowGrain);
  for (int64_t t = 0; t < p.n_rows; ++t)
    ends::finish_row(p, t, stored, room.product + t * p.n_outputs);
}
