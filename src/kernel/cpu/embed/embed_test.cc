// embed: rows of every format, any scale, any team.
#include "kernel/cpu/embed/embed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "codec/panels.h"
#include "codec/test_oracle.h"

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

// A table tied to an output head lies in panels.
TEST(Embed, GivesRowsOfTwoBitCodesFromPanels) {
  constexpr uint64_t kRows = 37, kCols = 200;
  const codec::Geometry g{kRows, kCols};
  for (const codec::OraclePairs& pairs : {codec::kOracleQ2, codec::kOracleT2}) {
    const codec::Format& format = codec::format(pairs.id);
    SCOPED_TRACE(format.name);
    const codec::ByteVector object = codec::oracle_random_pairs(pairs, g, 11);
    codec::ByteVector panels(codec::panels_bytes(format.id, g));
    codec::pack_panels(format.id, object.data(), g, 0, codec::n_panels(kRows), panels.data());
    codec::Matrix table;
    codec::append_segment(table,
                          {panels.data(), g, format.id, codec::LayoutId::kPanels16, 0, kRows});
    int32_t ids[] = {36, 0, 15, 16, 16};
    constexpr int64_t kT = 5;
    std::vector<float> y(kT * kCols), want(kCols);
    OperandView operands[3];
    operands[0].data = reinterpret_cast<std::byte*>(ids);
    operands[0].rows = kT;
    operands[1].weight = &table;
    operands[2].data = reinterpret_cast<std::byte*>(y.data());
    operands[2].rows = kT;
    operands[2].cols = operands[2].stride = kCols;
    const graph::Immediate immediate = graph::real(1);
    Team team(2);
    team.run([&](Member& member) { v2::embed({operands, {&immediate, 1}, nullptr, {}}, member); });
    for (int64_t t = 0; t < kT; ++t) {
      format.decode(object.data(), g, static_cast<uint64_t>(ids[t]), 0, kCols, want.data());
      EXPECT_TRUE(std::equal(want.begin(), want.end(), y.begin() + t * kCols)) << "row " << ids[t];
    }
  }
}

}  // namespace
}  // namespace flare::kernel
