// Segments put together to one matrix, and its rows as numbers.
#include "codec/matrix.h"

#include "base/error.h"
#include "codec/panels.h"

namespace flare::codec {

void append_segment(Matrix& matrix, const Segment& segment) {
  FLARE_ASSERT(segment.row_begin <= segment.row_end && segment.row_end <= segment.geometry.rows);
  FLARE_ASSERT(matrix.segments.empty() || matrix.cols == segment.geometry.cols);
  if (segment.rows() == 0) return;
  matrix.cols = segment.geometry.cols;
  matrix.rows += segment.rows();
  if (!matrix.segments.empty()) {
    Segment& last = matrix.segments.back();
    if (last.object == segment.object && last.geometry == segment.geometry &&
        last.format == segment.format && last.layout == segment.layout &&
        last.row_end == segment.row_begin) {
      last.row_end = segment.row_end;
      return;
    }
  }
  matrix.segments.push_back(segment);
}

void decode_columns(const Segment& segment, uint64_t row, uint64_t col, uint64_t n_cols,
                    float* out) {
  if (segment.layout == LayoutId::kPanels16)
    return decode_panels(segment.format, segment.object, segment.geometry, row, col, n_cols, out);
  format(segment.format).decode(segment.object, segment.geometry, row, col, n_cols, out);
}

void decode_row(const Matrix& matrix, uint64_t row, float* out) {
  FLARE_ASSERT(row < matrix.rows);
  for (const Segment& segment : matrix.segments) {
    if (row < segment.rows()) {
      decode_columns(segment, segment.row_begin + row, 0, matrix.cols, out);
      return;
    }
    row -= segment.rows();
  }
}

}  // namespace flare::codec
