// The candidates of §8.3.
#include "codec/grouped_search.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/float_types.h"

namespace flare::codec {
namespace {

constexpr uint16_t kInfinity = 0x7c00;
constexpr int kMostValues = 256;

// Looks at scale words and remembers the best.
class Search {
 public:
  Search(const GroupMath& math, const float* x, const float* w, int n, float largest,
         ScaleRange range)
      : math_(math), w_(w), n_(n), range_(range), scaling_(largest) {
    scaling_.scale(x, n, x_);
  }

  // True if it is the best so far.
  bool look_at(uint16_t word) {
    if (word == 0 || word >= kInfinity || word == last_) return false;
    last_ = word;
    const float error = math_.error(x_, w_, n_, grid(word));
    if (!(error < best_error_)) return false;
    best_error_ = error;
    best_ = word;
    return true;
  }

  // The scale for which the best one's codes fit best, again and again while that helps.
  void refit() {
    constexpr int kRounds = 4;
    for (int i = 0; i < kRounds; ++i) {
      const GridSums sums = math_.sums(x_, w_, n_, grid(best_));
      if (!(sums.xq > 0) || !(sums.qq > 0)) return;
      if (!look_at(f32_to_fp16(scaling_.back(sums.xq / sums.qq)))) return;
    }
  }

  uint16_t best() const { return best_; }

 private:
  Grid grid(uint16_t word) const {
    Grid g = grid_of(word, range_);
    g.inverse = scaling_.back(g.inverse);
    g.step = scaling_.there(g.step);
    return g;
  }

  const GroupMath& math_;
  const float* w_;
  int n_;
  ScaleRange range_;
  Scaling scaling_;
  alignas(64) float x_[kMostValues];
  uint16_t last_ = 0, best_ = 0;
  float best_error_ = INFINITY;
};

double exact_error(const GroupMath& math, const float* x, const float* w, int n, uint16_t word,
                   ScaleRange range) {
  alignas(64) int8_t codes[kMostValues];
  math.quantise(x, n, grid_of(word, range), codes);
  const double step = fp16_to_f32(word);
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    const double miss = static_cast<double>(x[i]) - step * codes[i];
    sum += static_cast<double>(w[i]) * miss * miss;
  }
  return sum;
}

}  // namespace

Scaling::Scaling(float largest) {
  const int exponent = std::ilogb(largest);
  const int half = exponent / 2;
  up_[0] = std::ldexp(1.0f, half);
  up_[1] = std::ldexp(1.0f, exponent - half);
  down_[0] = 1 / up_[0];
  down_[1] = 1 / up_[1];
}

void Scaling::scale(const float* x, int n, float* out) const {
  for (int i = 0; i < n; ++i) out[i] = x[i] * down_[0] * down_[1];
}

uint16_t absmax_scale(float largest, ScaleRange range) {
  const uint16_t word = f32_to_fp16(largest / static_cast<float>(range.qmax));
  return word == 0 ? 1 : word;
}

Grid grid_of(uint16_t scale, ScaleRange range) {
  const float step = fp16_to_f32(scale);
  return {1.0f / step, step, 0, static_cast<float>(range.qmin), static_cast<float>(range.qmax)};
}

uint16_t search_scale(const GroupMath& math, const float* x, const float* w, int n, float largest,
                      uint16_t absmax, ScaleRange range) {
  Search search(math, x, w, n, largest, range);
  search.look_at(absmax);
  const float unit = largest / static_cast<float>(range.qmax);
  // 0.70 … 1.18. Of eight bits only the words next to the largest magnitude's are any good, but
  // outliers among unimportant columns are worth cutting off in every format.
  for (int step = 35; step <= 59; ++step)
    search.look_at(f32_to_fp16(unit * (0.02f * static_cast<float>(step))));
  search.look_at(f32_to_fp16(fp16_to_f32(absmax) * 0.5f));
  search.look_at(f32_to_fp16(fp16_to_f32(absmax) * 2));
  search.look_at(static_cast<uint16_t>(absmax - 1));
  search.look_at(static_cast<uint16_t>(absmax + 1));
  search.refit();
  const uint16_t found = search.best();
  if (found == 0 || found == absmax) return absmax;
  const bool better =
      exact_error(math, x, w, n, found, range) < exact_error(math, x, w, n, absmax, range);
  return better ? found : absmax;
}

GroupWeights::GroupWeights(const float* importance, uint64_t cols, uint64_t group)
    : uniform_(importance == nullptr), group_(group) {
  if (uniform_) {
    weights_.assign(group, 1.0f);
    return;
  }
  weights_.assign((cols + group - 1) / group * group, 0.0f);
  for (uint64_t begin = 0; begin < cols; begin += group) {
    const uint64_t n = std::min(group, cols - begin);
    const float largest = *std::max_element(importance + begin, importance + begin + n);
    const int exponent = largest > 0 ? std::ilogb(largest) : 0;
    for (uint64_t i = 0; i < n; ++i)
      weights_[begin + i] = std::ldexp(importance[begin + i], -exponent);
  }
}

}  // namespace flare::codec
