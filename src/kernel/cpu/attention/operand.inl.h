// What multiply*.inl.h works on: queries with keys, weights with values.

// A block as a sum wants it: step i of span s stands at words + i·stride + s·S::kSpanBytes.
struct Operand {
  const std::byte* words;
  int64_t stride;
  int64_t steps;
  const std::byte* last;  // of the last step, which S::kLastApart may have copied apart
  int64_t ahead;          // bytes from here to the block that comes next; 0: none
};

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
