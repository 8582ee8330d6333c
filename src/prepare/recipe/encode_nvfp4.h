// nvfp4 from the rows of an imported parameter: both passes of spec/artifact.md §8.5.
#pragma once

#include <cstdint>

#include "base/team.h"
#include "prepare/import/imported_model.h"

namespace flare::prepare {

// The largest magnitude of rows [row, row+n_rows). kValue for a value that is not finite.
float largest_magnitude(const ImportedParameter& parameter, uint64_t row, uint64_t n_rows,
                        Team& team);

// Encodes rows [row, row+n_rows) as rows of an object of geometry g, from its row `object_row` on.
// The divisor is written by whoever knows the parent.
void encode_nvfp4_rows(const ImportedParameter& parameter, uint64_t row, uint64_t n_rows,
                       float divisor, codec::Geometry g, uint64_t object_row, std::byte* object,
                       Team& team);

}  // namespace flare::prepare
