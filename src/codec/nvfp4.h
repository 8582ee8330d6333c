// nvfp4 from real values (artifact.md §8.5): two passes over the whole parent.
#pragma once

#include <cstdint>

#include "codec/format.h"

namespace flare::codec {

// The divisor of a parent whose largest magnitude is `largest`. Errors: kValue if there is none.
float nvfp4_divisor(float largest);

// Writes codes and scales of rows [row, row + n_rows) of an object of geometry g (one divisor);
// `src` holds these rows. Different rows may be written at once. Errors: kValue for a value that is
// not finite.
void nvfp4_encode_rows(const float* src, uint64_t row, uint64_t n_rows, Geometry g, float divisor,
                       std::byte* object);
// Writes the divisors, g.divisors of them.
void nvfp4_set_divisors(Geometry g, const float* divisors, std::byte* object);

// Where the scale of columns [16·group, 16·group + 16) of a row lies, from the first scale on.
uint64_t nvfp4_scale_offset(Geometry g, uint64_t row, uint64_t group);

}  // namespace flare::codec
