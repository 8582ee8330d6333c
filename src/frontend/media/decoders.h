// One decoder per file format: pixels as stored, before orientation.
#pragma once

#include "frontend/media/media.h"

namespace flare::media {

// The size was read from the same file and checked; a decoder that finds another one refuses.
// Faults: kInvalid, kUnsupported.
Image decode_png(Bytes file, uint32_t width, uint32_t height);
Image decode_jpeg(Bytes file, uint32_t width, uint32_t height);
Image decode_webp(Bytes file, uint32_t width, uint32_t height);

// Pixels R G B A of `image.rgb`, which holds four bytes for each, composited over white to three:
// (c·a + 255·(255−a)) / 255 to nearest.
void flatten_over_white(Image& image);

// a / 255 to nearest for 0 <= a <= 65,790 (three additions instead of a division).
constexpr uint32_t divided_by_255(uint32_t a) {
  const uint32_t half = a + 128;
  return (half + (half >> 8)) >> 8;
}

}  // namespace flare::media
