// The eight orientations (EXIF 2.3 §4.6.4, tag 0x0112).
#include "frontend/media/orientation.h"

#include <algorithm>
#include <cstring>

namespace flare::media {
namespace {

constexpr size_t kPixel = 3;
constexpr uint32_t kTile = 32;  // 32 rows of 96 bytes each stay in the first cache

void mirror_rows(Image& image) {
  for (uint32_t y = 0; y < image.height; ++y) {
    uint8_t* left = image.rgb.data() + size_t{y} * image.width * kPixel;
    uint8_t* right = left + (image.width - 1) * kPixel;
    for (; left < right; left += kPixel, right -= kPixel)
      std::swap_ranges(left, left + kPixel, right);
  }
}

void reverse_row_order(Image& image) {
  const size_t row = image.width * kPixel;
  uint8_t* const data = image.rgb.data();
  for (uint32_t y = 0; y < image.height / 2; ++y)
    std::swap_ranges(data + y * row, data + (y + 1) * row, data + (image.height - 1 - y) * row);
}

// Column x of the picture becomes row x.
Image transposed(const Image& image) {
  Image out{image.height, image.width, std::vector<uint8_t>(image.rgb.size())};
  for (uint32_t y0 = 0; y0 < image.height; y0 += kTile) {
    const uint32_t y1 = std::min(image.height, y0 + kTile);
    for (uint32_t x0 = 0; x0 < image.width; x0 += kTile) {
      const uint32_t x1 = std::min(image.width, x0 + kTile);
      for (uint32_t x = x0; x < x1; ++x) {
        uint8_t* to = out.rgb.data() + (size_t{x} * out.width + y0) * kPixel;
        for (uint32_t y = y0; y < y1; ++y, to += kPixel)
          std::memcpy(to, image.rgb.data() + (size_t{y} * image.width + x) * kPixel, kPixel);
      }
    }
  }
  return out;
}

}  // namespace

Image upright(Image image, int orientation) {
  if (image.rgb.empty()) return image;
  if (orientation > 4) image = transposed(image);
  // What remains after the transposition: 2 and 6 mirror, 3 and 7 turn by half, 4 and 8 flip.
  const bool mirrors = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool flips = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  if (mirrors) mirror_rows(image);
  if (flips) reverse_row_order(image);
  return image;
}

}  // namespace flare::media
