// What a vision tower is fed: target sizes, token counts and patches of the reference processors
// (spec/models/vision.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "frontend/media/media.h"

namespace flare::media {

// The families of processors; the model's code knows which one it has.
enum class PatchLayout {
  kMergeBlocks,  // sides are multiples of patch·merge, the area within bounds; vision.md §2.3
  kSquare,       // every picture becomes one fixed size; §10
  kSoftTokens,   // the aspect is kept, at most so many tokens; §11
};

// The numbers of preprocessor_config.json.
struct ProcessorConfig {
  PatchLayout layout = PatchLayout::kMergeBlocks;
  Filter filter = Filter::kBicubic;
  int patch = 16;           // pixels
  int merge = 2;            // patches along one side of what becomes one token
  int temporal = 1;         // frames in a patch: a picture is repeated
  uint64_t min_pixels = 0;  // kMergeBlocks: bounds of the area
  uint64_t max_pixels = 0;
  uint32_t height = 0;  // kSquare
  uint32_t width = 0;
  int max_soft_tokens = 0;  // kSoftTokens
  double rescale = 1.0 / 255;
  std::array<float, 3> mean = {0, 0, 0};
  std::array<float, 3> std = {1, 1, 1};
  double max_aspect_ratio = 0;  // for ImageLimits; 0: any
  // Pan and scan of kSquare: more views of long pictures.
  bool pan_and_scan = false;
  int min_crop = 256;
  int max_crops = 4;
  double min_crop_ratio = 1.2;

  // `json` is preprocessor_config.json, or processor_config.json that has it as `image_processor`.
  // Names that are absent keep the reference's defaults of that layout; `patch` (0: the file's) is
  // for files that leave the patch to the tower's config. Errors: kInvalid and kDirectory with file
  // and field.
  static ProcessorConfig parse(PatchLayout layout, const Json& json, std::string_view file,
                               int patch = 0);
};

// A picture's size after resizing and what becomes of it.
struct TargetSize {
  uint32_t height = 0;
  uint32_t width = 0;
  int64_t n_patches = 0;
  int64_t n_tokens = 0;
};
// Of one view. Faults: kTooLarge (aspect ratio; more than max_patches, one prepared window).
TargetSize target_size(uint32_t height, uint32_t width, const ProcessorConfig& config,
                       int64_t max_patches = INT64_MAX);

// Sides as the reference computes them, height first. Faults of both: kTooLarge (aspect ratio above
// 200, no frame pair). `factor` is patch·merge; areas in pixels.
std::array<uint32_t, 2> smart_resize(uint32_t height, uint32_t width, uint32_t factor,
                                     uint64_t min_pixels, uint64_t max_pixels);
// The same for `n_frames` frames, pairs of which make one patch; areas of all frames together.
std::array<uint32_t, 2> smart_resize_video(uint32_t n_frames, uint32_t height, uint32_t width,
                                           uint32_t factor, uint64_t min_pixels,
                                           uint64_t max_pixels);
// Sides for at most `max_soft_tokens` squares of patch·merge pixels.
std::array<uint32_t, 2> soft_token_size(uint32_t height, uint32_t width, int patch, int merge,
                                        int max_soft_tokens);

struct Rectangle {
  uint32_t y = 0, x = 0, height = 0, width = 0;
};
// The crops of pan and scan, besides the whole picture; none for pictures that are nearly square.
std::vector<Rectangle> pan_and_scan(uint32_t height, uint32_t width, const ProcessorConfig& config);
Image crop(const Image& image, const Rectangle& part);

// `detail: "low"`: the size within 512 × 512, aspect kept, sides to nearest; smaller ones stay.
std::array<uint32_t, 2> low_detail_size(uint32_t height, uint32_t width);

// The rows of the tower's patch embedding, kept as bytes: four (and with `temporal` eight) times
// smaller than the floats they stand for.
struct PixelPatches {
  std::array<int32_t, 3> grid = {0, 0, 0};  // frames, rows, columns, in patches
  int64_t n_patches = 0;
  int64_t n_tokens = 0;
  int64_t row_floats = 0;          // of one patch
  std::vector<int32_t> positions;  // [n_patches][2]: column, row
  std::vector<uint8_t> bytes;      // [n_patches][row_floats / temporal] in the tower's order
  std::vector<std::array<float, 256>> values;  // per channel: what a byte stands for
  PatchLayout layout = PatchLayout::kMergeBlocks;
  int temporal = 1;

  // pixel_values of the patches from `first` on, as many as `out` holds rows. kMergeBlocks: blocks
  // of merge × merge patches, vectors of channel, frame, row, column; kSquare: rows of patches,
  // channel, row, column; kSoftTokens: rows of patches, row, column, channel.
  void copy_values(int64_t first, std::span<float> out) const;
};

// One view: resized with the config's filter, normalised, cut into patches. Faults: target_size.
PixelPatches process(const Image& image, const ProcessorConfig& config,
                     int64_t max_patches = INT64_MAX);

}  // namespace flare::media
