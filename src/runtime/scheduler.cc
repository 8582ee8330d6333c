// Decode rows first, then prompt chunks in order of arrival.
#include "runtime/scheduler.h"

#include <algorithm>

namespace flare::runtime {

std::vector<uint32_t> schedule_rows(std::span<const uint32_t> remaining,
                                    const ScheduleLimits& limits) {
  std::vector<uint32_t> rows(remaining.size(), 0);
  uint32_t left = limits.max_rows;
  for (size_t i = 0; i < remaining.size(); ++i)
    if (remaining[i] == 1 && left > 0) {
      rows[i] = 1;
      --left;
    }
  uint32_t chunk = std::min(left, limits.prefill_chunk);
  for (size_t i = 0; i < remaining.size() && chunk > 0; ++i)
    if (remaining[i] > 1) {
      rows[i] = std::min(remaining[i], chunk);
      chunk -= rows[i];
    }
  return rows;
}

}  // namespace flare::runtime
