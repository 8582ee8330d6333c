// Codes and scales of every panel format as vectors: a lane is a weight row. Needs simd_*.inl.h.
//
// A format supplies
//   kGroup; kBlockGroups;   columns that share a scale, and groups of a block
//   kLowBits; kHighBits;    of a code, see codec/panels.h
//   kOffsetBits;            codes are raised by 2^kOffsetBits, or kNotRaised
//   kHasLow;                whether a group has a minimum that is taken off
//   block_scales(at, lane, scale, low): of the block whose scales are at `at`, lanes from `lane` on

constexpr int kNotRaised = -1;

template <int kValue>
struct Constant {
  static constexpr int value = kValue;
};
// body(Constant<kBegin>{}), body(Constant<kBegin + kBy>{}), … below kEnd.
template <int kBegin, int kEnd, int kBy = 1, typename Body>
FLARE_ALWAYS_INLINE inline void unrolled(const Body& body) {
  if constexpr (kBegin < kEnd) {
    body(Constant<kBegin>{});
    unrolled<kBegin + kBy, kEnd, kBy>(body);
  }
}

// fp16 words in 32-bit lanes, zero above; exact. Infinities and NaN are no legal scales.
inline F widen_half(I words) {
  const I magnitude = shl<13>(and_(words, isplat(0x7fff)));
  const I sign = shl<16>(and_(words, isplat(0x8000)));
  return mul(as_float(or_(magnitude, sign)), splat(0x1p112f));
}

template <int kGroupCols, int kLow, int kHigh, int kOffset>
struct HalfScaled {
  static constexpr int kGroup = kGroupCols;
  static constexpr int kBlockGroups = 128 / kGroupCols;
  static constexpr int kLowBits = kLow;
  static constexpr int kHighBits = kHigh;
  static constexpr int kOffsetBits = kOffset;
  static constexpr bool kHasLow = false;
  static void block_scales(const std::byte* at, int lane, F* scale, F*) {
    unrolled<0, kBlockGroups>([&](auto g) {
      scale[g.value] = load_half(reinterpret_cast<const uint16_t*>(at + 32 * g.value) + lane);
    });
  }
};
using PanelQ4G64 = HalfScaled<64, 4, 0, 3>;
using PanelQ5G64 = HalfScaled<64, 4, 1, 4>;
using PanelQ6G64 = HalfScaled<64, 4, 2, 5>;
using PanelQ4G32 = HalfScaled<32, 4, 0, 3>;  // gguf_q4_0
using PanelQ8G32 = HalfScaled<32, 8, 0, 7>;  // and gguf_q8_0

using PanelQ5G32 = HalfScaled<32, 4, 1, 4>;  // gguf_q5_0
using PanelQ2G64 = HalfScaled<64, 2, 0, 0>;  // t2_g128 and gguf_q2_0 too: all are raised by one

template <int kHigh>
struct HalfAndLow {  // gguf_q4_1, gguf_q5_1
  static constexpr int kGroup = 32;
  static constexpr int kBlockGroups = 4;
  static constexpr int kLowBits = 4;
  static constexpr int kHighBits = kHigh;
  static constexpr int kOffsetBits = kNotRaised;
  static constexpr bool kHasLow = true;
  static void block_scales(const std::byte* at, int lane, F* scale, F* low) {
    unrolled<0, kBlockGroups>([&](auto g) {
      const auto* halves = reinterpret_cast<const uint16_t*>(at + 64 * g.value) + lane;
      scale[g.value] = load_half(halves);
      low[g.value] = load_half(halves + 16);
    });
  }
};

template <int kHigh>
struct SixBits {  // gguf_q4_k, gguf_q5_k
  static constexpr int kGroup = 32;
  static constexpr int kBlockGroups = 8;
  static constexpr int kLowBits = 4;
  static constexpr int kHighBits = kHigh;
  static constexpr int kOffsetBits = kNotRaised;
  static constexpr bool kHasLow = true;
  static void block_scales(const std::byte* at, int lane, F* scale, F* low) {
    const auto word = [&](int i) { return iload(at + 64 * i + 4 * lane); };
    const I w0 = word(0), w1 = word(1), w2 = word(2), halves = word(3);
    const F d = widen_half(and_(halves, isplat(0xffff)));
    const F least = widen_half(shr<16>(halves));
    const I six = isplat(0x3f3f3f3f), four = isplat(0x0f0f0f0f), two = isplat(0x30303030);
    const I scales[2] = {and_(w0, six), or_(and_(w2, four), and_(shr<2>(w0), two))};
    const I lows[2] = {and_(w1, six), or_(and_(shr<4>(w2), four), and_(shr<2>(w1), two))};
    unrolled<0, 8>([&](auto u) {
      constexpr int kShift = u.value % 4 * 8;
      const I byte = isplat(0xff);
      scale[u.value] = mul(d, to_float(and_(shr<kShift>(scales[u.value / 4]), byte)));
      low[u.value] = mul(least, to_float(and_(shr<kShift>(lows[u.value / 4]), byte)));
    });
  }
};

template <int kGroupCols, int kHigh, int kOffset>
struct ByteScaled {
  static constexpr int kGroup = kGroupCols;
  static constexpr int kBlockGroups = 256 / kGroupCols;
  static constexpr int kLowBits = 4;
  static constexpr int kHighBits = kHigh;
  static constexpr int kOffsetBits = kOffset;
  static constexpr bool kHasLow = false;
  static void block_scales(const std::byte* at, int lane, F* scale, F*) {
    const F d = load_half(reinterpret_cast<const uint16_t*>(at + 16 * kBlockGroups) + lane);
    unrolled<0, kBlockGroups>([&](auto u) {
      const I word = iload(at + 64 * (u.value / 4) + 4 * lane);
      scale[u.value] = mul(d, to_float(sar<24>(shl<24 - u.value % 4 * 8>(word))));
    });
  }
};

using PanelQ6K = ByteScaled<16, 2, 5>;
using PanelQ3K = ByteScaled<16, 0, 2>;

// Binary32 scales, and lows where there are any.
template <int kGroupCols, int kLow, int kOffset, bool kLows>
struct FloatScaled {
  static constexpr int kGroup = kGroupCols;
  static constexpr int kBlockGroups = 128 / kGroupCols;
  static constexpr int kLowBits = kLow;
  static constexpr int kHighBits = 0;
  static constexpr int kOffsetBits = kOffset;
  static constexpr bool kHasLow = kLows;
  static void block_scales(const std::byte* at, int lane, F* scale, F* low) {
    unrolled<0, kBlockGroups>([&](auto g) {
      const float* floats = reinterpret_cast<const float*>(at) + lane;
      scale[g.value] = load(floats + 16 * g.value * (kLows ? 2 : 1));
      if constexpr (kLows) low[g.value] = load(floats + 32 * g.value + 16);
    });
  }
};
using PanelInt4G32 = FloatScaled<32, 4, kNotRaised, true>;
using PanelInt4G64 = FloatScaled<64, 4, kNotRaised, true>;
using PanelInt8G32 = FloatScaled<32, 8, 7, true>;
using PanelInt8G64 = FloatScaled<64, 8, 7, true>;

// Codes that are places in a table of 8-bit numbers, which stand there raised by 128.
template <typename Base>
struct Iq4 : Base {
  static constexpr int kOffsetBits = 7;
  static constexpr uint8_t kTable[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                         129, 141, 153, 166, 181, 197, 217, 241};
};
using PanelIq4Nl = Iq4<HalfScaled<32, 4, 0, kNotRaised>>;
using PanelIq4Xs = Iq4<ByteScaled<32, 0, kNotRaised>>;
template <int kGroupCols>
struct PanelFp4 : FloatScaled<kGroupCols, 4, kNotRaised, false> {  // twice the values of E2M1
  static constexpr int kOffsetBits = 7;
  static constexpr uint8_t kTable[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                         128, 127, 126, 125, 124, 122, 120, 116};
};

struct PanelQ2K {
  static constexpr int kGroup = 16;
  static constexpr int kBlockGroups = 16;
  static constexpr int kLowBits = 2;
  static constexpr int kHighBits = 0;
  static constexpr int kOffsetBits = kNotRaised;
  static constexpr bool kHasLow = true;
  static void block_scales(const std::byte* at, int lane, F* scale, F* low) {
    const I halves = iload(at + 256 + 4 * lane);
    const F d = widen_half(and_(halves, isplat(0xffff)));
    const F least = widen_half(shr<16>(halves));
    unrolled<0, kBlockGroups>([&](auto u) {
      constexpr int kShift = u.value % 4 * 8;
      const I word = iload(at + 64 * (u.value / 4) + 4 * lane);
      scale[u.value] = mul(d, to_float(and_(shr<kShift>(word), isplat(15))));
      low[u.value] = mul(least, to_float(and_(shr<kShift + 4>(word), isplat(15))));
    });
  }
};

// Codes that are E4M3 numbers: for binary32 arithmetic alone.
template <int kGroupCols>
struct PanelFp8 : FloatScaled<kGroupCols, 8, kNotRaised, false> {
  static constexpr bool kIsFp8 = true;
};
template <typename P>
inline constexpr bool kHoldsFp8 = requires { P::kIsFp8; };

// Formats that many files hold: these have kernels for every number of rows, others for one row,
// for four and for a block, since every kernel is compiled for every format and level.
template <typename P>
inline constexpr bool kIsCommon = false;
template <int kGroup, int kLow, int kHigh, int kOffset>
inline constexpr bool kIsCommon<HalfScaled<kGroup, kLow, kHigh, kOffset>> = kLow > 2;
template <int kHigh>
inline constexpr bool kIsCommon<SixBits<kHigh>> = true;
template <>
inline constexpr bool kIsCommon<PanelQ6K> = true;

// Codes of all eight bits: raised by 128, too large for sums in 16 bits.
template <typename P>
inline constexpr bool kIsTabled = requires { P::kTable; };
template <typename P>
inline constexpr bool kIsWide = P::kLowBits == 8 || kIsTabled<P>;

// Steps whose products of codes and activations of ±127 are added in 16 bits before they are
// widened: all that fit, 16 with 2-bit codes, 8 with 4 bits, 4 with 5, 2 with 6.
template <typename P>
constexpr int run_of() {
  constexpr int kMost = kIsWide<P> ? 1 : P::kLowBits == 2 ? 16 : 8 >> P::kHighBits;
  constexpr int kSteps = P::kGroup / 4;
  return kSteps < kMost ? kSteps : kMost;
}

// What a tile's kernel knows of a format once its codes are bytes: formats share kernels.
template <int kGroupCols, int kOffset, bool kLows, bool kWide, int kSteps, bool kCommon>
struct TileFormat {
  static constexpr int kGroup = kGroupCols;
  static constexpr int kOffsetBits = kOffset;
  static constexpr bool kHasLow = kLows;
  static constexpr bool kIsWide = kWide;
  static constexpr int kRun = kSteps;  // whose products are added in 16 bits
  static constexpr bool kIsCommon = kCommon;
};
template <typename P>
struct TileFormatFor {
  using Type =
      TileFormat<P::kGroup, P::kOffsetBits, P::kHasLow, kIsWide<P>, run_of<P>(), kIsCommon<P>>;
};
template <typename P>
using TileFormatOf = typename TileFormatFor<P>::Type;
template <>
struct TileFormatFor<PanelQ2G64> : TileFormatFor<PanelQ4G64> {};
// By how much more than in panels a tile's codes are raised: the kernel's offset is another's.
template <typename P>
inline constexpr int kTileRaise = P::kOffsetBits == TileFormatOf<P>::kOffsetBits
                                      ? 0
                                      : (1 << TileFormatOf<P>::kOffsetBits) - (1 << P::kOffsetBits);

// Bytes of a step's codes in a panel, and of a group's.
template <typename P>
inline constexpr int kStepCodeBytes = 8 * (P::kLowBits + P::kHighBits);
template <typename P>
inline constexpr int kGroupCodeBytes = P::kGroup / 4 * kStepCodeBytes<P>;
// A group's share of its block's bytes, for prefetching: a few bytes more at most.
template <typename P>
inline constexpr int kGroupShare = kGroupCodeBytes<P> + 32;

// The same of eight steps, or of a group where it has fewer.
template <typename P>
inline constexpr int kTurnShare = (P::kGroup < 32 ? P::kGroup : 32) / 4 * kStepCodeBytes<P> + 32;

// Step S of a group as unsigned bytes. `codes` points at the group's first byte of the vector's
// first lane.
template <typename P, int S>
FLARE_ALWAYS_INLINE inline I step_codes(const std::byte* codes) {
  if constexpr (P::kLowBits == 8) return iload(codes + S * 64);
  if constexpr (P::kLowBits == 2)
    return and_(shr<2 * (S % 4)>(iload(codes + S / 4 * 64)), isplat(0x03030303));
  const I nibbles = isplat(0x0f0f0f0f);
  const auto low_of = [&](I pair) FLARE_ALWAYS_INLINE {
    return S % 2 == 0 ? and_(pair, nibbles) : and_(shr<4>(pair), nibbles);
  };
  if constexpr (kIsTabled<P>) {
    return lookup(P::kTable, low_of(iload(codes + S / 2 * 64)));
  } else if constexpr (P::kHighBits == 0) {
    return low_of(iload(codes + S / 2 * 64));
  } else {
    constexpr int kSteps = 8 / P::kHighBits;  // of a line of high bits, which stands before theirs
    constexpr int kAt = P::kHighBits * (S % kSteps);
    const std::byte* line = codes + S / kSteps * kSteps * kStepCodeBytes<P>;
    const I bits = iload(line);
    const I low = low_of(iload(line + 64 + S % kSteps / 2 * 64));
    const I mask = isplat(P::kHighBits == 1 ? 0x10101010 : 0x30303030);
    if constexpr (kAt <= 4) return or_(low, and_(shl<4 - kAt>(bits), mask));
    if constexpr (kAt > 4) return or_(low, and_(shr<kAt - 4>(bits), mask));
  }
}

// body(P{}) for the panel format.
template <typename Body>
inline void with_format(codec::FormatId format, const Body& body) {
  switch (format) {
    case codec::FormatId::kQ4G64:
      return body(PanelQ4G64{});
    case codec::FormatId::kQ5G64:
      return body(PanelQ5G64{});
    case codec::FormatId::kQ6G64:
      return body(PanelQ6G64{});
    case codec::FormatId::kGgufQ4_0:
      return body(PanelQ4G32{});
    case codec::FormatId::kQ8G32:
    case codec::FormatId::kGgufQ8_0:
      return body(PanelQ8G32{});
    case codec::FormatId::kGgufQ4_1:
      return body(HalfAndLow<0>{});
    case codec::FormatId::kGgufQ5_0:
      return body(PanelQ5G32{});
    case codec::FormatId::kGgufQ5_1:
      return body(HalfAndLow<1>{});
    case codec::FormatId::kGgufQ4K:
      return body(SixBits<0>{});
    case codec::FormatId::kGgufQ5K:
      return body(SixBits<1>{});
    case codec::FormatId::kGgufQ2K:
      return body(PanelQ2K{});
    case codec::FormatId::kQ2G64:
    case codec::FormatId::kT2G128:
    case codec::FormatId::kGgufQ2_0:
      return body(PanelQ2G64{});
    case codec::FormatId::kGgufQ3K:
      return body(PanelQ3K{});
    case codec::FormatId::kGgufIq4Nl:
      return body(PanelIq4Nl{});
    case codec::FormatId::kGgufIq4Xs:
      return body(PanelIq4Xs{});
    case codec::FormatId::kFp8RowBf16:
    case codec::FormatId::kFp8RowFp16:
    case codec::FormatId::kFp8G128:
      return body(PanelFp8<64>{});
    case codec::FormatId::kFp8G32:
    case codec::FormatId::kMxfp8:
      return body(PanelFp8<32>{});
    case codec::FormatId::kMxfp4:
      return body(PanelFp4<32>{});
    case codec::FormatId::kNvfp4:
    case codec::FormatId::kNvfp4Rows:
      return body(PanelFp4<16>{});
    case codec::FormatId::kQ4G32Bf16:
    case codec::FormatId::kU4G32Bf16:
    case codec::FormatId::kU4G32Fp16:
      return body(PanelInt4G32{});
    case codec::FormatId::kQ4G64Bf16:
    case codec::FormatId::kQ4G128Bf16:
    case codec::FormatId::kU4G64Bf16:
    case codec::FormatId::kU4G128Bf16:
    case codec::FormatId::kU4G64Fp16:
    case codec::FormatId::kU4G128Fp16:
      return body(PanelInt4G64{});
    case codec::FormatId::kI8G32Bf16:
    case codec::FormatId::kU8G32Bf16:
    case codec::FormatId::kU8G32Fp16:
      return body(PanelInt8G32{});
    case codec::FormatId::kI8RowFp32:
      return body(PanelInt8G64{});
    case codec::FormatId::kGgufQ6K:
      return body(PanelQ6K{});
    default:
      return;  // fits_panels lets nothing else in
  }
}
// The same for formats whose codes are integers or stand for some.
template <typename Body>
inline void with_integers(codec::FormatId format, const Body& body) {
  with_format(format, [&](auto panel) {
    if constexpr (!kHoldsFp8<decltype(panel)>) body(panel);
  });
}
