// The body of attention, included once per level after its words and multiplication: scores, online
// softmax and weighted values of one item (layout.h) at a time. Logits are kept in units of log2 e.

inline constexpr float kLog2E = 0x1.715476p0f;
inline constexpr int64_t kBlock = attention::kBlockTokens;
inline constexpr int64_t kSpan = 2 * kLanes;

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
  X* queries;     // [rows, dk_padded], scaled, zero padded
  float* scores;  // [rows, kBlock]
  X* weights;     // [rows, kBlock]
  float* keep;    // [rows]: what a block leaves of the sums before it
  Partial chunk;
  Partial total;
  std::byte* copied;  // a block that cannot be used in its page
  std::byte* tile;    // a block widened
};
inline AttentionMember member_buffers(float* base, const attention::Shape& shape) {
  AttentionMember m;
  float* at = base;
  const auto take = [&at](int64_t floats) {
    float* part = at;
    at += floats;
    return part;
  };
  m.copied = reinterpret_cast<std::byte*>(take(shape.tile_floats()));
  m.tile = reinterpret_cast<std::byte*>(take(shape.tile_floats()));
  m.queries = reinterpret_cast<X*>(take(shape.rows() * shape.dk_padded));
  m.scores = take(shape.rows() * kBlock);
  m.weights = reinterpret_cast<X*>(take(shape.rows() * kBlock));
  m.chunk = partial_at(take(shape.partial_floats()), shape);
  m.total = partial_at(take(shape.partial_floats()), shape);
  m.keep = take(shape.rows());
  return m;
}

// n tokens of one KV head in one page, from `slot` on.
struct PageBlock {
  const std::byte* head;  // of the region
  int64_t page_tokens;
  int64_t slot;
  int64_t n;
  int64_t ahead;  // bytes from this page's head to that of the block after
};

// Element by element into a page of kBlock tokens, zeros beyond what there is.
template <class S>
inline void copy_block(const PageBlock& b,
                       int64_t (*element)(graph::DType, int64_t, int64_t, int64_t, int64_t),
                       int64_t width, int64_t padded_width, std::byte* out) {
  const auto bytes = static_cast<int64_t>(graph::dtype_bytes(S::kDType));
  __builtin_memset(out, 0, static_cast<size_t>(kBlock * padded_width * bytes));
  for (int64_t t = 0; t < b.n; ++t)
    for (int64_t c = 0; c < width; ++c)
      __builtin_memcpy(out + element(S::kDType, kBlock, padded_width, t, c) * bytes,
                       b.head + element(S::kDType, b.page_tokens, width, b.slot + t, c) * bytes,
                       static_cast<size_t>(bytes));
}

// Scores of the block's tokens, and of whatever follows them in their last span.
template <class S>
inline void score_block(const AttentionMember& m, const attention::Shape& shape, int64_t rows,
                        const PageBlock& b) {
  const auto bytes = static_cast<int64_t>(graph::dtype_bytes(S::kDType)) * S::kStep;
  const int64_t spans = (b.n + kSpan - 1) / kSpan;
  Operand operand;
  operand.steps = (shape.dk + S::kStep - 1) / S::kStep;
  operand.ahead = 0;
  if (shape.dk % S::kStep == 0 && b.slot + spans * kSpan <= b.page_tokens) {
    operand.words = b.head + b.slot * bytes;
    operand.stride = b.page_tokens * bytes;
    operand.ahead = b.ahead;
  } else {
    copy_block<S>(b, key_element, shape.dk, shape.dk_padded, m.copied);
    operand.words = m.copied;
    operand.stride = kBlock * bytes;
  }
  operand.last = operand.words + (operand.steps - 1) * operand.stride;
  multiply<S, false>({m.queries, shape.dk_padded, rows, m.scores, kBlock, nullptr}, operand, spans,
                     m.tile);
}

template <class S>
inline void weigh_block(const AttentionMember& m, const Partial& p, const attention::Shape& shape,
                        int64_t rows, const PageBlock& b) {
  const auto bytes = static_cast<int64_t>(graph::dtype_bytes(S::kDType)) * S::kStep;
  Operand operand;
  operand.steps = (b.n + S::kStep - 1) / S::kStep;
  operand.ahead = 0;
  const bool whole = b.slot % S::kStep == 0 && b.slot + operand.steps * S::kStep <= b.page_tokens;
  if (whole && shape.dv % kSpan == 0) {
    operand.words = b.head + b.slot / S::kStep * shape.dv * bytes;
    operand.stride = shape.dv * bytes;
    operand.ahead = b.ahead;
    operand.last = operand.words + (operand.steps - 1) * operand.stride;
    if (S::kDType == graph::DType::kBf16 && b.n % 2 != 0) {
      // The partner's weight is zero, but its place may hold a NaN of a page's former owner.
      const uint32_t* pair = reinterpret_cast<const uint32_t*>(operand.last);
      uint32_t* alone = reinterpret_cast<uint32_t*>(m.copied);
      for (int64_t c = 0; c < shape.dv; ++c) alone[c] = pair[c] & 0xffff;
      operand.last = m.copied;
    }
  } else {
    copy_block<S>(b, value_element, shape.dv, shape.dv_padded, m.copied);
    operand.words = m.copied;
    operand.stride = shape.dv_padded * bytes;
    operand.last = operand.words + (operand.steps - 1) * operand.stride;
  }
  multiply<S, true>({m.weights, kBlock, rows, p.sums, shape.dv_padded, m.keep}, operand,
                    (shape.dv + kSpan - 1) / kSpan, m.tile);
}

// Brings one row's scores under the cap.
inline void cap_scores(float* scores, int64_t width, float cap) {
  const VF bound = splat(cap * kLog2E);
  const VF inverse = splat(2 / (cap * kLog2E));
  for (int64_t t = 0; t < width; t += kLanes) {
    const VF tanh = splat(1) - splat(2) / (exp(load(scores + t) * inverse) + splat(1));
    store(scores + t, bound * tanh);
  }
}

// Scores outside [low, high) become −inf.
inline void mask_scores(float* scores, int64_t width, int64_t low, int64_t high) {
  VI lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  const VI first = VI{} + static_cast<int32_t>(low);
  const VI end = VI{} + static_cast<int32_t>(high);
  for (int64_t t = 0; t < width; t += kLanes) {
    const VI index = lane + static_cast<int32_t>(t);
    const VI seen = (index >= first) & (index < end);
    store(scores + t, seen ? load(scores + t) : splat(-__builtin_inff()));
  }
}

// Turns one row's scores of `width` tokens, whole spans, into weights, of which only [low, high)
// may be non-zero, and brings the running row to the new maximum.
inline void soften_row(const AttentionMember& m, const Partial& p, int64_t r, int64_t width,
                       int64_t low, int64_t high, float cap) {
  float* scores = m.scores + r * kBlock;
  X* weights = m.weights + r * kBlock;
  m.keep[r] = 1;
  if (low >= high) {
    __builtin_memset(weights, 0, static_cast<size_t>(width) * sizeof(X));
    return;
  }
  if (cap > 0) cap_scores(scores, width, cap);
  if (low > 0 || high < width) mask_scores(scores, width, low, high);
  VF best = load(scores);
  for (int64_t t = kLanes; t < width; t += kLanes) best = max(best, load(scores + t));
  const float old = p.maximum[r];
  float top = largest_lane(best);
  if (old > top) top = old;
  if (top != old) m.keep[r] = exp2_1(old - top);
  p.maximum[r] = top;
  const VF shift = splat(top);
  VF sum = splat(0);
  for (int64_t t = 0; t < width; t += kSpan)
    store_weights(weights + t, weight_of(load(scores + t) - shift),
                  weight_of(load(scores + t + kLanes) - shift), sum);
  p.weight[r] = p.weight[r] * m.keep[r] + sum_lanes(sum);
}

inline void clear_partial(const Partial& p, const attention::Shape& shape) {
  const int64_t rows = shape.rows();
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
    const float keep = total.weight[r] == 0 ? 0.0f : exp2_1(old - top);
    const float add = exp2_1(chunk.maximum[r] - top);
    total.maximum[r] = top;
    total.weight[r] = total.weight[r] * keep + chunk.weight[r] * add;
    float* sums = total.sums + r * shape.dv_padded;
    const float* more = chunk.sums + r * shape.dv_padded;
    for (int64_t i = 0; i < shape.dv_padded; i += kLanes)
      store(sums + i, fma(load(more + i), splat(add), load(sums + i) * splat(keep)));
  }
}

// Elements [i, i+kLanes) of n, zeros from n on.
inline VF load_at_most(const float* in, int64_t i, int64_t n) {
  return i + kLanes <= n ? load(in + i) : load_n(in + min64(i, n), max64(0, n - i));
}

// The rows' scaled queries under one KV head; rows of padding are zero, and so are their weights.
inline void load_queries(const LaunchArgs& args, const attention::Shape& shape,
                         const attention::Block& block, int64_t kv_head, const AttentionMember& m) {
  const VF scale = splat(static_cast<float>(args.immediates[2].r) * kLog2E);
  const int64_t rows = block.n_rows * shape.group;
  for (int64_t r = 0; r < rows; ++r) {
    X* out = m.queries + r * shape.dk_padded;
    const float* in = args.operands[0].f32(block.first_row + r / shape.group) +
                      (kv_head * shape.group + r % shape.group) * shape.dk;
    for (int64_t i = 0; i < shape.dk_padded; i += kSpan)
      store_queries(out + i, load_at_most(in, i, shape.dk) * scale,
                    load_at_most(in, i + kLanes, shape.dk) * scale);
  }
  __builtin_memset(m.queries + rows * shape.dk_padded, 0,
                   static_cast<size_t>((shape.rows() - rows) * shape.dk_padded) * sizeof(X));
  __builtin_memset(m.weights + rows * kBlock, 0,
                   static_cast<size_t>((shape.rows() - rows) * kBlock) * sizeof(X));
  for (int64_t r = rows; r < shape.rows(); ++r) m.keep[r] = 0;
}

// Where a member reads next: a page, and how many KV heads behind the current one.
struct Ahead {
  const std::byte* page = nullptr;  // null: not known
  int64_t heads = 0;
};

// One pass over a unit's tokens, block by block.
template <class K, class V>
struct UnitPass {
  const LaunchArgs& args;
  const attention::Shape& shape;
  const attention::Block& block;
  int64_t kv_head;
  const AttentionMember& m;
  int64_t end;  // of the tokens that this pass reads
  Ahead after;  // the pass

  const std::byte* page(int64_t token) const {
    const StepInputs& step = *args.step;
    return step.page_tables[block.sequence][token / step.page_tokens];
  }
  int64_t block_tokens(int64_t token) const {
    const int64_t slot = token % args.step->page_tokens;
    const int64_t chunk_end = (token / block.chunk_tokens + 1) * block.chunk_tokens;
    return min64(min64(kBlock - slot % kBlock, args.step->page_tokens - slot),
                 min64(chunk_end, end) - token);
  }
  // What to ask for while the n tokens from `token` on are read: the page behind theirs, unless
  // it holds a few tokens only, and then what comes after the pass.
  Ahead ahead_of(int64_t token, int64_t n) const {
    const int64_t rest = end - token - n;
    if (n < kBlock / 2 || (token + n) % args.step->page_tokens != 0) return {};
    return rest >= kBlock / 2 ? Ahead{page(token + n), 0} : after;
  }
  template <class S>
  PageBlock page_block(int operand, int64_t width, int64_t token, int64_t n,
                       const Ahead& next) const {
    const int64_t page_tokens = args.step->page_tokens;
    const int64_t head_bytes =
        page_tokens * width * static_cast<int64_t>(graph::dtype_bytes(S::kDType));
    const auto head = static_cast<int64_t>(args.operands[operand].offset) + kv_head * head_bytes;
    const std::byte* here = page(token);
    // A difference of unrelated addresses: only prefetches use it.
    const auto ahead = next.page == nullptr
                           ? 0
                           : reinterpret_cast<intptr_t>(next.page) -
                                 reinterpret_cast<intptr_t>(here) + next.heads * head_bytes;
    return {here + head, page_tokens, token % page_tokens, n, ahead};
  }
  // The tokens of one chunk into `p`, which starts empty.
  void sum_chunk(int64_t chunk, const Partial& p) const {
    const auto cap = static_cast<float>(args.immediates[4].r);
    const int64_t rows = block.n_rows * shape.group;
    clear_partial(p, shape);
    const int64_t chunk_end = min64((chunk + 1) * block.chunk_tokens, end);
    for (int64_t token = chunk * block.chunk_tokens; token < chunk_end;) {
      // Blocks end at multiples of kBlock within their page, wherever the rows begin.
      const int64_t n = block_tokens(token);
      if (token + n > block.first_token) {
        const Ahead next = ahead_of(token, n);
        score_block<K>(m, shape, rows, page_block<K>(1, shape.dk, token, n, next));
        const int64_t width = (n + kSpan - 1) / kSpan * kSpan;
        for (int64_t r = 0; r < rows; ++r) {
          const int64_t position = block.position + r / shape.group;
          const int64_t low = shape.window > 0 ? max64(0, position - shape.window + 1 - token) : 0;
          soften_row(m, p, r, width, low, min64(n, position + 1 - token), cap);
        }
        weigh_block<V>(m, p, shape, rows, page_block<V>(2, shape.dv, token, n, next));
      }
      token += n;
    }
  }
};

inline void write_rows(const LaunchArgs& args, const attention::Shape& shape,
                       const attention::Block& block, int64_t kv_head, const Partial& total) {
  const OperandView& sinks = args.operands[3];
  for (int64_t r = 0; r < block.n_rows * shape.group; ++r) {
    const int64_t head = kv_head * shape.group + r % shape.group;
    const float* sums = total.sums + r * shape.dv_padded;
    float* out = args.operands[4].f32_out(block.first_row + r / shape.group) + head * shape.dv;
    float weight = total.weight[r];
    float keep = 1;
    if (sinks.space != graph::Space::kNone) {
      const float sink = sinks.f32()[head] * kLog2E;
      const float top = sink > total.maximum[r] ? sink : total.maximum[r];
      keep = exp2_1(total.maximum[r] - top);
      weight = weight * keep + exp2_1(sink - top);
    }
    const VF scale = splat(weight == 0 ? 0 : keep / weight);
    int64_t i = 0;
    for (; i + kLanes <= shape.dv; i += kLanes) store(out + i, load(sums + i) * scale);
    if (i < shape.dv) store_n(out + i, load(sums + i) * scale, shape.dv - i);
  }
}

// One dealing of the step's items, then one of the units that were split.
template <class K, class V>
inline void attend(const LaunchArgs& args, Member& member) {
  const attention::Shape shape = attention::shape_of(args);
  attention::Blocks blocks(*args.step, shape, member.count());
  float* base = reinterpret_cast<float*>(args.workspace.data());
  const AttentionMember m = member_buffers(base + member.index() * shape.member_floats(), shape);
  float* shared = base + member.count() * shape.member_floats();
  const auto part = [&](int64_t unit, int64_t chunk) {
    return partial_at(shared + (unit * attention::kMaxChunks + chunk) * shape.partial_floats(),
                      shape);
  };
  int64_t item = member.take();
  int64_t split = 0;  // units in several pieces, of the blocks before
  for (int64_t before = 0; !blocks.done(); blocks.next()) {
    const attention::Block& block = blocks.block();
    const int64_t pieces = blocks.pieces();
    const int64_t n_chunks = block.end_chunk - block.first_chunk;
    // With few rows reading is what costs: the item after is known before this one ends.
    const bool reads_ahead = block.n_rows * shape.group <= kDirectRows;
    int64_t following = 0;
    for (; item < before + pieces * shape.nkv; item = reads_ahead ? following : member.take()) {
      const int64_t kv_head = (item - before) / pieces;
      const int64_t piece = (item - before) % pieces;
      const auto chunk_of = [&](int64_t i) { return block.first_chunk + n_chunks * i / pieces; };
      const int64_t first = chunk_of(piece), end = chunk_of(piece + 1);
      load_queries(args, shape, block, kv_head, m);
      UnitPass<K, V> pass{
          args, shape, block, kv_head, m, min64(block.end_token, end * block.chunk_tokens), {}};
      if (reads_ahead) {
        following = member.take();
        if (following < before + pieces * shape.nkv) {
          const int64_t start = chunk_of((following - before) % pieces) * block.chunk_tokens;
          const int64_t token = max64(start, block.first_token);
          pass.after = {pass.page(token), (following - before) / pieces - kv_head};
        }
      }
      if (pieces > 1) {
        for (int64_t c = first; c < end; ++c) pass.sum_chunk(c, part(split + kv_head, c));
        continue;
      }
      pass.sum_chunk(first, m.total);  // a chunk by itself is what it is folded to
      for (int64_t c = first + 1; c < end; ++c) {
        pass.sum_chunk(c, m.chunk);
        fold_partial(m.total, m.chunk, shape, block.n_rows * shape.group);
      }
      write_rows(args, shape, block, kv_head, m.total);
    }
    before += pieces * shape.nkv;
    if (pieces > 1) split += shape.nkv;
  }
  if (split == 0) return;
  member.barrier();
  item = member.take();
  split = 0;
  for (blocks.reset(); !blocks.done(); blocks.next()) {
    if (blocks.pieces() == 1) continue;
    const attention::Block& block = blocks.block();
    for (; item < split + shape.nkv; item = member.take()) {
      clear_partial(m.total, shape);
      for (int64_t c = block.first_chunk; c < block.end_chunk; ++c)
        fold_partial(m.total, part(item, c), shape, block.n_rows * shape.group);
      write_rows(args, shape, block, item - split, m.total);
    }
    split += shape.nkv;
  }
}
