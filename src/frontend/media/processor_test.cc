// Target sizes, patches and token counts against the reference processors.
#include "frontend/media/processor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/test_support.h"
#include "frontend/media/media_golden.h"

namespace flare::media {
namespace {

using golden::outcome;

uint32_t number(const Json& row, std::string_view name) {
  return static_cast<uint32_t>(row.at(name).as_u64());
}

std::array<uint32_t, 2> sides_of(const Json& row, const std::string& rule) {
  const uint32_t height = number(row, "h"), width = number(row, "w");
  if (rule == "gemma4")
    return soft_token_size(height, width, 16, 3, static_cast<int>(number(row, "soft_tokens")));
  const uint32_t factor = number(row, "factor");
  const uint64_t least = row.at("min").as_u64(), most = row.at("max").as_u64();
  return rule == "video" ? smart_resize_video(number(row, "t"), height, width, factor, least, most)
                         : smart_resize(height, width, factor, least, most);
}

TEST(TargetSize, EqualsTheReferenceInEveryRow) {
  SKIP_WITHOUT_GOLDENS();
  int n_rows = 0, n_errors = 0;
  for (const Json& row : golden::rows("smart_resize.jsonl")) {
    const std::string& rule = row.at("fn").as_string();
    const Json* const want = row.find("out");
    ++n_rows;
    if (want == nullptr) {
      EXPECT_EQ(outcome([&] { sides_of(row, rule); }), "image_too_large") << row.to_text();
      ++n_errors;
    } else if (rule == "gemma3_crops") {
      Json got = Json::array();
      for (const Rectangle& part : pan_and_scan(number(row, "h"), number(row, "w"), {}))
        got.push_back(Json::array({part.y, part.x, part.height, part.width}));
      EXPECT_EQ(got, *want) << row.to_text();
    } else {
      const auto [height, width] = sides_of(row, rule);
      EXPECT_EQ(Json::array({height, width}), *want) << row.to_text();
    }
  }
  EXPECT_EQ(n_rows, 933);
  EXPECT_GT(n_errors, 44);
}

// Images by the goldens' names: files of shared/data/images, or made-up ones that are stored.
class Pictures {
 public:
  explicit Pictures(const std::map<std::string, golden::Tensor>& tensors) : tensors_(tensors) {}
  const Image& operator[](const std::string& name) {
    if (!images_.contains(name)) {
      const auto stored = tensors_.find("src/" + name);
      images_[name] = stored != tensors_.end() ? stored->second.image()
                                               : decode_image(as_bytes(golden::image_file(name)));
    }
    return images_[name];
  }

 private:
  const std::map<std::string, golden::Tensor>& tensors_;
  std::map<std::string, Image> images_;
};

ProcessorConfig config_of(const Json& row, const std::string& family) {
  const auto parse = [](PatchLayout layout, const Json& json) {
    return ProcessorConfig::parse(layout, json, "preprocessor_config.json");
  };
  if (family == "qwen3_5")
    return parse(PatchLayout::kMergeBlocks,
                 Json::object({{"patch_size", 16},
                               {"merge_size", 2},
                               {"temporal_patch_size", 2},
                               {"resample", 3},
                               {"image_mean", Json::array({0.5, 0.5, 0.5})},
                               {"size", Json::object({{"shortest_edge", row.at("min")},
                                                      {"longest_edge", row.at("max")}})}}));
  if (family == "gemma4")
    return parse(PatchLayout::kSoftTokens,
                 Json::object({{"max_soft_tokens", row.at("soft_tokens_limit")},
                               {"patch_size", 16},
                               {"pooling_kernel_size", 3}}));
  const Json::Array sides = row.find("size") ? row.at("size").as_array() : Json::Array{896, 896};
  const uint64_t per_side = sides[0].as_u64() / 14 / 4;
  return parse(PatchLayout::kSquare,
               Json::object({{"size", Json::object({{"height", sides[0]}, {"width", sides[1]}})},
                             {"image_seq_length", per_side * per_side}}));
}

void expect_values(const std::vector<float>& got, const std::vector<float>& want,
                   const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-6) << what << " at " << i;
}

std::vector<float> values_of(const PixelPatches& patches, int64_t first, int64_t n) {
  std::vector<float> out(static_cast<size_t>(n * patches.row_floats));
  patches.copy_values(first, out);
  return out;
}

// [3, side, side] from patches of planes in rows.
std::vector<float> planes_of(const PixelPatches& patches, int patch) {
  const std::vector<float> rows = values_of(patches, 0, patches.n_patches);
  const int64_t n_columns = patches.grid[2], side = n_columns * patch;
  std::vector<float> out(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i), x = at % patch, y = at / patch % patch;
    const int64_t c = at / (patch * patch) % 3, index = at / (patch * patch * 3);
    out[(c * side + index / n_columns * patch + y) * side + index % n_columns * patch + x] =
        rows[i];
  }
  return out;
}

void check_stored(const std::map<std::string, golden::Tensor>& tensors, const std::string& key,
                  const PixelPatches& got, const ProcessorConfig& config) {
  const auto stored = [&](const char* name) -> const golden::Tensor* {
    const auto found = tensors.find(key + name);
    return found == tensors.end() ? nullptr : &found->second;
  };
  if (const auto* want = stored("/pixel_values")) {
    expect_values(config.layout == PatchLayout::kSquare ? planes_of(got, config.patch)
                                                        : values_of(got, 0, got.n_patches),
                  want->as<float>(), key);
  }
  if (const auto* want = stored("/image_grid_thw")) {
    const std::vector<int64_t> grid(got.grid.begin(), got.grid.end());
    EXPECT_EQ(grid, want->as<int64_t>()) << key;
  }
  if (const auto* want = stored("/first_patches"))
    expect_values(values_of(got, 0, 6), want->as<float>(), key);
  if (const auto* want = stored("/last_patches"))
    expect_values(values_of(got, got.n_patches - 3, 3), want->as<float>(), key);
  if (const auto* want = stored("/position_ids")) {
    // The reference pads with position −1 to its limit.
    std::vector<int32_t> padded = got.positions;
    padded.resize(want->as<int32_t>().size(), -1);
    EXPECT_EQ(padded, want->as<int32_t>()) << key;
  }
}

TEST(Processor, EqualsTheReferenceInSizesTokensBytesAndValues) {
  SKIP_WITHOUT_GOLDENS();
  const auto tensors = golden::tensors("processors.safetensors");
  Pictures pictures(tensors);
  int n_runs = 0;
  for (const Json& row : golden::rows("processors.jsonl")) {
    if (row.find("note") != nullptr) continue;
    const std::string& family = row.at("family").as_string();
    const std::string& name = row.at("image").as_string();
    const ProcessorConfig config = config_of(row, family);
    const Image& image = pictures[name];
    ++n_runs;
    if (row.find("error") != nullptr) {
      EXPECT_EQ(outcome([&] { process(image, config); }), "image_too_large") << name;
      continue;
    }
    const TargetSize size = target_size(image.height, image.width, config);
    EXPECT_EQ(Json::array({size.height, size.width}), row.at("size")) << row.to_text();
    const Image resized = resize(image, size.height, size.width, config.filter);
    EXPECT_EQ(golden::digest(resized), row.at("resized_sha256").as_string()) << family << name;
    if (const Json* tokens = row.find("tokens")) {
      EXPECT_EQ(size.n_tokens, tokens->as_i64());
    }
    if (const Json* tokens = row.find("soft_tokens")) {
      EXPECT_EQ(size.n_tokens, tokens->as_i64());
      EXPECT_EQ(size.n_patches, row.at("patches").as_i64());
    }
    const PixelPatches got = process(image, config);
    EXPECT_EQ(got.n_tokens, size.n_tokens);
    if (const Json* stored = row.find("stored"); stored != nullptr && stored->as_bool())
      check_stored(tensors, family + "/" + name, got, config);
  }
  EXPECT_EQ(n_runs, 36);
}

TEST(Processor, PanAndScanGivesTheReferencesViews) {
  SKIP_WITHOUT_GOLDENS();
  for (const Json& row : golden::rows("processors.jsonl")) {
    const Json* const want = row.find("num_crops");
    if (want == nullptr) continue;
    const Image image = decode_image(as_bytes(golden::image_file("large_3001x2003.jpg")));
    std::vector<std::string> digests = {golden::digest(resize(image, 896, 896, Filter::kBilinear))};
    for (const Rectangle& part : pan_and_scan(image.height, image.width, {}))
      digests.push_back(golden::digest(resize(crop(image, part), 896, 896, Filter::kBilinear)));
    std::vector<std::string> expected;
    for (const Json& digest : row.at("resized_sha256").as_array())
      expected.push_back(digest.as_string());
    EXPECT_EQ(digests, expected);
    return;
  }
  FAIL() << "no row of pan and scan";
}

TEST(Processor, RefusesWhatAPreparedWindowCannotHold) {
  const ProcessorConfig config =
      ProcessorConfig::parse(PatchLayout::kMergeBlocks, Json::object(), "f");
  EXPECT_EQ(target_size(640, 640, config, 1600).n_patches, 1600);
  EXPECT_EQ(
      golden::message_of([&] { target_size(640, 640, config, 1599); }),
      "image: 640 × 640 pixels make 1600 patches, expected at most 1599 (one prepared window)");
}

TEST(Processor, LowDetailFitsInto512) {
  using Sides = std::array<uint32_t, 2>;
  EXPECT_EQ(low_detail_size(512, 512), (Sides{512, 512}));
  EXPECT_EQ(low_detail_size(100, 300), (Sides{100, 300}));
  EXPECT_EQ(low_detail_size(1024, 1024), (Sides{512, 512}));
  EXPECT_EQ(low_detail_size(2003, 3001), (Sides{342, 512}));  // 341.7
  EXPECT_EQ(low_detail_size(3001, 2003), (Sides{512, 342}));
  EXPECT_EQ(low_detail_size(16384, 1), (Sides{512, 1}));
}

TEST(ProcessorConfig, ReadsPublishedFilesAndNamesWhatIsWrong) {
  const auto parse = [](PatchLayout layout, std::string_view text) {
    return ProcessorConfig::parse(layout, parse_json(text, "p.json"), "p.json");
  };
  const ProcessorConfig merge =
      parse(PatchLayout::kMergeBlocks, R"({"size": {"longest_edge": 16777216,
      "shortest_edge": 65536}, "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2,
      "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
      "processor_class": "X", "image_processor_type": "Y"})");
  EXPECT_EQ(merge.max_pixels, 16777216u);
  EXPECT_EQ(merge.max_aspect_ratio, 200);
  EXPECT_EQ(parse(PatchLayout::kMergeBlocks, R"({"min_pixels": 3136, "max_pixels": 12845056,
      "patch_size": 14})")
                .min_pixels,
            3136u);
  const ProcessorConfig square = parse(PatchLayout::kSquare, R"({"image_processor": {"size":
      {"height": 896, "width": 896}, "image_seq_length": 256, "resample": 2,
      "do_pan_and_scan": null}})");
  EXPECT_EQ(square.merge, 4);
  EXPECT_FALSE(square.pan_and_scan);
  EXPECT_EQ(square.filter, Filter::kBilinear);
  EXPECT_EQ(parse(PatchLayout::kSoftTokens, R"({"max_soft_tokens": 70})").max_soft_tokens, 70);

  const auto message = [&](PatchLayout layout, std::string_view text) {
    return error_of([&] { parse(layout, text); }).message();
  };
  EXPECT_EQ(message(PatchLayout::kMergeBlocks, R"({"patch_size": 0})"),
            "p.json: patch_size is 0, expected 1 to 256");
  EXPECT_EQ(
      message(PatchLayout::kMergeBlocks, R"({"size": {"shortest_edge": 99, "longest_edge": 9}})"),
      "p.json: smallest area 99 is above the largest, 9");
  EXPECT_EQ(message(PatchLayout::kMergeBlocks, R"({"image_std": [0.5, 0, 1]})"),
            "p.json: image_std has 0, expected positive numbers");
  EXPECT_EQ(message(PatchLayout::kSquare, R"({"resample": 0})"),
            "p.json: resample is 0, expected 1 (lanczos), 2 (bilinear) or 3 (bicubic)");
  EXPECT_EQ(message(PatchLayout::kSquare, R"({"size": {"height": 900, "width": 896}})"),
            "p.json: size 900 × 896 is no multiple of the patch, 14");
  EXPECT_EQ(message(PatchLayout::kSquare, "[]"), "p.json: is array, expected an object");
}

}  // namespace
}  // namespace flare::media
