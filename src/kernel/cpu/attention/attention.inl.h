// The body of attention, included once per level: scores, online softmax and weighted values of one
// unit (layout.h) at a time.

// Rows of a tile: with four keys or four value vectors the sums fill the register file.
inline constexpr int kRowTile = kLanes == 16 ? 4 : 2;
inline constexpr int kPanelVectors = 4;
inline constexpr int64_t kPanel = kPanelVectors * kLanes;

// n running rows: the sum of weighted values, the maximum score, the sum of weights.
struct Partial {
  float* sums;     // [rows, dv_padded]
  float* maximum;  // [rows]; −inf: nothing visible yet
  float* weight;   // [rows]
};
inline Partial partial_at(float* base, const attention::Shape& shape) {
  float* maximum = base + shape.rows() * shape.dv_padded;
  return {base, maximum, maximum + shape.rows()};
}

struct AttentionMember {
  float* queries;  // [rows, dk_padded], scaled, zero padded
  float* scores;   // [rows, kBlockTokens]
  Partial chunk;
  Partial total;
  float* keys;    // [4, dk_padded]
  float* values;  // [kBlockTokens, kPanel]
};
inline AttentionMember member_buffers(float* base, const attention::Shape& shape) {
  AttentionMember m;
  m.queries = base;
  m.scores = m.queries + shape.rows() * shape.dk_padded;
  float* partials = m.scores + shape.rows() * attention::kBlockTokens;
  m.chunk = partial_at(partials, shape);
  m.total = partial_at(partials + shape.partial_floats(), shape);
  m.keys = partials + 2 * shape.partial_floats();
  m.values = m.keys + 4 * shape.dk_padded;
  return m;
}

inline int64_t element_bytes(graph::DType dtype) {
  return dtype == graph::DType::kF32 ? 4 : dtype == graph::DType::kBf16 ? 2 : 1;
}

// n elements of a record as f32, padded with zeros to `width`, a multiple of kLanes.
inline void widen(const std::byte* record, graph::DType dtype, int64_t begin, int64_t n,
                  int64_t width, float* out) {
  int64_t i = 0;
  if (dtype == graph::DType::kF8E4M3) {
    const uint8_t* in = reinterpret_cast<const uint8_t*>(record) + begin;
    for (; i + kLanes <= n; i += kLanes) store(out + i, load_f8(in + i));
    if (i < n) store(out + i, load_f8_n(in + i, n - i)), i += kLanes;
  } else if (dtype == graph::DType::kBf16) {
    const uint16_t* in = reinterpret_cast<const uint16_t*>(record) + begin;
    for (; i + kLanes <= n; i += kLanes) store(out + i, load_bf16(in + i));
    if (i < n) store(out + i, load_bf16_n(in + i, n - i)), i += kLanes;
  } else {
    const float* in = reinterpret_cast<const float*>(record) + begin;
    for (; i + kLanes <= n; i += kLanes) store(out + i, load(in + i));
    if (i < n) store(out + i, load_n(in + i, n - i)), i += kLanes;
  }
  for (; i < width; i += kLanes) store(out + i, splat(0));
}

// Where a tile takes vectors from: widened in a buffer, or bf16 in their page. The values are the
// same, so a row's bits do not depend on which one a block of rows uses.
struct Widened {
  using Element = float;
  static VF vector(const float* p) { return load(p); }
};
struct InPage {
  using Element = uint16_t;
  static VF vector(const uint16_t* p) { return load_bf16(p); }
};

// scores[r, 0..4) = queries[r]·keys[0..4).
template <int R, class Source>
inline void score_tile(const float* queries, const typename Source::Element* const* keys,
                       int64_t dk, float* scores) {
  VF sums[R][4];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) sums[r][k] = splat(0);
  for (int64_t i = 0; i < dk; i += kLanes) {
    VF key[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) key[k] = Source::vector(keys[k] + i);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const VF q = load(queries + r * dk + i);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) sums[r][k] = fma(q, key[k], sums[r][k]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
    _mm_storeu_ps(scores + r * attention::kBlockTokens,
                  sum_lanes4(sums[r][0], sums[r][1], sums[r][2], sums[r][3]));
}

template <class Source>
inline void score_rows(const AttentionMember& m, int64_t dk, int64_t rows,
                       const typename Source::Element* const* keys, int64_t t) {
  int64_t r = 0;
  for (; r + kRowTile <= rows; r += kRowTile)
    score_tile<kRowTile, Source>(m.queries + r * dk, keys, dk,
                                 m.scores + r * attention::kBlockTokens + t);
  for (; r < rows; ++r)
    score_tile<1, Source>(m.queries + r * dk, keys, dk, m.scores + r * attention::kBlockTokens + t);
}

// Rows up to which widening in registers, once a tile, costs less than through a buffer.
inline constexpr int64_t kInPageRows = 2 * kRowTile;

inline void score_block(const AttentionMember& m, const attention::Shape& shape, int64_t rows,
                        const std::byte* keys, int64_t record_bytes, graph::DType dtype,
                        int64_t n) {
  const int64_t dk = shape.dk_padded;
  const bool in_page = dtype == graph::DType::kBf16 && rows <= kInPageRows && dk == shape.dk;
  for (int64_t t = 0; t < n; t += 4) {
    const uint16_t* words[4];
    const float* widened[4];
    for (int64_t k = 0; k < 4; ++k) {
      // Past the end the last key stands in; softmax masks what comes of it.
      const std::byte* record = keys + min64(t + k, n - 1) * record_bytes;
      words[k] = reinterpret_cast<const uint16_t*>(record);
      widened[k] = m.keys + k * dk;
      if (!in_page) widen(record, dtype, 0, shape.dk, dk, m.keys + k * dk);
    }
    if (in_page) {
      score_rows<InPage>(m, dk, rows, words, t);
    } else {
      score_rows<Widened>(m, dk, rows, widened, t);
    }
  }
}

// Turns one row's n scores into weights, of which only [low, high) may be non-zero, and brings the
// running row to the new maximum.
inline void soften_row(const Partial& p, const attention::Shape& shape, int64_t r, float* scores,
                       int64_t n, int64_t low, int64_t high) {
  const int64_t width = padded(n);
  if (low >= high) {
    for (int64_t t = 0; t < width; t += kLanes) store(scores + t, splat(0));
    return;
  }
  for (int64_t t = 0; t < low; ++t) scores[t] = -__builtin_inff();
  for (int64_t t = high; t < width; ++t) scores[t] = -__builtin_inff();
  VF best = load(scores);
  for (int64_t t = kLanes; t < width; t += kLanes) best = max(best, load(scores + t));
  const float old = p.maximum[r];
  float top = max_lanes(best);
  if (old > top) top = old;
  VF sum = splat(0);
  for (int64_t t = 0; t < width; t += kLanes) {
    const VF weight = exp(load(scores + t) - splat(top));
    store(scores + t, weight);
    sum += weight;
  }
  if (top == old) {
    p.weight[r] += sum_lanes(sum);
    return;
  }
  const float keep = exp1(old - top);
  p.weight[r] = p.weight[r] * keep + sum_lanes(sum);
  p.maximum[r] = top;
  float* sums = p.sums + r * shape.dv_padded;
  for (int64_t i = 0; i < shape.dv_padded; i += kLanes)
    store(sums + i, load(sums + i) * splat(keep));
}

// sums[r] += Σ_t weights[r, t]·values[t] over V vectors.
template <int R, int V, class Source>
inline void weigh_tile(const float* weights, const typename Source::Element* values,
                       int64_t value_stride, int64_t n, float* sums, int64_t stride) {
  VF acc[R][V];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = load(sums + r * stride + v * kLanes);
  for (int64_t t = 0; t < n; ++t) {
    VF value[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) value[v] = Source::vector(values + t * value_stride + v * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const VF weight = splat(weights[r * attention::kBlockTokens + t]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = fma(weight, value[v], acc[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(sums + r * stride + v * kLanes, acc[r][v]);
}

template <int V, class Source>
inline void weigh_rows(const AttentionMember& m, const attention::Shape& shape, int64_t rows,
                       const typename Source::Element* values, int64_t value_stride, int64_t n,
                       float* sums) {
  const int64_t stride = shape.dv_padded;
  int64_t r = 0;
  for (; r + kRowTile <= rows; r += kRowTile)
    weigh_tile<kRowTile, V, Source>(m.scores + r * attention::kBlockTokens, values, value_stride, n,
                                    sums + r * stride, stride);
  for (; r < rows; ++r)
    weigh_tile<1, V, Source>(m.scores + r * attention::kBlockTokens, values, value_stride, n,
                             sums + r * stride, stride);
}

inline void weigh_block(const AttentionMember& m, const Partial& p, const attention::Shape& shape,
                        int64_t rows, const std::byte* values, int64_t record_bytes,
                        graph::DType dtype, int64_t n) {
  for (int64_t column = 0; column < shape.dv_padded; column += kPanel) {
    const int64_t width = min64(kPanel, shape.dv_padded - column);
    const int64_t live = min64(width, shape.dv - column);
    float* sums = p.sums + column;
    if (dtype == graph::DType::kBf16 && rows <= kInPageRows && live == kPanel) {
      weigh_rows<kPanelVectors, InPage>(m, shape, rows,
                                        reinterpret_cast<const uint16_t*>(values) + column,
                                        record_bytes / 2, n, sums);
      continue;
    }
    for (int64_t t = 0; t < n; ++t)
      widen(values + t * record_bytes, dtype, column, live, width, m.values + t * kPanel);
    if (width == kPanel) {
      weigh_rows<kPanelVectors, Widened>(m, shape, rows, m.values, kPanel, n, sums);
    } else {
      for (int64_t v = 0; v < width; v += kLanes)
        weigh_rows<1, Widened>(m, shape, rows, m.values + v, kPanel, n, sums + v);
    }
  }
}

inline void clear_partial(const Partial& p, const attention::Shape& shape, int64_t rows) {
  for (int64_t i = 0; i < rows * shape.dv_padded; i += kLanes) store(p.sums + i, splat(0));
  for (int64_t r = 0; r < rows; ++r) {
    p.maximum[r] = -__builtin_inff();
    p.weight[r] = 0;
  }
}

// total ← total and one more chunk. A chunk in which a row sees nothing leaves it as it is.
inline void fold_partial(const Partial& total, const Partial& chunk, const attention::Shape& shape,
                         int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    if (chunk.weight[r] == 0) continue;
    const float old = total.maximum[r];
    const float top = old > chunk.maximum[r] ? old : chunk.maximum[r];
    const float keep = total.weight[r] == 0 ? 0.0f : exp1(old - top);
    const float add = exp1(chunk.maximum[r] - top);
    total.maximum[r] = top;
    total.weight[r] = total.weight[r] * keep + chunk.weight[r] * add;
    float* sums = total.sums + r * shape.dv_padded;
    const float* more = chunk.sums + r * shape.dv_padded;
    for (int64_t i = 0; i < shape.dv_padded; i += kLanes)
      store(sums + i, fma(load(more + i), splat(add), load(sums + i) * splat(keep)));
  }
}

inline void load_queries(const LaunchArgs& args, const attention::Shape& shape,
                         const attention::Unit& unit, float* queries) {
  const VF scale = splat(static_cast<float>(args.immediates[2].r));
  for (int64_t row = 0; row < unit.n_rows; ++row)
    for (int64_t g = 0; g < shape.group; ++g) {
      float* out = queries + (row * shape.group + g) * shape.dk_padded;
      const float* in =
          args.operands[0].f32(unit.first_row + row) + (unit.kv_head * shape.group + g) * shape.dk;
      widen(reinterpret_cast<const std::byte*>(in), graph::DType::kF32, 0, shape.dk,
            shape.dk_padded, out);
      for (int64_t i = 0; i < shape.dk_padded; i += kLanes) store(out + i, load(out + i) * scale);
    }
}

// Tokens [begin, end) of one chunk into `p`, which starts empty.
inline void sum_chunk(const LaunchArgs& args, const attention::Shape& shape,
                      const attention::Unit& unit, const AttentionMember& m, const Partial& p,
                      int64_t begin, int64_t end) {
  const StepInputs& step = *args.step;
  const OperandView& k_region = args.operands[1];
  const OperandView& v_region = args.operands[2];
  const int64_t k_bytes = shape.dk * element_bytes(k_region.dtype);
  const int64_t v_bytes = shape.dv * element_bytes(v_region.dtype);
  const int64_t window = args.immediates[3].i;
  const int64_t rows = unit.n_rows * shape.group;
  const int64_t last = unit.position + unit.n_rows - 1;
  const int64_t first_seen = window > 0 ? max64(0, unit.position - window + 1) : 0;
  clear_partial(p, shape, rows);
  end = min64(end, last + 1);
  for (int64_t token = begin; token < end;) {
    const int64_t slot = token % step.page_tokens;
    // Blocks end at multiples of kBlockTokens within their page, wherever the rows begin.
    const int64_t n = min64(
        min64(attention::kBlockTokens - slot % attention::kBlockTokens, step.page_tokens - slot),
        end - token);
    if (token + n > first_seen) {
      const std::byte* page = step.page_tables[unit.sequence][token / step.page_tokens];
      const int64_t record = unit.kv_head * step.page_tokens + slot;
      score_block(m, shape, rows, page + k_region.offset + record * k_bytes, k_bytes,
                  k_region.dtype, n);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t position = unit.position + r / shape.group;
        const int64_t low = window > 0 ? max64(0, position - window + 1 - token) : 0;
        soften_row(p, shape, r, m.scores + r * attention::kBlockTokens, n, low,
                   min64(n, position + 1 - token));
      }
      weigh_block(m, p, shape, rows, page + v_region.offset + record * v_bytes, v_bytes,
                  v_region.dtype, n);
    }
    token += n;
  }
}

inline void write_rows(const LaunchArgs& args, const attention::Shape& shape,
                       const attention::Unit& unit, const Partial& total) {
  for (int64_t row = 0; row < unit.n_rows; ++row)
    for (int64_t g = 0; g < shape.group; ++g) {
      const int64_t r = row * shape.group + g;
      const float* sums = total.sums + r * shape.dv_padded;
      float* out = args.operands[3].f32_out(unit.first_row + row) +
                   (unit.kv_head * shape.group + g) * shape.dv;
      const VF scale = splat(total.weight[r] > 0 ? 1.0f / total.weight[r] : 0.0f);
      int64_t i = 0;
      for (; i + kLanes <= shape.dv; i += kLanes) store(out + i, load(sums + i) * scale);
      if (i < shape.dv) store_n(out + i, load(sums + i) * scale, shape.dv - i);
    }
}

struct ChunkRange {
  int64_t tokens;
  int64_t first;
  int64_t last;
};
inline ChunkRange chunks_of(const LaunchArgs& args, const attention::Unit& unit) {
  const int64_t window = args.immediates[3].i;
  const int64_t tokens = attention::chunk_tokens(unit.position);
  const int64_t low = window > 0 ? max64(0, unit.position - window + 1) : 0;
  return {tokens, low / tokens, (unit.position + unit.n_rows - 1) / tokens};
}

void attention(const LaunchArgs& args, Member& member) {
  const attention::Shape shape = attention::shape_of(args);
  attention::Units units(*args.step, shape);
  float* base = reinterpret_cast<float*>(args.workspace.data());
  const AttentionMember m = member_buffers(base + member.index() * shape.member_floats(), shape);
  const int64_t count = member.count();
  // Neighbouring units differ little in cost, far ones much (causality): deal them out in turn.
  if (units.count() >= attention::split_below(member.count())) {
    for (int64_t u = member.index(); u < units.count(); u += count) {
      const attention::Unit unit = units.at(u);
      const ChunkRange chunks = chunks_of(args, unit);
      load_queries(args, shape, unit, m.queries);
      clear_partial(m.total, shape, unit.n_rows * shape.group);
      for (int64_t c = chunks.first; c <= chunks.last; ++c) {
        sum_chunk(args, shape, unit, m, m.chunk, c * chunks.tokens, (c + 1) * chunks.tokens);
        fold_partial(m.total, m.chunk, shape, unit.n_rows * shape.group);
      }
      write_rows(args, shape, unit, m.total);
    }
    return;
  }
  float* shared = base + count * shape.member_floats();
  int64_t task = 0;
  for (int64_t u = 0; u < units.count(); ++u) {
    const attention::Unit unit = units.at(u);
    const ChunkRange chunks = chunks_of(args, unit);
    bool loaded = false;
    for (int64_t c = chunks.first; c <= chunks.last; ++c, ++task) {
      if (task % count != member.index()) continue;
      if (!loaded) load_queries(args, shape, unit, m.queries);
      loaded = true;
      const Partial part =
          partial_at(shared + (u * attention::kMaxChunks + c) * shape.partial_floats(), shape);
      sum_chunk(args, shape, unit, m, part, c * chunks.tokens, (c + 1) * chunks.tokens);
    }
  }
  member.barrier();
  attention::Units again(*args.step, shape);
  for (int64_t u = member.index(); u < again.count(); u += count) {
    const attention::Unit unit = again.at(u);
    const ChunkRange chunks = chunks_of(args, unit);
    clear_partial(m.total, shape, unit.n_rows * shape.group);
    for (int64_t c = chunks.first; c <= chunks.last; ++c)
      fold_partial(
          m.total,
          partial_at(shared + (u * attention::kMaxChunks + c) * shape.partial_floats(), shape),
          shape, unit.n_rows * shape.group);
    write_rows(args, shape, unit, m.total);
  }
}
