// Static WebP by libwebp.
#include <webp/decode.h>

#include "frontend/media/decoders.h"

namespace flare::media {

Image decode_webp(Bytes file, uint32_t width, uint32_t height) {
  const auto* const data = reinterpret_cast<const uint8_t*>(file.data());
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config))
    throw Error(Code::kInternal, "libwebp: another version at run time than at build time");
  if (WebPGetFeatures(data, file.size(), &config.input) != VP8_STATUS_OK ||
      static_cast<uint32_t>(config.input.width) != width ||
      static_cast<uint32_t>(config.input.height) != height)
    throw ImageError(Fault::kInvalid, "WebP: its headers contradict each other");
  const bool has_alpha = config.input.has_alpha != 0;
  const size_t row = size_t{width} * (has_alpha ? 4 : 3);
  Image image{width, height, std::vector<uint8_t>(row * height)};
  config.output.colorspace = has_alpha ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {image.rgb.data(), static_cast<int>(row), image.rgb.size()};
  const VP8StatusCode status = WebPDecode(data, file.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status == VP8_STATUS_OUT_OF_MEMORY)
    throw Error(Code::kDoesNotFit, "WebP: no memory for a picture of {} × {}", width, height);
  if (status != VP8_STATUS_OK)
    throw ImageError(Fault::kInvalid, "WebP: {} data, expected whole and legal data",
                     status == VP8_STATUS_NOT_ENOUGH_DATA ? "cut-off" : "damaged");
  if (has_alpha) flatten_over_white(image);
  return image;
}

}  // namespace flare::media
