// Resizing against Pillow 12, byte for byte, and its inner loop against the formula.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/cpu.h"
#include "frontend/media/media_golden.h"
#include "frontend/media/resample_kernel.h"

namespace flare::media {
namespace {

Filter filter_of(std::string_view name) {
  return name == "bilinear"  ? Filter::kBilinear
         : name == "bicubic" ? Filter::kBicubic
                             : Filter::kLanczos;
}

TEST(Resize, EqualsPillowInEveryByte) {
  SKIP_WITHOUT_GOLDENS();
  const auto goldens = golden::tensors("resize.safetensors");
  std::map<std::string, Image> decoded;
  int n_checked = 0;
  for (const auto& [key, want] : goldens) {
    if (key.starts_with("src/")) continue;
    const size_t slash = key.find('/'), last = key.rfind('/');
    const std::string name = key.substr(slash + 1, last - slash - 1);
    if (!decoded.contains(name)) {
      const auto stored = goldens.find("src/" + name);
      decoded[name] = stored != goldens.end() ? stored->second.image()
                                              : decode_image(as_bytes(golden::image_file(name)));
    }
    const Image got = resize(decoded[name], static_cast<uint32_t>(want.shape[0]),
                             static_cast<uint32_t>(want.shape[1]), filter_of(key.substr(0, slash)));
    EXPECT_EQ(got.rgb, want.image().rgb) << key;
    ++n_checked;
  }
  EXPECT_EQ(n_checked, 121);
}

// Of `weigh_rows`, plainly.
std::vector<uint8_t> weighed(const std::vector<int32_t>& weights, const std::vector<uint8_t>& in,
                             size_t stride, size_t n) {
  std::vector<uint8_t> out(n);
  for (size_t i = 0; i < n; ++i) {
    int64_t sum = 1 << 21;
    for (size_t k = 0; k < weights.size(); ++k) sum += int64_t{weights[k]} * in[k * stride + i];
    out[i] = static_cast<uint8_t>(std::clamp<int64_t>(sum >> 22, 0, 255));
  }
  return out;
}

TEST(ResampleKernel, IsTheFormulaAtEveryLevel) {
  std::mt19937 random(3);
  std::vector<WeighRows> levels = {weigh_rows_v2};
  if (machine_isa() >= Isa::kV3) levels.push_back(weigh_rows_v3);
  for (size_t n = 0; n < 140; ++n) {
    const size_t n_taps = 1 + random() % 9, stride = n + random() % 5;
    std::vector<int32_t> weights(n_taps);
    for (int32_t& weight : weights)  // |sum| below 1.8 · 2^22
      weight = static_cast<int32_t>(random() % (7'500'000 * 2 / n_taps)) -
               static_cast<int32_t>(7'500'000 / n_taps);
    // No byte behind the last tap's row: reading past it is seen by the sanitizer.
    std::vector<uint8_t> in((n_taps - 1) * stride + n);
    for (uint8_t& byte : in) byte = random() % 3 == 0 ? 255 : static_cast<uint8_t>(random());
    for (const WeighRows run : levels) {
      std::vector<uint8_t> out(n + 8, 0xa5);
      run(weights.data(), static_cast<int>(n_taps), in.data(), stride, n, out.data());
      EXPECT_TRUE(std::all_of(out.begin() + n, out.end(), [](uint8_t b) { return b == 0xa5; }));
      out.resize(n);
      EXPECT_EQ(out, weighed(weights, in, stride, n)) << n;
    }
  }
}

TEST(Resize, HoldsAWindowOfRowsOnly) {
  // Far down and far up in one axis each; a flat picture stays flat, whatever the window does.
  for (const auto& [height, width, new_height, new_width] : std::vector<std::array<uint32_t, 4>>{
           {9000, 3, 7, 500}, {2, 9000, 700, 5}, {5000, 40, 4999, 41}}) {
    const Image flat{width, height, std::vector<uint8_t>(size_t{width} * height * 3, 77)};
    for (const Filter filter : {Filter::kBilinear, Filter::kBicubic, Filter::kLanczos}) {
      const Image out = resize(flat, new_height, new_width, filter);
      EXPECT_EQ(out.rgb, std::vector<uint8_t>(size_t{new_width} * new_height * 3, 77));
    }
  }
}

}  // namespace
}  // namespace flare::media
