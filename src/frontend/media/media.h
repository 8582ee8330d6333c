// Images of requests: from a data URL to upright RGB bytes, and to any size (serving.md S11).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace flare::media {

// What ends a request because of its image; the name is the wire's error code (serving.md S3).
enum class Fault {
  kInvalid,      // invalid_image
  kUnsupported,  // unsupported_image_format
  kTooLarge,     // image_too_large
  kRemote,       // remote_image_not_allowed
};
std::string_view fault_name(Fault fault);

// An Error of code kInvalid that also carries the wire's code. Its message never quotes bytes of an
// image; callers put the message part in front (add_context).
class ImageError : public Error {
 public:
  template <typename... Args>
  ImageError(Fault fault, fmt::format_string<Args...> text, Args&&... args)
      : Error(Code::kInvalid, text, std::forward<Args>(args)...), fault_(fault) {}
  Fault fault() const { return fault_; }
  std::string_view wire_code() const { return fault_name(fault_); }

 private:
  Fault fault_;
};

// What is refused by the size of the file and the numbers in its header, before decoding.
struct ImageLimits {
  uint64_t max_bytes = uint64_t{32} << 20;
  uint64_t max_pixels = 64'000'000;
  uint32_t max_side = 16'384;
  double max_aspect_ratio = 0;  // longer side : shorter side, itself allowed; 0: any
};

enum class ImageFormat { kPng, kJpeg, kWebp };

// What the first bytes of an image say about it.
struct ImageHeader {
  ImageFormat format = ImageFormat::kPng;
  uint32_t width = 0;  // upright, so after orientation
  uint32_t height = 0;
  int orientation = 1;  // EXIF 1 … 8; broken or absent is 1
  uint32_t stored_width() const { return orientation > 4 ? height : width; }
  uint32_t stored_height() const { return orientation > 4 ? width : height; }
};

// Rows from top to bottom, three bytes R G B per pixel, no padding.
struct Image {
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<uint8_t> rgb;
};

// The bytes of base64 text: the standard alphabet, white space anywhere, padding complete, short or
// absent. Faults: kInvalid (junk, a cut-off end, nothing), kTooLarge (more than max_bytes; stops
// there).
std::vector<std::byte> decode_base64(std::string_view text,
                                     uint64_t max_bytes = ImageLimits().max_bytes);

// The bytes of "data:…;base64,…", or of bare base64. The media type is not looked at.
// Faults: those of decode_base64; kRemote for every other scheme; kInvalid for data that is not
// base64.
std::vector<std::byte> parse_data_url(std::string_view url,
                                      uint64_t max_bytes = ImageLimits().max_bytes);

// Format by content, size and orientation. Allocates nothing; time is linear in the file.
// Faults, in this order: kTooLarge (bytes), kUnsupported (names the format), kInvalid (no image,
// cut off, a side of zero), kTooLarge (side, pixels, aspect ratio), kUnsupported ("animated").
ImageHeader read_image_header(Bytes file, const ImageLimits& limits = {});

// The upright picture: alpha over white, 16 bits keep the high byte, grey and palette expand, CMYK
// and YCCK are read as Adobe writes them, colour profiles are ignored. The transparent colour of a
// PNG (tRNS) is compared with samples as stored, as PNG 1.2 §4.2.1.1 says; Pillow scales grey of 2
// and 4 bits first and misses it. Memory: at most some 14
// bytes per pixel besides the file; time is bounded by file and pixels. Faults: those of
// read_image_header; kInvalid for damaged or cut-off data; kUnsupported for kinds of JPEG without a
// decoder.
Image decode_image(Bytes file, const ImageLimits& limits = {});

enum class Filter { kBilinear, kBicubic, kLanczos };

// Pillow 12's Image.resize, byte for byte: antialiased, weights of 22 bits, the width first,
// rounded to bytes in between; an axis that keeps its size is left alone. Both sides of image and
// result at least 1. Besides the result it holds the weights and a window of rows.
Image resize(const Image& image, uint32_t height, uint32_t width, Filter filter);

}  // namespace flare::media
