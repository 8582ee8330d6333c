// What attention multiplies at levels without bf16 products: page words widened to binary32.
//
// A source S reads one step of a sum for a span of 2·kLanes tokens or columns: one element of each,
// or a pair of narrow ones (kernel/kv_write.h).
//   S::kStep   elements that a step sums over       S::kSpanBytes  bytes of a span's step
//   S::read    the words of a span                  S::factor      x[0..kStep) in every lane
//   S::fold    sums += factor·words                 S::settle      holds reading before folding
//   S::kLastApart  the last step's words may lie elsewhere than behind those before
//   S::finish  brings sums to order and scale       S::kCheap      reading costs next to nothing
//   S::Tile    cheap words of the same values, which S::widen makes, for many rows

using X = float;

// Weights of 2·kLanes tokens; sum gets what is stored.
inline void store_weights(float* out, VF low, VF high, VF& sum) {
  store(out, low);
  store(out + kLanes, high);
  sum += low + high;
}
inline void store_queries(float* out, VF low, VF high) {
  store(out, low);
  store(out + kLanes, high);
}
// 2^x for weights.
inline VF weight_of(VF x) { return exp2(x); }

// Sums of words that stand 2^kExponent too low.
template <int kExponent>
inline void raise(VF& low, VF& high) {
  if constexpr (kExponent != 0) {
    low = low * splat(1 << kExponent);
    high = high * splat(1 << kExponent);
  }
}

template <int kExponent>
struct Singles {
  static constexpr graph::DType kDType = graph::DType::kF32;
  static constexpr int64_t kStep = 1;
  static constexpr int64_t kSpanBytes = 2 * kLanes * 4;
  static constexpr bool kCheap = true;
  struct Words {
    VF lanes[2];
  };
  static Words read(const std::byte* p) {
    const float* in = reinterpret_cast<const float*>(p);
    return {{load(in), load(in + kLanes)}};
  }
  static constexpr bool kLastApart = false;
  using Factor = VF;
  static void settle(Words&) {}
  static VF factor(const float* x) { return splat(x[0]); }
  static void fold(VF* sums, VF factor, const Words& w) {
    sums[0] = fma(factor, w.lanes[0], sums[0]);
    sums[1] = fma(factor, w.lanes[1], sums[1]);
  }
  static void finish(VF& low, VF& high) { raise<kExponent>(low, high); }
};
using PageF32 = Singles<0>;

// What pairs of words have in common; From::read widens them, 2^kExponent too low.
template <class From, int kExponent>
struct Pairs {
  static constexpr int64_t kStep = 2;
  static constexpr bool kCheap = false;
  struct Words {
    VF even[2];
    VF odd[2];
  };
  using Tile = Singles<kExponent>;
  struct Factor {
    VF even;
    VF odd;
  };
  static void settle(Words&) {}
  static Factor factor(const float* x) { return {splat(x[0]), splat(x[1])}; }
  static void fold(VF* sums, const Factor& factor, const Words& w) {
    for (int v = 0; v < 2; ++v)
      sums[v] = fma(factor.odd, w.odd[v], fma(factor.even, w.even[v], sums[v]));
  }
  static void finish(VF& low, VF& high) { raise<kExponent>(low, high); }
  // One step of one span into a tile of `stride` bytes a step.
  static void widen(const std::byte* p, std::byte* tile, int64_t stride) {
    const Words w = From::read(p);
    float* even = reinterpret_cast<float*>(tile);
    float* odd = reinterpret_cast<float*>(tile + stride);
    store(even, w.even[0]);
    store(even + kLanes, w.even[1]);
    store(odd, w.odd[0]);
    store(odd + kLanes, w.odd[1]);
  }
};

struct PageBf16 : Pairs<PageBf16, 0> {
  static constexpr graph::DType kDType = graph::DType::kBf16;
  static constexpr bool kLastApart = true;
  static constexpr int64_t kSpanBytes = 2 * kLanes * 4;
  static Words read(const std::byte* p) {
    VI pair[2];
    __builtin_memcpy(pair, p, sizeof pair);
    const VI upper = VI{} + static_cast<int32_t>(0xffff0000);
    return {{(VF)(pair[0] << 16), (VF)(pair[1] << 16)},
            {(VF)(pair[0] & upper), (VF)(pair[1] & upper)}};
  }
};

#if FLARE_LANES == 4
struct PageF8 : Pairs<PageF8, 0> {
  static constexpr graph::DType kDType = graph::DType::kF8E4M3;
  static constexpr bool kLastApart = false;
  static constexpr int64_t kSpanBytes = 2 * kLanes * 2;
  static VF widened(__m128i codes) {
    const VI magnitude = (VI)codes & 0x7f;
    const VF small = (VF)((magnitude << 20) + (121 << 23)) - splat(0x1p-6f);
    const VI word = magnitude < 8 ? (VI)small : (magnitude << 20) + (120 << 23);
    return (VF)(word | (((VI)codes & 0x80) << 24));
  }
  static Words read(const std::byte* p) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i even = _mm_and_si128(codes, _mm_set1_epi16(0xff));
    const __m128i odd = _mm_srli_epi16(codes, 8);
    const __m128i zero = _mm_setzero_si128();
    return {{widened(_mm_unpacklo_epi16(even, zero)), widened(_mm_unpackhi_epi16(even, zero))},
            {widened(_mm_unpacklo_epi16(odd, zero)), widened(_mm_unpackhi_epi16(odd, zero))}};
  }
};
#else
// As binary16, whose bias is 8 larger, an e4m3 word s|eeee|mmm is s0eeeemmm0000000: 2^8 too low,
// subnormals included.
struct PageF8 : Pairs<PageF8, 8> {
  static constexpr graph::DType kDType = graph::DType::kF8E4M3;
  static constexpr bool kLastApart = false;
  static constexpr int64_t kSpanBytes = 2 * kLanes * 2;
#if FLARE_LANES == 16
  static VF low(__m512i v) { return (VF)_mm512_cvtph_ps(_mm512_castsi512_si256(v)); }
  static VF high(__m512i v) { return (VF)_mm512_cvtph_ps(_mm512_extracti64x4_epi64(v, 1)); }
  static Words read(const std::byte* p) {
    const __m512i mask = _mm512_set1_epi16(static_cast<int16_t>(0xbf80));
    const __m512i codes = _mm512_loadu_si512(p);
    const __m512i even = _mm512_and_si512(_mm512_srai_epi16(_mm512_slli_epi16(codes, 8), 1), mask);
    const __m512i odd = _mm512_and_si512(_mm512_srai_epi16(codes, 1), mask);
    return {{low(even), high(even)}, { low(odd), high(odd) }};
  }
#else
  static VF low(__m256i v) { return (VF)_mm256_cvtph_ps(_mm256_castsi256_si128(v)); }
  static VF high(__m256i v) { return (VF)_mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)); }
  static Words read(const std::byte* p) {
    const __m256i mask = _mm256_set1_epi16(static_cast<int16_t>(0xbf80));
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i even = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(codes, 8), 1), mask);
    const __m256i odd = _mm256_and_si256(_mm256_srai_epi16(codes, 1), mask);
    return {{low(even), high(even)}, {low(odd), high(odd)}};
  }
#endif
};
#endif
