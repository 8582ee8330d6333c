// Parts of image files.
#include "frontend/media/containers.h"

#include <algorithm>

namespace flare::media {
namespace {

constexpr uint8_t kStartOfScan = 0xda, kEndOfImage = 0xd9;

// Markers without a length: TEM, RST0 … RST7, SOI.
bool stands_alone(uint8_t marker) { return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8); }

uint32_t byte_at(Bytes bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

}  // namespace

uint32_t load_be16(Bytes bytes) { return byte_at(bytes, 0) << 8 | byte_at(bytes, 1); }
uint32_t load_be32(Bytes bytes) { return load_be16(bytes) << 16 | load_be16(bytes.subspan(2)); }

std::optional<Chunk> PngChunks::next() {
  constexpr size_t kAround = 12;  // length, type, checksum
  if (rest_.size() < kAround) return std::nullopt;
  const uint32_t length = load_be32(rest_);
  if (length > rest_.size() - kAround) return std::nullopt;
  const Chunk chunk{as_text(rest_.subspan(4, 4)), rest_.subspan(8, length),
                    rest_.first(kAround + length)};
  rest_ = rest_.subspan(chunk.whole.size());
  return chunk;
}

std::optional<Chunk> RiffChunks::next() {
  constexpr size_t kBefore = 8;  // type, length
  if (rest_.size() < kBefore) return std::nullopt;
  const auto length = load_le<uint32_t>(rest_.data() + 4);
  if (length > rest_.size() - kBefore) return std::nullopt;
  const size_t padded = std::min<size_t>(rest_.size() - kBefore, size_t{length} + length % 2);
  const Chunk chunk{as_text(rest_.first(4)), rest_.subspan(kBefore, length),
                    rest_.first(kBefore + padded)};
  rest_ = rest_.subspan(chunk.whole.size());
  return chunk;
}

std::optional<JpegSegment> JpegSegments::next() {
  while (!ended_) {
    // Up to a 0xff that is followed by neither 0xff nor 0x00.
    size_t at = 0;
    while (at + 1 < rest_.size() && (byte_at(rest_, at) != 0xff || byte_at(rest_, at + 1) == 0xff ||
                                     byte_at(rest_, at + 1) == 0x00))
      ++at;
    if (at + 1 >= rest_.size()) break;
    const auto marker = static_cast<uint8_t>(rest_[at + 1]);
    rest_ = rest_.subspan(at + 2);
    if (stands_alone(marker)) continue;
    if (marker == kEndOfImage || rest_.size() < 2) break;
    const uint32_t length = load_be16(rest_);
    if (length < 2 || length > rest_.size()) break;
    const JpegSegment segment{marker, rest_.subspan(2, length - 2)};
    rest_ = rest_.subspan(length);
    ended_ = marker == kStartOfScan;
    return segment;
  }
  ended_ = true;
  return std::nullopt;
}

}  // namespace flare::media
