// What multiply*.inl.h works on: queries with keys, weights with values.

// A block as a sum wants it: step i of span s stands at words + i·stride + s·S::kSpanBytes.
struct Operand {
  const std::byte* words;
  int64_t stride;
  int64_t steps;
  const std::byte* last;  // of the last step, which S::kLastApart may have copied apart
  int64_t ahead;          // bytes from here to the block that comes next; 0: none
};

// The L spans from `span` on of step i, which stands at p; what comes next in their place is asked
// for.
template <class S, int L>
FLARE_ALWAYS_INLINE inline void read_step(const Operand& b, int64_t span, int64_t i,
                                          const std::byte* p, typename S::Words* words) {
  const std::byte* here = p;
  if constexpr (S::kLastApart) here = i + 1 == b.steps ? b.last + span * S::kSpanBytes : p;
  if (b.ahead != 0) {
#pragma GCC unroll 4
    for (int64_t line = 0; line < L * S::kSpanBytes; line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(p) + b.ahead + line, _MM_HINT_T1);
  }
#pragma GCC unroll 4
  for (int l = 0; l < L; ++l) {
    words[l] = S::read(here + l * S::kSpanBytes);
    S::settle(words[l]);
  }
}

// Rows of x with where their sums go.
struct Rows {
  const X* x;
  int64_t x_stride;
  int64_t count;
  float* out;
  int64_t out_stride;
  const float* keep;
};

// Few rows: the words are read once, or twice where registers are few.
inline constexpr int64_t kDirectRows = kLanes == 16 ? 8 : 4;

// The block in words that are cheap to read.
template <class S>
inline Operand widened(const Operand& b, int64_t spans, std::byte* tile) {
  using Tile = typename S::Tile;
  constexpr int64_t kSteps = S::kStep / Tile::kStep;
  const int64_t stride = spans * Tile::kSpanBytes;
  for (int64_t i = 0; i < b.steps; ++i) {
    const std::byte* p = S::kLastApart && i + 1 == b.steps ? b.last : b.words + i * b.stride;
    for (int64_t s = 0; s < spans; ++s) {
      if (b.ahead != 0)
        _mm_prefetch(reinterpret_cast<const char*>(p) + b.ahead + s * S::kSpanBytes, _MM_HINT_T1);
      S::widen(p + s * S::kSpanBytes, tile + i * kSteps * stride + s * Tile::kSpanBytes, stride);
    }
  }
  return {tile, stride, b.steps * kSteps, tile + (b.steps * kSteps - 1) * stride, 0};
}
