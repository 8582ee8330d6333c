// Walks of an output's columns: rows × blocks of columns, shared out over the team.

// Short enough that one row of a wide value occupies several members, long enough that a block
// costs more than the walk.
inline constexpr int64_t kColumnBlock = 1024;

inline int64_t column_blocks(const OperandView& z) {
  return (z.cols + kColumnBlock - 1) / kColumnBlock;
}

// z = F::apply(x, y) element by element.
template <class F>
inline void map_binary(const OperandView& x, const OperandView& y, const OperandView& z,
                       Member& member) {
  const int64_t blocks = column_blocks(z);
  const auto part = member.share(z.rows * blocks);
  for (int64_t unit = part.first; unit < part.second; ++unit) {
    const int64_t row = unit / blocks;
    const int64_t begin = unit % blocks * kColumnBlock;
    const int64_t n = min64(kColumnBlock, z.cols - begin);
    const float* a = x.f32(row) + begin;
    const float* b = y.f32(row) + begin;
    float* out = z.f32_out(row) + begin;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store(out + i, F::apply(load(a + i), load(b + i)));
    if (i < n) store_n(out + i, F::apply(load_n(a + i, n - i), load_n(b + i, n - i)), n - i);
  }
}
