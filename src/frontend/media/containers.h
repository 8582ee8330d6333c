// Walks over the parts of PNG, JPEG and WebP files; nothing is decoded, every step is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace flare::media {

inline constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";

// The chunks of a PNG (PNG 1.2 §3.2) or of a RIFF file (WebP). Ends at the first chunk that does
// not fit into the file.
struct Chunk {
  std::string_view type;  // four bytes
  Bytes payload;
  Bytes whole;  // with length, type and what stands behind the payload
};

class PngChunks {
 public:
  explicit PngChunks(Bytes file) : rest_(file.subspan(kPngSignature.size())) {}
  std::optional<Chunk> next();

 private:
  Bytes rest_;
};

class RiffChunks {
 public:
  // `file` begins with "RIFF", a length and the form's name: 12 bytes.
  explicit RiffChunks(Bytes file) : rest_(file.subspan(12)) {}
  std::optional<Chunk> next();

 private:
  Bytes rest_;
};

// The marker segments of a JPEG up to its first scan (ITU T.81 §B.1), junk between them skipped.
struct JpegSegment {
  uint8_t marker = 0;  // the byte behind 0xff
  Bytes payload;
};

class JpegSegments {
 public:
  explicit JpegSegments(Bytes file) : rest_(file.subspan(2)) {}
  // Nothing behind the start of a scan (which comes as the last one), the end marker or a cut.
  std::optional<JpegSegment> next();

 private:
  Bytes rest_;
  bool ended_ = false;
};

// Big-endian 16 and 32 bits at the front of `bytes`, which must be as long.
uint32_t load_be16(Bytes bytes);
uint32_t load_be32(Bytes bytes);

}  // namespace flare::media
