// What attention multiplies at levels bf16 and amx: pairs of bf16 words, for vdpbf16ps and for
// tiles. The parts of a source: words_f32.inl.h. bf16 holds every e4m3 value.

using X = uint16_t;

inline void store_queries(uint16_t* out, VF low, VF high) {
  _mm512_storeu_si512(out,
                      reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh((__m512)high, (__m512)low)));
}
// The sum is of the rounded weights: what is left out of the numerator is left out below too.
inline void store_weights(uint16_t* out, VF low, VF high, VF& sum) {
  const __m512bh words = _mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
  _mm512_storeu_si512(out, reinterpret_cast<__m512i>(words));
  const auto ones = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f80));
  sum = (VF)_mm512_dpbf16_ps((__m512)sum, words, ones);
}
// 2^x for weights, which are rounded to eight bits: 2^⌊x⌋ times a polynomial of the rest in [0, 1),
// fitted to a relative error of 2^-18.5. −inf gives 0, NaN stays.
inline VF weight_of(VF x) {
  const __m512 r = _mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF);
  VF p = splat(0.013534168f);
  p = fma(p, (VF)r, splat(0.05201146f));
  p = fma(p, (VF)r, splat(0.24144275f));
  p = fma(p, (VF)r, splat(0.69300383f));
  p = fma(p, (VF)r, splat(1.0000026f));
  return (VF)_mm512_scalef_ps((__m512)p, (__m512)x);
}

struct PairWords {
  __m512i pair[2];
};
struct PairSums {
  using Words = PairWords;
  using Factor = __m512bh;
  static constexpr int64_t kStep = 2;
  static __m512bh factor(const uint16_t* x) {
    int32_t pair;
    __builtin_memcpy(&pair, x, 4);
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
  }
  static void fold(VF* sums, __m512bh factor, const PairWords& w) {
    for (int v = 0; v < 2; ++v)
      sums[v] =
          (VF)_mm512_dpbf16_ps((__m512)sums[v], factor, reinterpret_cast<__m512bh>(w.pair[v]));
  }
};

// kSplit: sums stand as PageF8 unpacks them.
template <bool kSplit>
struct Bf16Words : PairSums {
  static constexpr graph::DType kDType = graph::DType::kBf16;
  static constexpr int64_t kSpanBytes = 128;
  static constexpr bool kCheap = true;
  static constexpr bool kLastApart = !kSplit;
  static void settle(PairWords&) {}
  static PairWords read(const std::byte* p) {
    return {{_mm512_loadu_si512(p), _mm512_loadu_si512(p + 64)}};
  }
  static void finish(VF& low, VF& high) {
    if constexpr (kSplit) {
      const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
      const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
      const __m512d a = _mm512_castps_pd((__m512)low);
      const __m512d b = _mm512_castps_pd((__m512)high);
      low = (VF)_mm512_castpd_ps(_mm512_permutex2var_pd(a, first, b));
      high = (VF)_mm512_castpd_ps(_mm512_permutex2var_pd(a, second, b));
    }
  }
};
using PageBf16 = Bf16Words<false>;

// One byte of the bf16 words of the 128 e4m3 codes without a sign: s|eeee|mmm is bf16 with exponent
// eeee + 120; subnormals, m·2^-9, are bf16 numbers of their own.
struct F8Bytes {
  constexpr explicit F8Bytes(bool upper) {
    for (int code = 0; code < 128; ++code) {
      const int m = code % 8;
      int word = (code / 8 + 120) << 7 | m << 4;
      if (code < 8)
        word = m == 0   ? 0
               : m == 1 ? 118 << 7
               : m < 4  ? 119 << 7 | (m - 2) << 6
                        : 120 << 7 | (m - 4) << 5;
      bytes[code] = static_cast<uint8_t>(upper ? word >> 8 : word);
    }
  }
  alignas(64) uint8_t bytes[128] = {};
};
inline constexpr F8Bytes kF8Upper(true), kF8Lower(false);

// The bytes of a word meet by unpacking, four words to a quarter of each vector.
struct PageF8 : PairSums {
  static constexpr graph::DType kDType = graph::DType::kF8E4M3;
  static constexpr int64_t kSpanBytes = 64;
  static constexpr bool kCheap = false;
  static constexpr bool kLastApart = false;
  using Tile = Bf16Words<true>;
  // Unpacking a step's words first and multiplying then is a fifth faster than in turn (Zen 4).
  static void settle(PairWords& w) { __asm__ volatile("" : "+v"(w.pair[0]), "+v"(w.pair[1])); }
  static __m512i look_up(const F8Bytes& table, __m512i codes) {
    return _mm512_permutex2var_epi8(_mm512_load_si512(table.bytes), codes,
                                    _mm512_load_si512(table.bytes + 64));
  }
  static PairWords read(const std::byte* p) {
    constexpr int kFirstOrBoth = 0xf8;  // a | (b & c)
    const __m512i codes = _mm512_loadu_si512(p);
    const __m512i upper = _mm512_ternarylogic_epi32(look_up(kF8Upper, codes), codes,
                                                    _mm512_set1_epi8(-128), kFirstOrBoth);
    const __m512i lower = look_up(kF8Lower, codes);
    return {{_mm512_unpacklo_epi8(lower, upper), _mm512_unpackhi_epi8(lower, upper)}};
  }
  static void finish(VF& low, VF& high) { Tile::finish(low, high); }
  static void widen(const std::byte* p, std::byte* tile, int64_t) {
    const PairWords w = read(p);
    _mm512_storeu_si512(tile, w.pair[0]);
    _mm512_storeu_si512(tile + 64, w.pair[1]);
  }
};
