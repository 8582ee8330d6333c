// Reads one tag of EXIF (TIFF 6.0 §2, EXIF 2.3 §4.6).
#include "frontend/media/exif.h"

namespace flare::media {
namespace {

constexpr uint16_t kOrientation = 0x0112;
constexpr uint16_t kByte = 1, kShort = 3, kLong = 4;
constexpr size_t kEntryBytes = 12;

// Numbers of a TIFF block in its own byte order; 0 beyond its end.
struct TiffReader {
  Bytes bytes;
  bool is_big = false;

  uint32_t number(uint64_t at, int n_bytes) const {
    if (at > bytes.size() || bytes.size() - at < static_cast<uint64_t>(n_bytes)) return 0;
    uint32_t out = 0;
    for (int i = 0; i < n_bytes; ++i)
      out = out << 8 | static_cast<uint8_t>(bytes[at + (is_big ? i : n_bytes - 1 - i)]);
    return out;
  }
};

}  // namespace

int exif_orientation(Bytes block) {
  if (as_text(block).starts_with(std::string_view("Exif\0\0", 6))) block = block.subspan(6);
  const std::string_view text = as_text(block);
  TiffReader tiff{block};
  if (text.starts_with("MM")) {
    tiff.is_big = true;
  } else if (!text.starts_with("II")) {
    return 1;
  }
  if (tiff.number(2, 2) != 42) return 1;
  const uint64_t directory = tiff.number(4, 4);
  const uint32_t n_entries = tiff.number(directory, 2);
  for (uint32_t i = 0; i < n_entries; ++i) {
    const uint64_t entry = directory + 2 + i * kEntryBytes;
    if (tiff.number(entry, 2) != kOrientation) continue;
    const uint32_t type = tiff.number(entry + 2, 2);
    if (tiff.number(entry + 4, 4) != 1) return 1;
    const int n_bytes = type == kByte ? 1 : type == kShort ? 2 : type == kLong ? 4 : 0;
    const uint32_t value = tiff.number(entry + 8, n_bytes);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace flare::media
