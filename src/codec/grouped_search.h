// Scales of one group of signed codes: grouped_absmax (artifact.md §8.2), and the search of §8.3.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/group_math.h"

namespace flare::codec {

struct ScaleRange {
  int32_t qmin, qmax;
};

// The word of §8.2 steps 2 and 3 for a largest magnitude > 0; 0x7c00 where the group is refused.
uint16_t absmax_scale(float largest, ScaleRange range);
// §8.2 steps 4 and 5.
Grid grid_of(uint16_t scale, ScaleRange range);

// Values multiplied by the power of two that brings their largest magnitude into [1, 2): squares
// then neither overflow nor vanish. In two factors, for one may be beyond binary32.
class Scaling {
 public:
  explicit Scaling(float largest);  // > 0
  float there(float x) const { return x * down_[0] * down_[1]; }
  float back(float x) const { return x * up_[0] * up_[1]; }
  void scale(const float* x, int n, float* out) const;

 private:
  float up_[2], down_[2];
};

// The scale word whose codes miss the n values least, errors weighted by w (ones: plain squares);
// `absmax` itself unless another one's Σ w·(x − s·q)² in binary64 is strictly smaller. Positive and
// finite. `largest` is the largest |x|, `absmax` its word.
uint16_t search_scale(const GroupMath& math, const float* x, const float* w, int n, float largest,
                      uint16_t absmax, ScaleRange range);

// The weights of a row's columns by groups, padded with zeros; those of a group are scaled by a
// power of two so that the largest lies in [1, 2).
class GroupWeights {
 public:
  // `importance` holds `cols` weights, or is null for ones.
  GroupWeights(const float* importance, uint64_t cols, uint64_t group);
  const float* of_group(uint64_t index) const {
    return weights_.data() + (uniform_ ? 0 : index * group_);
  }

 private:
  bool uniform_;
  uint64_t group_;
  std::vector<float> weights_;
};

}  // namespace flare::codec
