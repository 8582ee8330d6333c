// A loop that reads memory and may ask for it ahead, for one width of vectors: needs `Vector`,
// load, exclusive_or and low_word.

// kStreams equal parts of `bytes`, kReadTurn bytes of each in turn.
template <int kStreams>
int64_t read_streams(const std::byte* p, int64_t bytes, int64_t ahead) {
  constexpr auto kWidth = static_cast<int64_t>(sizeof(Vector));
  const int64_t part = bytes / kStreams;
  Vector sums[4] = {splat8(0), splat8(0), splat8(0), splat8(0)};
  for (int64_t i = 0; i + kReadTurn <= part; i += kReadTurn)
    for (int stream = 0; stream < kStreams; ++stream) {
      const std::byte* const from = p + stream * part + i;
      if (ahead > 0)
        for (int64_t line = 0; line < kReadTurn; line += 64)
          _mm_prefetch(reinterpret_cast<const char*>(from + ahead + line), _MM_HINT_T1);
      for (int64_t at = 0; at < kReadTurn; at += 4 * kWidth)
        for (int j = 0; j < 4; ++j) sums[j] = exclusive_or(sums[j], load(from + at + j * kWidth));
    }
  return low_word(exclusive_or(exclusive_or(sums[0], sums[1]), exclusive_or(sums[2], sums[3])));
}

int64_t read(const ReadLoop& loop, const std::byte* p, int64_t bytes) {
  if (loop.streams == 1) return read_streams<1>(p, bytes, loop.ahead);
  if (loop.streams == 2) return read_streams<2>(p, bytes, loop.ahead);
  return read_streams<4>(p, bytes, loop.ahead);
}
