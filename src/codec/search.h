// Encoders that look for better scales (artifact.md §8.3, and ggml's K-quants).
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/format.h"

namespace flare::codec {

// Format::encode with a search for scales: Σ importance[c]·(error of column c)² of a group is never
// above that of Format::encode. `importance` holds g.cols finite weights >= 0, or is null for ones.
// Everything else as Format::encode.
using Search = void (*)(const float* src, uint64_t n_rows, Geometry g, const float* importance,
                        std::byte* const* dst);

// Null for formats without a search. The Format::encode of K-quants is the search with ones.
Search search_of(FormatId id);

}  // namespace flare::codec
