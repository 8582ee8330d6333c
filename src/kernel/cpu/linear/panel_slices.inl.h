// Linear over panels for many rows: slices of panels as bytes, and the order of work. Needs
// panels.inl.h before it.

// From row to row of totals: those of two panels.
constexpr int64_t kTotals = 2 * kPanelRows;

// A slice of one panel in the member's room.
struct Slice {
  std::byte* codes;
  float* scales;
  float* lows;
  int32_t* starts;
};

// The room of panel `place` of a pair.
inline Slice slice_of(const PanelScratch& scratch, int place) {
  constexpr int64_t kMeta = kPanelRows * kSliceCols / 16;
  return {scratch.slice + place * kPanelRows * kSliceCols, scratch.slice_scales + place * kMeta,
          scratch.slice_lows + place * kMeta, scratch.slice_starts + place * kMeta};
}

// What a group's sums of a tile begin with: Σ of the magnitudes of its negative codes.
inline I add_negative(I start, I codes) {
  const I magnitudes = and_(iabs8(codes), inegative8(codes));
  return iadd(start, imadd16(imaddubs(magnitudes, isplat(0x01010101)), isplat16(1)));
}

// Codes as bytes, unsigned where they are raised unless kLowersCodes takes the offset off again.
template <typename P, bool kLowersCodes = false>
inline void unpack_slice(const PanelRef& panel, int64_t col, int64_t n_cols, const Slice& to) {
  const codec::PanelShape& shape = panel.segment->shape;
  constexpr int kBlockCols = P::kGroup * P::kBlockGroups;
  for (int lane = 0; lane < kPanelRows; lane += kLanes) {
    const std::byte* block =
        panel.data + col / kBlockCols * static_cast<int64_t>(shape.block_bytes);
    std::byte* out = to.codes + 4 * lane;
    float* out_scales = to.scales + lane;
    float* out_lows = to.lows + lane;
    int32_t* out_starts = to.starts + lane;
    for (int64_t done = 0; done < n_cols; done += kBlockCols) {
      const std::byte* codes = block + shape.scale_bytes + 4 * lane;
      F scale[P::kBlockGroups], low[P::kHasLow ? P::kBlockGroups : 1];
      P::block_scales(block, lane, scale, low);
      block += shape.block_bytes;
      for (int g = 0; g < P::kBlockGroups; ++g) {
        store(out_scales, scale[g]);
        out_scales += kPanelRows;
        if constexpr (P::kHasLow) {
          store(out_lows, low[g]);
          out_lows += kPanelRows;
        }
        I start = izero();
        unrolled<0, P::kGroup / 4>([&](auto s) {
          I w = step_codes<P, s.value>(codes);
          if constexpr (kLowersCodes && P::kOffsetBits != kNotRaised) {
            w = isub8(w, isplat(0x01010101 << P::kOffsetBits));
          } else if constexpr (kIsSigned<P>) {
            w = xor_(w, isplat(static_cast<int32_t>(0x80808080u)));
            start = add_negative(start, w);
          } else if constexpr (!kLowersCodes && kTileRaise<P> != 0) {
            w = iadd(w, isplat(0x01010101 * kTileRaise<P>));
          }
          istore(out + s.value * 64, w);
        });
        if constexpr (!kLowersCodes && kIsSigned<P>) {
          istore(out_starts, start);
          out_starts += kPanelRows;
        }
        out += P::kGroup * kPanelRows;
        codes += kGroupCodeBytes<P>;
      }
    }
  }
}

FLARE_ALWAYS_INLINE inline void prefetch_outputs(const Problem& p, int64_t t,
                                                 const PanelPair& pair) {
  for (int i = 0; i < pair.count; ++i) {
    const int64_t output = pair.panels[i].output;
    if (kernel::takes_halves(p.output) && i > 0) return;
    __builtin_prefetch(p.y + t * p.y_stride + output, 1);
    if (p.residual != nullptr) __builtin_prefetch(p.residual + t * p.residual_stride + output, 0);
  }
}

// The bytes of a slice of a pair, asked for a few lines at a time while another is multiplied.
class SliceAhead {
 public:
  SliceAhead() = default;
  SliceAhead(const PanelPair& pair, int64_t col, int64_t n_cols, int64_t n_turns) {
    for (int i = 0; i < pair.count; ++i) {
      const codec::PanelShape& shape = pair.panels[i].segment->shape;
      const auto block_cols = static_cast<int64_t>(shape.block_cols);
      const auto block_bytes = static_cast<int64_t>(shape.block_bytes);
      at_[i] = pair.panels[i].data + col / block_cols * block_bytes;
      end_[i] = at_[i] + n_cols / block_cols * block_bytes;
      turn_bytes_[i] = (end_[i] - at_[i]) / n_turns + 64;
    }
  }
  FLARE_ALWAYS_INLINE void ask() {
    for (int i = 0; i < 2; ++i)
      for (const std::byte* to = at_[i] + turn_bytes_[i]; at_[i] < to && at_[i] < end_[i];
           at_[i] += 64)
        _mm_prefetch(reinterpret_cast<const char*>(at_[i]), _MM_HINT_T1);
  }

 private:
  const std::byte* at_[2] = {};
  const std::byte* end_[2] = {};
  int64_t turn_bytes_[2] = {};
};

// The columns [col, col + n_cols) of one pair over rows of x; the last columns finish the outputs.
struct TileStep {
  int64_t col, n_cols;
  bool is_first, is_last;
};

inline PanelPair tile_pair_at(const PanelProblem& p, int64_t i) {
  return has_halves(p) ? pair_of(p, i, p.n_panels / 2 + i) : pair_of(p, 2 * i, 2 * i + 1);
}

// The slice behind pair i's at `col` in the order of tile_item, where `at_once` pairs pass
// together; asked for in `n_turns`.
inline SliceAhead slice_behind(const PanelProblem& p, Range pairs, int64_t i, int64_t at_once,
                               int64_t col, int64_t n_turns) {
  const bool wraps = i + at_once >= pairs.end;
  const int64_t next = wraps ? i + at_once - (pairs.end - pairs.begin) : i + at_once;
  const int64_t next_col = wraps ? col + kSliceCols : col;
  const int64_t left = p.padded_k - next_col;
  const bool is_there = left > 0 && next >= pairs.begin && next < pairs.end;
  return {is_there ? tile_pair_at(p, next) : PanelPair{}, next_col,
          left < kSliceCols ? left : kSliceCols, n_turns};
}

// Chunks of rows by runs of pairs of panels: kPairsAtOnce, or fewer where the team could not end
// together. Chunks begin at multiples of `block_rows`.
struct TileItems {
  TileItems(const PanelProblem& p, int n_members, int64_t height)
      : n_rows(p.problem.n_rows),
        n_pairs((p.n_panels + 1) / 2),
        block_rows(height),
        n_blocks((n_rows + block_rows - 1) / block_rows) {
    const int64_t most = kRowsAtOnce / block_rows;
    n_chunks = (n_blocks + most - 1) / most;
    at_once = n_pairs * n_chunks / (4 * n_members);
    at_once = at_once < 1 ? 1 : at_once > kPairsAtOnce ? kPairsAtOnce : at_once;
    per_chunk = (n_pairs + at_once - 1) / at_once;
    count = n_chunks * per_chunk;
  }
  Range rows(int64_t item) const {
    const int64_t chunk = item / per_chunk;
    const int64_t end = n_blocks * (chunk + 1) / n_chunks * block_rows;
    return {n_blocks * chunk / n_chunks * block_rows, end < n_rows ? end : n_rows};
  }
  Range pairs(int64_t item) const {
    const int64_t first = item % per_chunk * at_once;
    return {first, n_pairs - first < at_once ? n_pairs : first + at_once};
  }
  int64_t n_rows, n_pairs, block_rows, n_blocks;
  int64_t n_chunks = 0, at_once = 1, per_chunk = 0, count = 0;
};
