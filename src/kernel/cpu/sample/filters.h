// The filters between temperature and draw, each on what the ones before it left (sample.h).
#pragma once

#include "kernel/cpu/sample/ranking.h"

namespace flare::kernel::sampling {

// What is left of a row: ranks first … last − 1 of its ranking, and the sum of their weights.
struct Kept {
  static constexpr int64_t kAll = -1;  // as `last`: to the end of the ranking
  int64_t first = 0;
  int64_t last = kAll;
  double mass = 0;

  bool has(int64_t rank, Ranking& ranking) const {
    return (last == kAll || rank < last) && ranking.has(rank);
  }
};

// Never empty. `coin` in (0,1) decides whether XTC acts.
Kept apply_filters(Ranking& ranking, const SampleParams& params, double coin);

}  // namespace flare::kernel::sampling
