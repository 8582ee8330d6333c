// Cuts resized pictures into the rows of a tower's patch embedding.
#include "frontend/media/processor.h"

#include <algorithm>
#include <cstring>

namespace flare::media {
namespace {

constexpr size_t kChannels = 3;

// What a byte of this channel stands for: as the reference, a product rounded to float, then
// floats.
std::array<float, 256> value_table(const ProcessorConfig& config, size_t channel) {
  std::array<float, 256> out;
  for (int byte = 0; byte < 256; ++byte) {
    const auto scaled = static_cast<float>(byte * config.rescale);
    out[byte] = (scaled - config.mean[channel]) / config.std[channel];
  }
  return out;
}

// The pixels of one patch, as planes R G B or interleaved as they are.
void copy_patch(const Image& image, int64_t row, int64_t column, int patch, bool as_planes,
                uint8_t* out) {
  const size_t plane = static_cast<size_t>(patch) * patch;
  for (int y = 0; y < patch; ++y) {
    const uint8_t* from =
        image.rgb.data() +
        (static_cast<size_t>(row * patch + y) * image.width + column * patch) * kChannels;
    if (!as_planes) {
      std::memcpy(out + y * patch * kChannels, from, patch * kChannels);
      continue;
    }
    uint8_t* const to = out + y * patch;
    for (int x = 0; x < patch; ++x, from += kChannels)
      for (size_t c = 0; c < kChannels; ++c) to[c * plane + x] = from[c];
  }
}

}  // namespace

void PixelPatches::copy_values(int64_t first, std::span<float> out) const {
  const int64_t n = row_floats == 0 ? 0 : static_cast<int64_t>(out.size()) / row_floats;
  FLARE_ASSERT(first >= 0 && n * row_floats == static_cast<int64_t>(out.size()) &&
               first + n <= n_patches);
  const size_t row_bytes = static_cast<size_t>(row_floats / temporal);
  const size_t plane = row_bytes / kChannels;
  const uint8_t* from = bytes.data() + first * row_bytes;
  float* to = out.data();
  for (int64_t i = 0; i < n; ++i, from += row_bytes) {
    if (layout == PatchLayout::kSoftTokens) {
      for (size_t at = 0; at < row_bytes; ++at) to[at] = values[at % kChannels][from[at]];
      to += row_bytes;
      continue;
    }
    for (size_t c = 0; c < kChannels; ++c) {
      for (size_t at = 0; at < plane; ++at) to[at] = values[c][from[c * plane + at]];
      for (int t = 1; t < temporal; ++t) std::memcpy(to + t * plane, to, plane * sizeof(float));
      to += plane * temporal;
    }
  }
}

Image crop(const Image& image, const Rectangle& part) {
  FLARE_ASSERT(part.y + part.height <= image.height && part.x + part.width <= image.width);
  const size_t row = part.width * kChannels;
  Image out{part.width, part.height, std::vector<uint8_t>(row * part.height)};
  for (uint32_t y = 0; y < part.height; ++y)
    std::memcpy(
        out.rgb.data() + y * row,
        image.rgb.data() + (static_cast<size_t>(part.y + y) * image.width + part.x) * kChannels,
        row);
  return out;
}

PixelPatches process(const Image& image, const ProcessorConfig& config, int64_t max_patches) {
  const TargetSize size = target_size(image.height, image.width, config, max_patches);
  const Image resized = resize(image, size.height, size.width, config.filter);
  const auto n_rows = static_cast<int32_t>(size.height) / config.patch;
  const auto n_columns = static_cast<int32_t>(size.width) / config.patch;
  PixelPatches out;
  out.grid = {1, n_rows, n_columns};
  out.n_patches = size.n_patches;
  out.n_tokens = size.n_tokens;
  out.layout = config.layout;
  out.temporal = config.temporal;
  const size_t row_bytes = kChannels * config.patch * config.patch;
  out.row_floats = static_cast<int64_t>(row_bytes) * config.temporal;
  out.bytes.resize(row_bytes * static_cast<size_t>(size.n_patches));
  out.positions.reserve(static_cast<size_t>(size.n_patches) * 2);
  for (size_t c = 0; c < kChannels; ++c) out.values.push_back(value_table(config, c));
  // Blocks of one patch are plain rows.
  const int block = config.layout == PatchLayout::kMergeBlocks ? config.merge : 1;
  uint8_t* to = out.bytes.data();
  for (int32_t block_row = 0; block_row < n_rows; block_row += block)
    for (int32_t block_column = 0; block_column < n_columns; block_column += block)
      for (int32_t row = block_row; row < block_row + block; ++row)
        for (int32_t column = block_column; column < block_column + block; ++column) {
          copy_patch(resized, row, column, config.patch, config.layout != PatchLayout::kSoftTokens,
                     to);
          out.positions.insert(out.positions.end(), {column, row});
          to += row_bytes;
        }
  return out;
}

}  // namespace flare::media
