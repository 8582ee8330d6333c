// Pillow's resampling for bytes (libImaging/Resample.c of Pillow 12; restated in the goldens).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "frontend/media/media.h"
#include "frontend/media/resample_kernel.h"

namespace flare::media {
namespace {

constexpr size_t kPixel = 3;
// Rows that the pass over the width takes at once: 16 rows of 3 bytes are a vector and a half.
constexpr uint32_t kTileRows = 16;
constexpr size_t kTileBytes = kTileRows * kPixel;

double support_of(Filter filter) {
  return filter == Filter::kBilinear ? 1 : filter == Filter::kBicubic ? 2 : 3;
}

double sinc(double x) {
  return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi);
}

double kernel_at(Filter filter, double x) {
  x = std::abs(x);
  switch (filter) {
    case Filter::kBilinear:
      return x < 1 ? 1 - x : 0;
    case Filter::kBicubic:  // a = −0.5
      if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
      return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
    case Filter::kLanczos:
      return x < 3 ? sinc(x) * sinc(x / 3) : 0;
  }
  FLARE_ASSERT(false);
}

// For every output along one axis: the first input and the weights of those that it uses.
struct Axis {
  struct Span {
    uint32_t first;
    int n_taps;
    size_t weights;  // index
  };
  std::vector<Span> spans;
  std::vector<int32_t> weights;
  int max_taps = 0;
  bool is_kept = false;  // as many outputs as inputs: nothing to do
};

Axis plan_axis(uint32_t n_in, uint32_t n_out, Filter filter) {
  Axis axis;
  axis.is_kept = n_in == n_out;
  if (axis.is_kept) return axis;
  const double scale = static_cast<double>(n_in) / n_out;
  const double filter_scale = std::max(scale, 1.0), step = 1.0 / filter_scale;
  const double support = support_of(filter) * filter_scale;
  std::vector<double> values;
  axis.spans.reserve(n_out);
  for (uint32_t i = 0; i < n_out; ++i) {
    const double centre = (i + 0.5) * scale;
    const auto first = static_cast<int64_t>(std::max(0.0, centre - support + 0.5));
    const auto end = std::min<int64_t>(n_in, static_cast<int64_t>(centre + support + 0.5));
    values.clear();
    double sum = 0;
    for (int64_t j = first; j < end; ++j) {
      values.push_back(kernel_at(filter, (static_cast<double>(j) - centre + 0.5) * step));
      sum += values.back();
    }
    const auto n_taps = static_cast<int>(values.size());
    axis.spans.push_back({static_cast<uint32_t>(first), n_taps, axis.weights.size()});
    axis.max_taps = std::max(axis.max_taps, n_taps);
    for (const double value : values) {
      const double scaled = (sum != 0 ? value / sum : value) * (1 << kWeightBits);
      axis.weights.push_back(static_cast<int32_t>(scaled + (scaled < 0 ? -0.5 : 0.5)));
    }
  }
  return axis;
}

// Resizes rows [first, first + n) of the image along the width, n <= kTileRows. Inputs and outputs
// pass through tiles that hold a column of those rows as neighbours, so that one loop serves both
// axes.
class RowResizer {
 public:
  RowResizer(const Image& image, const Axis& axis) : image_(image), axis_(axis) {
    if (!axis.is_kept) tile_.resize(image.width * kTileBytes);
  }
  void run(uint32_t first, uint32_t n, uint8_t* out, size_t out_row) {
    const size_t in_row = image_.width * kPixel;
    const uint8_t* const in = image_.rgb.data() + first * in_row;
    if (axis_.is_kept) {
      std::memcpy(out, in, n * in_row);
      return;
    }
    for (uint32_t y = 0; y < n; ++y) {
      const uint8_t* from = in + y * in_row;
      uint8_t* to = tile_.data() + y * kPixel;
      for (uint32_t x = 0; x < image_.width; ++x, from += kPixel, to += kTileBytes)
        std::memcpy(to, from, kPixel);
    }
    uint8_t column[kTileBytes];
    for (size_t x = 0; x < axis_.spans.size(); ++x) {
      const Axis::Span& span = axis_.spans[x];
      weigh_(axis_.weights.data() + span.weights, span.n_taps,
             tile_.data() + span.first * kTileBytes, kTileBytes, n * kPixel, column);
      for (uint32_t y = 0; y < n; ++y)
        std::memcpy(out + y * out_row + x * kPixel, column + y * kPixel, kPixel);
    }
  }

 private:
  const Image& image_;
  const Axis& axis_;
  const WeighRows weigh_ = weigh_rows();
  std::vector<uint8_t> tile_;
};

// The rows of the result's width that the pass over the height still needs: a window that slides
// down the image.
class RowWindow {
 public:
  RowWindow(const Image& image, const Axis& across, int max_taps, size_t row_bytes)
      : resizer_(image, across), height_(image.height), row_bytes_(row_bytes) {
    const uint64_t wanted = 2 * (static_cast<uint64_t>(max_taps) + kTileRows);
    capacity_ = static_cast<uint32_t>(std::min<uint64_t>(height_, wanted));
    rows_.resize(capacity_ * row_bytes);
  }
  // Rows [first, first + n) as neighbours; `first` never falls.
  const uint8_t* rows(uint32_t first, uint32_t n) {
    while (end_ < first + n) {
      const uint32_t n_new = std::min(kTileRows, height_ - end_);
      if (end_ + n_new - begin_ > capacity_) drop_before(first);
      resizer_.run(end_, n_new, rows_.data() + (end_ - begin_) * row_bytes_, row_bytes_);
      end_ += n_new;
    }
    return rows_.data() + (first - begin_) * row_bytes_;
  }

 private:
  void drop_before(uint32_t first) {
    const uint32_t kept_from = std::min(first, end_);
    std::memmove(rows_.data(), rows_.data() + (kept_from - begin_) * row_bytes_,
                 (end_ - kept_from) * row_bytes_);
    begin_ = kept_from;
  }

  RowResizer resizer_;
  const uint32_t height_;
  const size_t row_bytes_;
  uint32_t capacity_ = 0;
  uint32_t begin_ = 0;  // rows [begin_, end_) are held
  uint32_t end_ = 0;
  std::vector<uint8_t> rows_;
};

}  // namespace

Image resize(const Image& image, uint32_t height, uint32_t width, Filter filter) {
  FLARE_ASSERT(image.width > 0 && image.height > 0 && width > 0 && height > 0);
  if (width == image.width && height == image.height) return image;
  const size_t row_bytes = size_t{width} * kPixel;
  Image out{width, height, std::vector<uint8_t>(row_bytes * height)};
  const Axis across = plan_axis(image.width, width, filter);
  const Axis down = plan_axis(image.height, height, filter);
  if (down.is_kept) {
    RowResizer resizer(image, across);
    for (uint32_t y = 0; y < height; y += kTileRows)
      resizer.run(y, std::min(kTileRows, height - y), out.rgb.data() + y * row_bytes, row_bytes);
    return out;
  }
  RowWindow window(image, across, down.max_taps, row_bytes);
  const WeighRows weigh = weigh_rows();
  for (uint32_t y = 0; y < height; ++y) {
    const Axis::Span& span = down.spans[y];
    const uint8_t* const rows = window.rows(span.first, static_cast<uint32_t>(span.n_taps));
    weigh(down.weights.data() + span.weights, span.n_taps, rows, row_bytes, row_bytes,
          out.rgb.data() + y * row_bytes);
  }
  return out;
}

}  // namespace flare::media
