// Reads preprocessor_config.json.
#include <cmath>

#include "frontend/media/processor.h"

namespace flare::media {
namespace {

// Larger numbers are mistakes, and products of them stay far from 64 bits.
constexpr uint64_t kMaxSide = 1 << 16;
constexpr uint64_t kMaxArea = uint64_t{1} << 32;

// Members of one object; null counts as absent.
class Fields {
 public:
  Fields(const Json& object, std::string_view file) : object_(object), file_(file) {}
  Fields(Json&&, std::string_view) = delete;

  const Json* find(std::string_view name) const {
    const Json* const found = object_.find(name);
    return found != nullptr && !found->is_null() ? found : nullptr;
  }
  std::string where(std::string_view name) const { return fmt::format("{}: {}", file_, name); }
  // A whole number from 1 to `max`, or `absent`.
  uint64_t whole(std::string_view name, uint64_t absent, uint64_t max) const {
    const Json* const found = find(name);
    if (found == nullptr) return absent;
    const uint64_t value = found->as_u64(where(name));
    if (value < 1 || value > max)
      throw Error(Code::kInvalid, "{} is {}, expected 1 to {}", where(name), value, max);
    return value;
  }
  double real(std::string_view name, double absent) const {
    const Json* const found = find(name);
    if (found == nullptr) return absent;
    const double value = found->as_double(where(name));
    if (!std::isfinite(value) || value <= 0)
      throw Error(Code::kInvalid, "{} is {}, expected a positive number", where(name), value);
    return value;
  }
  bool flag(std::string_view name, bool absent) const {
    const Json* const found = find(name);
    return found == nullptr ? absent : found->as_bool(where(name));
  }
  std::array<float, 3> colour(std::string_view name, float absent) const {
    const Json* const found = find(name);
    if (found == nullptr) return {absent, absent, absent};
    const Json::Array& items = found->as_array(where(name));
    if (items.size() != 3)
      throw Error(Code::kInvalid, "{} has {} numbers, expected 3", where(name), items.size());
    std::array<float, 3> out;
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(items[i].as_double(where(name)));
    return out;
  }

 private:
  const Json& object_;
  const std::string file_;
};

// Pillow's numbers of its filters.
Filter filter_of(const Fields& fields, Filter absent) {
  const uint64_t number = fields.find("resample")
                              ? fields.find("resample")->as_u64(fields.where("resample"))
                              : UINT64_MAX;
  switch (number) {
    case UINT64_MAX:
      return absent;
    case 1:
      return Filter::kLanczos;
    case 2:
      return Filter::kBilinear;
    case 3:
      return Filter::kBicubic;
    default:
      throw Error(Code::kInvalid, "{} is {}, expected 1 (lanczos), 2 (bilinear) or 3 (bicubic)",
                  fields.where("resample"), number);
  }
}

void read_merge_blocks(const Fields& fields, const Json* size, std::string_view file,
                       ProcessorConfig& config) {
  const auto patch = static_cast<int>(fields.whole("patch_size", 16, 256));
  config.patch = config.patch != 0 ? config.patch : patch;
  config.merge = static_cast<int>(fields.whole("merge_size", 2, 16));
  config.temporal = static_cast<int>(fields.whole("temporal_patch_size", 2, 16));
  config.max_aspect_ratio = 200;
  // Older files have pixel counts of their own names.
  config.min_pixels = fields.whole("min_pixels", 65536, kMaxArea);
  config.max_pixels = fields.whole("max_pixels", 16777216, kMaxArea);
  if (size != nullptr) {
    const Fields edges(*size, fmt::format("{}: size", file));
    config.min_pixels = edges.whole("shortest_edge", config.min_pixels, kMaxArea);
    config.max_pixels = edges.whole("longest_edge", config.max_pixels, kMaxArea);
  }
  if (config.min_pixels > config.max_pixels)
    throw Error(Code::kInvalid, "{}: smallest area {} is above the largest, {}", file,
                config.min_pixels, config.max_pixels);
}

void read_square(const Fields& fields, const Json* size, std::string_view file,
                 ProcessorConfig& config) {
  const auto patch = static_cast<int>(fields.whole("patch_size", 14, 256));
  config.patch = config.patch != 0 ? config.patch : patch;
  const Json nothing = Json::object();
  const Fields sides(size != nullptr ? *size : nothing, fmt::format("{}: size", file));
  config.height = static_cast<uint32_t>(sides.whole("height", 896, kMaxSide));
  config.width = static_cast<uint32_t>(sides.whole("width", 896, kMaxSide));
  if (config.height % config.patch != 0 || config.width % config.patch != 0)
    throw Error(Code::kInvalid, "{}: size {} × {} is no multiple of the patch, {}", file,
                config.height, config.width, config.patch);
  const uint64_t n_tokens = fields.whole("image_seq_length", 256, kMaxArea);
  const uint64_t n_patches = uint64_t{config.height} / config.patch * (config.width / config.patch);
  config.merge = static_cast<int>(
      std::lround(std::sqrt(static_cast<double>(n_patches) / static_cast<double>(n_tokens))));
  if (config.merge < 1 || n_tokens * config.merge * config.merge != n_patches)
    throw Error(Code::kInvalid, "{}: image_seq_length {} does not divide {} patches into squares",
                file, n_tokens, n_patches);
  config.pan_and_scan = fields.flag("do_pan_and_scan", false);
  config.min_crop = static_cast<int>(fields.whole("pan_and_scan_min_crop_size", 256, kMaxSide));
  config.max_crops = static_cast<int>(fields.whole("pan_and_scan_max_num_crops", 4, 64));
  config.min_crop_ratio = fields.real("pan_and_scan_min_ratio_to_activate", 1.2);
}

void read_soft_tokens(const Fields& fields, ProcessorConfig& config) {
  const auto patch = static_cast<int>(fields.whole("patch_size", 16, 256));
  config.patch = config.patch != 0 ? config.patch : patch;
  config.merge = static_cast<int>(fields.whole("pooling_kernel_size", 3, 16));
  config.max_soft_tokens = static_cast<int>(fields.whole("max_soft_tokens", 280, 1 << 16));
}

}  // namespace

ProcessorConfig ProcessorConfig::parse(PatchLayout layout, const Json& json, std::string_view file,
                                       int patch) {
  if (!json.is_object())
    throw Error(Code::kInvalid, "{}: is {}, expected an object", file, json.kind_name());
  const Json* const inner = json.find("image_processor");
  const Fields fields(inner != nullptr && inner->is_object() ? *inner : json, file);
  ProcessorConfig config;
  config.layout = layout;
  config.patch = patch;
  const Json* const size = fields.find("size");
  if (size != nullptr && !size->is_object())
    throw Error(Code::kInvalid, "{} is {}, expected an object", fields.where("size"),
                size->kind_name());
  const bool is_square = layout == PatchLayout::kSquare;
  config.filter = filter_of(fields, is_square ? Filter::kBilinear : Filter::kBicubic);
  switch (layout) {
    case PatchLayout::kMergeBlocks:
      read_merge_blocks(fields, size, file, config);
      break;
    case PatchLayout::kSquare:
      read_square(fields, size, file, config);
      break;
    case PatchLayout::kSoftTokens:
      read_soft_tokens(fields, config);
      break;
  }
  if (!fields.flag("do_resize", true))
    throw Error(Code::kInvalid, "{} is false, expected true", fields.where("do_resize"));
  config.rescale = fields.flag("do_rescale", true) ? fields.real("rescale_factor", 1.0 / 255) : 1;
  // Towers of soft tokens shift their input themselves.
  if (fields.flag("do_normalize", layout != PatchLayout::kSoftTokens)) {
    config.mean = fields.colour("image_mean", 0.5f);
    config.std = fields.colour("image_std", 0.5f);
    for (const float value : config.std)
      if (!(value > 0))
        throw Error(Code::kInvalid, "{} has {}, expected positive numbers",
                    fields.where("image_std"), value);
  }
  return config;
}

}  // namespace flare::media
