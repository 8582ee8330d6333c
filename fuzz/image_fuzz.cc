// Fuzz target of images: header and decoder agree, and what was decoded can be resized.
#include <cstdint>

#include "frontend/media/media.h"
#include "require.h"

namespace {

using namespace flare::media;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const flare::Bytes file(reinterpret_cast<const std::byte*>(data), size);
  // Small pictures, for many of them a second.
  const ImageLimits limits{.max_bytes = 1 << 20, .max_pixels = 1 << 17, .max_side = 2048};
  try {
    const ImageHeader header = read_image_header(file, limits);
    const Image image = decode_image(file, limits);
    require(image.width == header.width && image.height == header.height);
    require(image.rgb.size() == size_t{image.width} * image.height * 3);
    require(resize(image, 9, 7, Filter::kBicubic).rgb.size() == 9 * 7 * 3);
  } catch (const ImageError&) {
  }
  return 0;
}
