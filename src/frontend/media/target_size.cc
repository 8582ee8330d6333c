// Target sizes of the reference processors, in doubles and in their order of operations.
#include <algorithm>
#include <cmath>

#include "frontend/media/processor.h"

namespace flare::media {
namespace {

constexpr double kMaxAspectRatio = 200;
constexpr uint32_t kLowDetailSide = 512;

void check_aspect(double height, double width) {
  const double ratio = std::max(height, width) / std::min(height, width);
  if (ratio > kMaxAspectRatio)
    throw ImageError(Fault::kTooLarge,
                     "image: {} × {} pixels, aspect ratio {:.1f}, expected at most {}", width,
                     height, ratio, kMaxAspectRatio);
}

// Half to even, as Python's round: the default rounding mode of nearbyint.
double to_multiple(double side, double factor) { return std::nearbyint(side / factor) * factor; }
double shrunk(double side, double beta, double factor) {
  return std::max(factor, std::floor(side / beta / factor) * factor);
}
double grown(double side, double beta, double factor) {
  return std::ceil(side * beta / factor) * factor;
}

std::array<uint32_t, 2> as_sides(double height, double width) {
  FLARE_ASSERT(height >= 1 && width >= 1 && height < 1e9 && width < 1e9);
  return {static_cast<uint32_t>(height), static_cast<uint32_t>(width)};
}

// Both rules at once: `n_frames` frames count in the area that is asked for, `n_paired` of them in
// the one that is compared.
std::array<uint32_t, 2> within_area(double n_frames, double n_paired, double height, double width,
                                    double factor, double min_pixels, double max_pixels) {
  check_aspect(height, width);
  double new_height = to_multiple(height, factor), new_width = to_multiple(width, factor);
  const double area = n_paired * new_height * new_width;
  if (area > max_pixels) {
    const double beta = std::sqrt(n_frames * height * width / max_pixels);
    new_height = shrunk(height, beta, factor);
    new_width = shrunk(width, beta, factor);
  } else if (area < min_pixels) {
    const double beta = std::sqrt(min_pixels / (n_frames * height * width));
    new_height = grown(height, beta, factor);
    new_width = grown(width, beta, factor);
  }
  return as_sides(new_height, new_width);
}

}  // namespace

std::array<uint32_t, 2> smart_resize(uint32_t height, uint32_t width, uint32_t factor,
                                     uint64_t min_pixels, uint64_t max_pixels) {
  return within_area(1, 1, height, width, factor, static_cast<double>(min_pixels),
                     static_cast<double>(max_pixels));
}

std::array<uint32_t, 2> smart_resize_video(uint32_t n_frames, uint32_t height, uint32_t width,
                                           uint32_t factor, uint64_t min_pixels,
                                           uint64_t max_pixels) {
  if (n_frames < 2)
    throw ImageError(Fault::kTooLarge, "video: {} frames, expected at least 2", n_frames);
  double tall = height, wide = width;
  if (height < factor || width < factor) {
    const double scale = std::max(factor / tall, factor / wide);
    tall = std::trunc(tall * scale);
    wide = std::trunc(wide * scale);
  }
  // Half to even as for the sides, so 5 frames count as 4 and 7 as 8.
  return within_area(n_frames, to_multiple(n_frames, 2), tall, wide, factor,
                     static_cast<double>(min_pixels), static_cast<double>(max_pixels));
}

std::array<uint32_t, 2> soft_token_size(uint32_t height, uint32_t width, int patch, int merge,
                                        int max_soft_tokens) {
  const double side = patch * merge;
  const double target = static_cast<double>(max_soft_tokens) * merge * merge * (patch * patch);
  const double tall = height, wide = width;
  const double factor = std::sqrt(target / (tall * wide));
  double new_height = std::floor(factor * tall / side) * side;
  double new_width = std::floor(factor * wide / side) * side;
  // Long and thin: one row or column of tokens.
  const double longest = max_soft_tokens * side;
  if (new_height == 0) {
    new_height = side;
    new_width = std::min(std::floor(wide / tall) * side, longest);
  } else if (new_width == 0) {
    new_width = side;
    new_height = std::min(std::floor(tall / wide) * side, longest);
  }
  return as_sides(new_height, new_width);
}

TargetSize target_size(uint32_t height, uint32_t width, const ProcessorConfig& config,
                       int64_t max_patches) {
  FLARE_ASSERT(height > 0 && width > 0);
  std::array<uint32_t, 2> sides = {config.height, config.width};
  if (config.layout == PatchLayout::kMergeBlocks)
    sides = smart_resize(height, width, static_cast<uint32_t>(config.patch * config.merge),
                         config.min_pixels, config.max_pixels);
  if (config.layout == PatchLayout::kSoftTokens)
    sides = soft_token_size(height, width, config.patch, config.merge, config.max_soft_tokens);
  TargetSize size{sides[0], sides[1]};
  size.n_patches = int64_t{size.height} / config.patch * (size.width / config.patch);
  size.n_tokens = size.n_patches / (config.merge * config.merge);
  if (size.n_patches > max_patches)
    throw ImageError(Fault::kTooLarge,
                     "image: {} × {} pixels make {} patches, expected at most {} (one prepared "
                     "window)",
                     width, height, size.n_patches, max_patches);
  return size;
}

std::vector<Rectangle> pan_and_scan(uint32_t height, uint32_t width,
                                    const ProcessorConfig& config) {
  const bool is_wide = width >= height;
  const double longer = is_wide ? width : height, shorter = is_wide ? height : width;
  if (longer / shorter < config.min_crop_ratio) return {};
  double n_crops = std::floor(longer / shorter + 0.5);
  n_crops = std::min(std::floor(longer / config.min_crop), n_crops);
  n_crops = std::min<double>(config.max_crops, std::max(2.0, n_crops));
  const double length = std::ceil(longer / n_crops);
  if (std::min(length, shorter) < config.min_crop) return {};
  std::vector<Rectangle> out;
  for (int i = 0; i < n_crops; ++i) {
    // The last one is what remains.
    const double from = std::min(longer, i * length), size = std::min(length, longer - from);
    const auto at = static_cast<uint32_t>(from), n = static_cast<uint32_t>(size);
    if (n == 0) break;
    out.push_back(is_wide ? Rectangle{0, at, height, n} : Rectangle{at, 0, n, width});
  }
  return out;
}

std::array<uint32_t, 2> low_detail_size(uint32_t height, uint32_t width) {
  const uint64_t longer = std::max(height, width);
  if (longer <= kLowDetailSide) return {height, width};
  const auto scaled = [&](uint64_t side) {
    return static_cast<uint32_t>(
        std::max<uint64_t>(1, (side * kLowDetailSide * 2 + longer) / (longer * 2)));
  };
  return {scaled(height), scaled(width)};
}

}  // namespace flare::media
