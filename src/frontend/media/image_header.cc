// Says what an image is before anything is decoded, and refuses what may not be.
#include <webp/decode.h>

#include <algorithm>
#include <initializer_list>

#include "frontend/media/containers.h"
#include "frontend/media/exif.h"
#include "frontend/media/media.h"

namespace flare::media {
namespace {

bool begins(std::string_view text, std::initializer_list<std::string_view> marks) {
  return std::ranges::any_of(marks, [&](std::string_view mark) { return text.starts_with(mark); });
}

// The name of an ISO media file (ISO 14496-12 §4.3) by its brands, or nothing.
std::string_view iso_media_name(std::string_view text) {
  if (text.size() < 12 || text.substr(4, 4) != "ftyp") return {};
  const size_t end =
      std::min<size_t>(load_be32(as_bytes(text)), std::min<size_t>(text.size(), 256));
  // The major brand, then (behind a version) those it is compatible with.
  for (size_t at = 8; at + 4 <= end; at += at == 8 ? 8 : 4) {
    const std::string_view brand = text.substr(at, 4);
    if (begins(brand, {"avif", "avis"})) return "AVIF";
    if (begins(brand, {"heic", "heix", "heim", "heis", "hevc", "hevx", "hevm", "hevs"}))
      return "HEIC";
    if (begins(brand, {"jxl "})) return "JPEG XL";
  }
  return begins(text.substr(8), {"mif1", "msf1"}) ? "HEIF" : "ISO media";
}

// Whether it is an SVG: its first element, behind white space, comments, and declarations.
bool is_svg(std::string_view text) {
  text = text.substr(0, 4096);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (true) {
    const size_t at = text.find_first_not_of(" \t\r\n");
    if (at == std::string_view::npos || text[at] != '<') return false;
    text.remove_prefix(at);
    if (text.starts_with("<svg")) return true;
    if (!begins(text, {"<?", "<!"})) return false;
    const std::string_view close = text.starts_with("<!--") ? "-->" : ">";
    const size_t end = text.find(close);
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + close.size());
  }
}

// The name of a format that is known but not read, or nothing.
std::string_view foreign_name(std::string_view text) {
  if (begins(text, {"GIF87a", "GIF89a"})) return "GIF";
  if (begins(text, {"BM"})) return "BMP";
  if (begins(text, {std::string_view("II*\0", 4), std::string_view("MM\0*", 4),
                    std::string_view("II+\0", 4), std::string_view("MM\0+", 4)}))
    return "TIFF";
  if (begins(text, {"%PDF-"})) return "PDF";
  if (begins(text, {std::string_view("\0\0\1\0", 4)})) return "ICO";
  if (begins(text, {"8BPS"})) return "PSD";
  if (begins(text, {"\xff\x0a", std::string_view("\0\0\0\x0cJXL ", 8)})) return "JPEG XL";
  if (begins(text, {std::string_view("\0\0\0\x0cjP  ", 8), "\xff\x4f\xff\x51"})) return "JPEG 2000";
  if (is_svg(text)) return "SVG";
  return iso_media_name(text);
}

ImageFormat format_of(Bytes file) {
  const std::string_view text = as_text(file);
  if (file.empty()) throw ImageError(Fault::kInvalid, "image: no bytes, expected a picture");
  if (text.starts_with(kPngSignature)) return ImageFormat::kPng;
  if (text.starts_with("\xff\xd8\xff")) return ImageFormat::kJpeg;
  if (text.size() >= 12 && text.starts_with("RIFF") && text.substr(8, 4) == "WEBP")
    return ImageFormat::kWebp;
  const std::string_view name = foreign_name(text);
  if (!name.empty())
    throw ImageError(Fault::kUnsupported, "image: format {}, expected PNG, JPEG or static WebP",
                     name);
  throw ImageError(Fault::kInvalid,
                   "image: {} bytes of no known format, expected PNG, JPEG or static WebP",
                   file.size());
}

// As stored in the file; whether it moves is told after the limits.
struct Found {
  uint32_t width = 0;
  uint32_t height = 0;
  int orientation = 1;
  bool is_animated = false;
};

Found find_in_png(Bytes file) {
  PngChunks chunks(file);
  const auto header = chunks.next();
  if (!header || header->type != "IHDR" || header->payload.size() != 13)
    throw ImageError(Fault::kInvalid, "PNG: no whole IHDR chunk at its front, expected one");
  Found found{load_be32(header->payload), load_be32(header->payload.subspan(4))};
  bool has_exif = false;
  while (const auto chunk = chunks.next()) {
    if (chunk->type == "acTL") found.is_animated = true;
    if (chunk->type == "eXIf" && !has_exif) {
      found.orientation = exif_orientation(chunk->payload);
      has_exif = true;
    }
  }
  return found;
}

Found find_in_jpeg(Bytes file) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  Found found;
  bool has_exif = false, has_frame = false;
  JpegSegments segments(file);
  while (const auto segment = segments.next()) {
    const uint8_t marker = segment->marker;
    // SOF0 … SOF15 without DHT, JPG and DAC, which lie among them.
    const bool is_frame =
        marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (is_frame && !has_frame && segment->payload.size() >= 6) {
      found.height = load_be16(segment->payload.subspan(1));
      found.width = load_be16(segment->payload.subspan(3));
      has_frame = true;
    }
    if (marker == 0xe1 && !has_exif && as_text(segment->payload).starts_with(kExif)) {
      found.orientation = exif_orientation(segment->payload);
      has_exif = true;
    }
  }
  if (!has_frame)
    throw ImageError(Fault::kInvalid, "JPEG: no frame header in front of its data, expected one");
  return found;
}

Found find_in_webp(Bytes file) {
  WebPBitstreamFeatures features;
  const auto status =
      WebPGetFeatures(reinterpret_cast<const uint8_t*>(file.data()), file.size(), &features);
  if (status != VP8_STATUS_OK)
    throw ImageError(Fault::kInvalid, "WebP: {} header, expected a whole and legal one",
                     status == VP8_STATUS_NOT_ENOUGH_DATA ? "cut-off" : "illegal");
  Found found{static_cast<uint32_t>(features.width), static_cast<uint32_t>(features.height), 1,
              features.has_animation != 0};
  bool has_exif = false;
  RiffChunks chunks(file);
  while (const auto chunk = chunks.next()) {
    if (chunk->type == "ANIM" || chunk->type == "ANMF") found.is_animated = true;
    if (chunk->type == "EXIF" && !has_exif) {
      found.orientation = exif_orientation(chunk->payload);
      has_exif = true;
    }
  }
  return found;
}

void check_size(const Found& found, const ImageLimits& limits) {
  const uint64_t width = found.width, height = found.height;
  if (width == 0 || height == 0)
    throw ImageError(Fault::kInvalid, "image: {} × {} pixels, expected sides of at least 1", width,
                     height);
  if (std::max(width, height) > limits.max_side)
    throw ImageError(Fault::kTooLarge, "image: {} × {} pixels, expected sides of at most {}", width,
                     height, limits.max_side);
  if (width * height > limits.max_pixels)
    throw ImageError(Fault::kTooLarge, "image: {} × {} = {} pixels, expected at most {}", width,
                     height, width * height, limits.max_pixels);
  const double ratio =
      static_cast<double>(std::max(width, height)) / static_cast<double>(std::min(width, height));
  if (limits.max_aspect_ratio > 0 && ratio > limits.max_aspect_ratio)
    throw ImageError(Fault::kTooLarge,
                     "image: {} × {} pixels, aspect ratio {:.1f}, expected at most {}", width,
                     height, ratio, limits.max_aspect_ratio);
}

}  // namespace

std::string_view fault_name(Fault fault) {
  switch (fault) {
    case Fault::kInvalid:
      return "invalid_image";
    case Fault::kUnsupported:
      return "unsupported_image_format";
    case Fault::kTooLarge:
      return "image_too_large";
    case Fault::kRemote:
      return "remote_image_not_allowed";
  }
  FLARE_ASSERT(false);
}

ImageHeader read_image_header(Bytes file, const ImageLimits& limits) {
  if (file.size() > limits.max_bytes)
    throw ImageError(Fault::kTooLarge, "image: {} bytes, expected at most {}", file.size(),
                     limits.max_bytes);
  ImageHeader header;
  header.format = format_of(file);
  const Found found = header.format == ImageFormat::kPng    ? find_in_png(file)
                      : header.format == ImageFormat::kJpeg ? find_in_jpeg(file)
                                                            : find_in_webp(file);
  check_size(found, limits);
  if (found.is_animated)
    throw ImageError(Fault::kUnsupported, "image: animated {}, expected a still picture",
                     header.format == ImageFormat::kPng ? "PNG" : "WebP");
  header.orientation = found.orientation;
  header.width = found.orientation > 4 ? found.height : found.width;
  header.height = found.orientation > 4 ? found.width : found.height;
  return header;
}

}  // namespace flare::media
