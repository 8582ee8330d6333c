// Which rows run in the next step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace flare::runtime {

struct ScheduleLimits {
  uint32_t max_rows = 0;       // in one step
  uint32_t prefill_chunk = 0;  // prompt rows in one step, over all sequences
};

// remaining[i]: rows that sequence i has yet to compute (1 while decoding, more while its prompt is
// read). Returns the rows each sequence runs in this step, 0 for none. Decode rows come first, so a
// running answer never waits for a prompt; prompts share what is left in the order given.
std::vector<uint32_t> schedule_rows(std::span<const uint32_t> remaining,
                                    const ScheduleLimits& limits);

}  // namespace flare::runtime
