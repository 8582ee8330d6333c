// Rows of an imported parameter: read from the source tensors as real values, or encoded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/team.h"
#include "prepare/import/imported_model.h"

namespace flare::prepare {

// Where rows of an encoded object go, plane by plane.
struct PlaneRows {
  std::byte* plane[codec::kMaxPlanes] = {};
};

codec::Geometry geometry_of(const ImportedParameter& parameter);

// out[0 .. n_rows·cols) = rows [row, row+n_rows) as binary32 (§8: nearest, f64 included).
void read_rows(const ImportedParameter& parameter, uint64_t row, uint64_t n_rows, float* out);

// Whether encode_rows leaves the columns in the source's order: where words are copied in blocks
// wider than the runs of columns that would move, no column can. The parameter's uses then need
// input_columns.
bool keeps_source_columns(const ImportedParameter& parameter, const codec::Format& format);

// For each column of the encoded rows the column of the use's input that it multiplies (§10.3);
// empty: the same one.
std::vector<int32_t> input_columns(const ImportedParameter& parameter, const codec::Format& format);

// Encodes rows [row, row+n_rows) in `format`; dst points at the first encoded byte of `row` in each
// plane. Words of the same type are copied unchanged (§8.1). The bytes do not depend on the team's
// size. kValue names the parameter for a value that the format refuses, in copied blocks as well.
void encode_rows(const ImportedParameter& parameter, const codec::Format& format, uint64_t row,
                 uint64_t n_rows, const PlaneRows& dst, Team& team);

// Gives back the source pages that lie wholly in rows [begin, end), which were read.
void release_rows(const checkpoint::Checkpoint& checkpoint, const ImportedParameter& parameter,
                  uint64_t begin, uint64_t end);

}  // namespace flare::prepare
