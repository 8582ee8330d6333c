// Bodies of group_math.h for one level, with vectors of FLARE_LANES values.

typedef float Vec __attribute__((vector_size(4 * FLARE_LANES), aligned(4), may_alias));
typedef int32_t IntVec __attribute__((vector_size(4 * FLARE_LANES), aligned(4), may_alias));
typedef int8_t ByteVec __attribute__((vector_size(FLARE_LANES), aligned(1), may_alias));
constexpr int kParts = kLanes / FLARE_LANES;

// Adding 1.5·2^23 leaves the nearest even integer in the low bits of the word.
constexpr float kRound = 0x1.8p23f;

FLARE_ALWAYS_INLINE inline Vec load(const float* p) { return *reinterpret_cast<const Vec*>(p); }
FLARE_ALWAYS_INLINE inline Vec code_of(Vec x, const Grid& grid) {
  const Vec zero = {};
  Vec q = ((x + grid.shift) * grid.inverse + kRound) - kRound;
  q = q < grid.low ? zero + grid.low : q;
  return q > grid.high ? zero + grid.high : q;
}

// One sum of sixteen lanes, in parts of one vector.
struct Sum {
  Vec part[kParts] = {};
  FLARE_ALWAYS_INLINE float total() const {
    float lanes[kLanes];
    __builtin_memcpy(lanes, part, sizeof lanes);
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    return lanes[0];
  }
};

int32_t top(const float* x, int n) {
  IntVec best[kParts] = {};
  for (int i = 0; i < n; i += kLanes)
    for (int p = 0; p < kParts; ++p) {
      const IntVec word = *reinterpret_cast<const IntVec*>(x + i + p * FLARE_LANES) & 0x7fffffff;
      best[p] = word > best[p] ? word : best[p];
    }
  int32_t lanes[kLanes];
  __builtin_memcpy(lanes, best, sizeof lanes);
  int32_t result = 0;
  for (int l = 0; l < kLanes; ++l) result = lanes[l] > result ? lanes[l] : result;
  return result;
}

void quantise(const float* x, int n, const Grid& given, int8_t* codes) {
  const Grid grid = given;  // stores cannot change it
  for (int i = 0; i < n; i += FLARE_LANES) {
    const IntVec word = __builtin_convertvector(code_of(load(x + i), grid), IntVec);
    *reinterpret_cast<ByteVec*>(codes + i) = __builtin_convertvector(word, ByteVec);
  }
}

float error(const float* x, const float* w, int n, const Grid& given) {
  const Grid grid = given;  // stores cannot change it
  Sum sum;
  for (int i = 0; i < n; i += kLanes)
    for (int p = 0; p < kParts; ++p) {
      const int at = i + p * FLARE_LANES;
      const Vec value = load(x + at);
      const Vec miss = (value + grid.shift) - code_of(value, grid) * grid.step;
      sum.part[p] += load(w + at) * (miss * miss);
    }
  return sum.total();
}

GridSums sums(const float* x, const float* w, int n, const Grid& given) {
  const Grid grid = given;  // stores cannot change it
  Sum q_sum, qq_sum, xq_sum;
  for (int i = 0; i < n; i += kLanes)
    for (int p = 0; p < kParts; ++p) {
      const int at = i + p * FLARE_LANES;
      const Vec value = load(x + at);
      const Vec q = code_of(value, grid);
      const Vec weighted = load(w + at) * q;
      q_sum.part[p] += weighted;
      qq_sum.part[p] += weighted * q;
      xq_sum.part[p] += weighted * (value + grid.shift);
    }
  return {q_sum.total(), qq_sum.total(), xq_sum.total()};
}

void moments(const float* x, const float* w, int n, float* sum_w, float* sum_wx) {
  Sum plain, weighted;
  for (int i = 0; i < n; i += kLanes)
    for (int p = 0; p < kParts; ++p) {
      const int at = i + p * FLARE_LANES;
      plain.part[p] += load(w + at);
      weighted.part[p] += load(w + at) * load(x + at);
    }
  *sum_w = plain.total();
  *sum_wx = weighted.total();
}

constexpr GroupMath kMath = {top, quantise, error, sums, moments};
