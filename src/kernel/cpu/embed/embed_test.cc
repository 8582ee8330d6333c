// embed: rows of every format, any scale, any team.
#include "kernel/cpu/embed/embed.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace flare::kernel {
namespace {

constexpr float kPoison = -12345.75f;

TEST(Embed, GivesScaledRowsOfEveryFormatAndWritesNothingElse) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const codec::Format& format : codec::all_formats()) {
    // Not encoded from numbers, or not row by row.
    if (format.layout == codec::LayoutId::kGgufBlocks ||
        format.layout == codec::LayoutId::kBlockScale ||
        (format.layout == codec::LayoutId::kRowBlocks && format.id != codec::FormatId::kMxfp4 &&
         format.id != codec::FormatId::kMxfp8) ||
        format.id == codec::FormatId::kQ2G64 || format.id == codec::FormatId::kT2G128)
      continue;
    SCOPED_TRACE(format.name);
    constexpr uint64_t kRows = 9, kCols = 77;
    const codec::Geometry g{kRows, kCols};
    const codec::Planes planes = format.planes(g);
    std::vector<std::byte> object(planes.total_bytes);
    std::byte* dst[codec::kMaxPlanes] = {};
    for (int i = 0; i < planes.count; ++i) dst[i] = object.data() + planes.plane[i].offset;
    std::vector<float> values(kRows * kCols);
    for (float& value : values) value = std::round(normal(random) * 20);
    format.encode(values.data(), kRows, g, dst);
    // Two segments in the other order: logical row r is stored row (r + 4) mod 9.
    codec::Matrix table;
    codec::append_segment(table, {object.data(), g, format.id, format.layout, 4, 9});
    codec::append_segment(table, {object.data(), g, format.id, format.layout, 0, 4});
    for (const double scale : {1.0, 33.941125496954285})
      for (const int n_members : {1, 2, 3}) {
        Team team(n_members);
        int32_t ids[] = {8, 0, 4, 4, 5};
        constexpr int64_t kT = 5, kStride = kCols + 3;
        std::vector<float> y(kT * kStride + 1, kPoison), want(kT * kStride + 1, kPoison);
        OperandView operands[3];
        operands[0].data = reinterpret_cast<std::byte*>(ids);
        operands[0].rows = kT;
        operands[1].weight = &table;
        operands[2].data = reinterpret_cast<std::byte*>(y.data());
        operands[2].rows = kT;
        operands[2].cols = kCols;
        operands[2].stride = kStride;
        const graph::Immediate immediate = graph::real(scale);
        const LaunchArgs args{operands, {&immediate, 1}, nullptr, {}};
        team.run([&](Member& member) { v2::embed(args, member); });
        std::vector<float> row(kCols);
        for (int64_t t = 0; t < kT; ++t) {
          format.decode(object.data(), g, (ids[t] + 4) % kRows, 0, kCols, row.data());
          for (uint64_t i = 0; i < kCols; ++i)
            want[t * kStride + i] = static_cast<float>(scale * row[i]);
        }
        EXPECT_EQ(std::memcmp(y.data(), want.data(), y.size() * sizeof(float)), 0);
        operands[2].data = reinterpret_cast<std::byte*>(y.data());
        std::fill(y.begin(), y.end(), kPoison);
        embed_ref(args);
        EXPECT_EQ(std::memcmp(y.data(), want.data(), y.size() * sizeof(float)), 0);
      }
  }
}

}  // namespace
}  // namespace flare::kernel
