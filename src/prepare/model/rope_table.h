// Rotary frequency tables: default, linear, llama3 and yarn rules.
#pragma once

#include <vector>

#include "prepare/model/binder.h"

namespace flare::prepare {

struct RopeTable {
  std::vector<float> frequencies;  // [rotary_dims / 2]
  double factor = 1;               // on cos and sin
};

// `rope` is the normalised rope_parameters object; rotary_dims is even. Rules and defaults:
// building_blocks.md §2.2, llama_qwen3.md §1.4. Errors: kBinding, kSupport (unknown rope_type).
RopeTable make_rope_table(const Config& rope, uint32_t rotary_dims);

}  // namespace flare::prepare
