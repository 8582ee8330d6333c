// The two spellings of rotary settings in config.json, made one.
#pragma once

#include "base/json/json.h"
#include "prepare/import/config_reader.h"

namespace flare::prepare {

// One object out of `rope_parameters`, or `rope_scaling` with `rope_theta` and
// `partial_rotary_factor` at top level. "type" becomes "rope_type"; nulls are dropped; two
// spellings of one member must agree (kBinding).
Json merged_rope(ConfigReader& config);

// Rotary settings of an architecture that rotates the whole head. The result has rope_type,
// rope_theta and exactly the members of that type:
//   default  –
//   linear   factor
//   llama3   factor, low_freq_factor, high_freq_factor, original_max_position_embeddings
//   yarn     factor, original_max_position_embeddings, beta_fast, beta_slow, truncate, and, where
//            the source has them, attention_factor, mscale, mscale_all_dim
// Errors: kSupport for another type, kBinding for a wrong or unknown member.
Json plain_rope(ConfigReader& config, double default_theta, uint64_t max_positions);

}  // namespace flare::prepare
