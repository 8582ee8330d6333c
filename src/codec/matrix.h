// A weight as kernels see it: row segments of stored tensors, in place, of any format.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/format.h"

namespace flare::codec {

// Rows [row_begin, row_end) of one stored tensor.
struct Segment {
  const std::byte* object = nullptr;  // first byte of the encoded parent, any alignment
  Geometry geometry;                  // of the parent
  FormatId format = FormatId::kBf16;
  LayoutId layout = LayoutId::kContiguousLe;
  uint64_t row_begin = 0;
  uint64_t row_end = 0;
  uint64_t rows() const { return row_end - row_begin; }
};

// A logical [rows, cols] matrix: its segments' rows one after the other. Every segment has
// geometry.cols == cols. Owns nothing; whoever made it keeps the bytes alive.
struct Matrix {
  std::vector<Segment> segments;
  uint64_t rows = 0;
  uint64_t cols = 0;
};

// Appends a segment and its rows; joins it with the last one where they are neighbours.
void append_segment(Matrix& matrix, const Segment& segment);
// Exact values of columns [col, col + n_cols) of parent row `row`, whatever the layout; col as for
// Format::decode.
void decode_columns(const Segment& segment, uint64_t row, uint64_t col, uint64_t n_cols,
                    float* out);
// out[0..cols) = exact values of one row of the logical matrix.
void decode_row(const Matrix& matrix, uint64_t row, float* out);

}  // namespace flare::codec
