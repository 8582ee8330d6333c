// Test support: images and expectations of shared/data, and files made up byte by byte.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/hash/sha256.h"
#include "base/json/json.h"
#include "frontend/media/containers.h"
#include "frontend/media/media.h"

namespace flare::media::golden {

inline std::filesystem::path shared_data() {
  return std::filesystem::path(FLARE_SOURCE_DIR) / "../shared/data";
}
inline std::filesystem::path goldens() { return shared_data() / "goldens/images"; }
inline bool is_absent() { return !std::filesystem::exists(goldens()); }
#define SKIP_WITHOUT_GOLDENS() \
  if (golden::is_absent()) GTEST_SKIP() << "../shared/data/goldens/images is absent"

inline std::string image_file(std::string_view name) {
  return read_text_file(shared_data() / "images" / name);
}

// The lines of a .jsonl behind the first, which says where they come from.
inline std::vector<Json> rows(std::string_view name) {
  const std::filesystem::path path = goldens() / name;
  const std::string text = read_text_file(path);
  std::vector<Json> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0 && end > at) out.push_back(parse_json(text.substr(at, end - at), path.string()));
    at = end + 1;
  }
  return out;
}

// Tensors of a safetensors file, by name.
struct Tensor {
  std::vector<int64_t> shape;
  std::string bytes;
  template <typename T>
  std::vector<T> as() const {
    std::vector<T> out(bytes.size() / sizeof(T));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  Image image() const {
    return {static_cast<uint32_t>(shape.at(1)), static_cast<uint32_t>(shape.at(0)), as<uint8_t>()};
  }
};
inline std::map<std::string, Tensor> tensors(std::string_view name) {
  const std::filesystem::path path = goldens() / name;
  const std::string text = read_text_file(path);
  const auto n_header = load_le<uint64_t>(as_bytes(text).data());
  std::map<std::string, Tensor> out;
  const Json header = parse_json(text.substr(8, n_header), path.string());
  for (const auto& [key, value] : header.as_object()) {
    if (key == "__metadata__") continue;
    Tensor& tensor = out[key];
    for (const Json& side : value.at("shape").as_array()) tensor.shape.push_back(side.as_i64());
    const Json::Array& ends = value.at("data_offsets").as_array();
    tensor.bytes =
        text.substr(8 + n_header + ends[0].as_u64(), ends[1].as_u64() - ends[0].as_u64());
  }
  return out;
}

inline std::string digest(const Image& image) {
  return sha256_hex(std::as_bytes(std::span(image.rgb)));
}

inline std::string big_endian(uint32_t value) {
  std::string out;
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(value >> shift);
  return out;
}

// A chunk of a PNG with its checksum (PNG 1.2, appendix D).
inline std::string png_chunk(std::string_view type, std::string_view payload) {
  const std::string body = std::string(type) + std::string(payload);
  uint32_t sum = 0xffffffff;
  for (const char c : body) {
    sum ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return big_endian(static_cast<uint32_t>(payload.size())) + body + big_endian(~sum);
}

// A PNG that ends behind its header: 8-bit RGB.
inline std::string png_front(uint32_t width, uint32_t height) {
  return std::string(kPngSignature) + png_chunk("IHDR", big_endian(width) + big_endian(height) +
                                                            std::string("\x08\x02\0\0\0", 5));
}

// `png` with one more chunk behind its IHDR.
inline std::string with_chunk(std::string png, std::string_view type, std::string_view payload) {
  return png.insert(png_front(1, 1).size(), png_chunk(type, payload));
}

// The block of EXIF that holds nothing but this orientation, little-endian.
inline std::string exif_block(int orientation) {
  std::string out("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 18);
  out += static_cast<char>(orientation);
  return out + std::string(7, '\0');
}

// The code that a request with this image ends with, "ok" where it does not.
template <typename Call>
std::string outcome(Call&& call) {
  try {
    call();
    return "ok";
  } catch (const ImageError& error) {
    return std::string(error.wire_code());
  }
}
// The message of the ImageError.
template <typename Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const ImageError& error) {
    return error.message();
  }
  return "no error";
}

}  // namespace flare::media::golden
