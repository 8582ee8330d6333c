// From the bytes of a file to the upright picture.
#include "frontend/media/decoders.h"
#include "frontend/media/orientation.h"

namespace flare::media {

void flatten_over_white(Image& image) {
  const size_t n_pixels = size_t{image.width} * image.height;
  const uint8_t* from = image.rgb.data();
  uint8_t* to = image.rgb.data();
  for (size_t i = 0; i < n_pixels; ++i, from += 4, to += 3) {
    const uint32_t alpha = from[3], white = 255 * (255 - alpha);
    const uint32_t red = from[0], green = from[1], blue = from[2];
    to[0] = static_cast<uint8_t>(divided_by_255(red * alpha + white));
    to[1] = static_cast<uint8_t>(divided_by_255(green * alpha + white));
    to[2] = static_cast<uint8_t>(divided_by_255(blue * alpha + white));
  }
  image.rgb.resize(n_pixels * 3);
}

Image decode_image(Bytes file, const ImageLimits& limits) {
  const ImageHeader header = read_image_header(file, limits);
  const uint32_t width = header.stored_width(), height = header.stored_height();
  Image stored;
  switch (header.format) {
    case ImageFormat::kPng:
      stored = decode_png(file, width, height);
      break;
    case ImageFormat::kJpeg:
      stored = decode_jpeg(file, width, height);
      break;
    case ImageFormat::kWebp:
      stored = decode_webp(file, width, height);
      break;
  }
  return upright(std::move(stored), header.orientation);
}

}  // namespace flare::media
