// The table, sizes and gaps against the golden numbers of artifact.md §18.7.
#include "codec/format.h"

#include <gtest/gtest.h>

#include "base/test_support.h"
#include "codec/test_oracle.h"

namespace flare::codec {
namespace {

uint64_t size_of(std::string_view name, const Shape& shape) {
  const Format* f = find_format(name);
  return f == nullptr ? 0 : encoded_bytes(*f, f->layout_name, shape, 1);
}

TEST(FormatTable, RowsAreInOrderOfIdAndFoundByName) {
  ASSERT_EQ(all_formats().size(), size_t{kFormats});
  for (int i = 0; i < kFormats; ++i) {
    const Format& row = all_formats()[i];
    EXPECT_EQ(static_cast<int>(row.id), i);
    EXPECT_EQ(&format(row.id), &row);
    EXPECT_EQ(find_format(row.name, row.layout_name), &row);
    EXPECT_EQ(find_format(row.name)->name, row.name);
  }
}

TEST(FormatTable, NamesThatWeDoNotWriteAreAbsent) {
  for (const char* name :
       {"int64", "fp8_e4m3fn_row_fp32", "u4z8_g16_fp16", "exl3_4", "q4_g64", "BF16", ""})
    EXPECT_EQ(find_format(name), nullptr) << name;
}

TEST(FormatTable, BitsPerWeightCountScales) {
  EXPECT_EQ(find_format("q4_g64_fp16")->bits_per_weight, 4.25);
  EXPECT_EQ(find_format("q5_g64_fp16")->bits_per_weight, 5.25);
  EXPECT_EQ(find_format("q6_g64_fp16")->bits_per_weight, 6.25);
  EXPECT_EQ(find_format("q8_g32_fp16")->bits_per_weight, 8.5);
  EXPECT_EQ(find_format("bf16")->bits_per_weight, 16);
}

TEST(EncodedBytes, AreTheGoldenSizes) {
  EXPECT_EQ(size_of("q4_g64_fp16", {7168, 5120}), 19496960u);
  EXPECT_EQ(size_of("q5_g64_fp16", {7168, 5120}), 24084480u);
  EXPECT_EQ(size_of("q6_g64_fp16", {7168, 5120}), 28672000u);
  EXPECT_EQ(size_of("q8_g32_fp16", {7168, 5120}), 38993920u);
  EXPECT_EQ(size_of("bf16", {7168, 5120}), 73400320u);
  EXPECT_EQ(size_of("q5_g64_fp16", {2, 130}), 528u);
  EXPECT_EQ(size_of("q4_g64_fp16", {1, 4304}), 2440u);
  EXPECT_EQ(size_of("q8_g32_fp16", {1, 4304}), 4624u);
  EXPECT_EQ(size_of("q4_g64_fp16", {256, 128}), 17408u);
  EXPECT_EQ(size_of("q5_g64_fp16", {256, 128}), 21504u);
  EXPECT_EQ(size_of("bf16", {248320, 128}), 63569920u);
  EXPECT_EQ(size_of("fp32", {}), 4u);
  EXPECT_EQ(size_of("int32", {3, 5, 7}), 420u);
  EXPECT_EQ(size_of("fp16", {9}), 18u);
}

TEST(EncodedBytes, PlanesLieWhereTheGoldenRowSaysSo) {
  const Planes q5 = find_format("q5_g64_fp16")->planes({2, 130});
  ASSERT_EQ(q5.count, 3);
  EXPECT_EQ(q5.plane[0].offset, 0u);
  EXPECT_EQ(q5.plane[0].row_bytes, 4 * 32u);
  EXPECT_EQ(q5.plane[1].offset, 256u);
  EXPECT_EQ(q5.plane[1].row_bytes, 4 * 8u);
  EXPECT_EQ(q5.plane[2].offset, 512u);
  EXPECT_EQ(q5.plane[2].row_bytes, 4 * 2u);
  const Planes q4 = find_format("q4_g64_fp16")->planes({1, 4304});
  ASSERT_EQ(q4.count, 2);
  EXPECT_EQ(q4.plane[0].row_bytes, 2176u);
  EXPECT_EQ(q4.plane[1].row_bytes, 2 * 68u);
}

TEST(EncodedBytes, RefusesWhatDoesNotGoTogether) {
  const Format& q4 = format(FormatId::kQ4G64);
  const Format& bf16 = format(FormatId::kBf16);
  const auto code = [](const Format& f, std::string_view layout, const Shape& shape,
                       uint64_t divisors = 1) {
    return error_of([&] { encoded_bytes(f, layout, shape, divisors); }).code();
  };
  EXPECT_EQ(code(q4, "contiguous_le_v1", {2, 2}), Code::kEncoding);
  EXPECT_EQ(code(bf16, "row_split_k128_v1", {2, 2}), Code::kEncoding);
  EXPECT_EQ(code(q4, "row_split_panel4_v1", {2, 2}), Code::kEncoding);
  EXPECT_EQ(code(q4, "row_split_k128_v1", {2}), Code::kEncoding);
  EXPECT_EQ(code(q4, "row_split_k128_v1", {2, 2, 2}), Code::kEncoding);
  EXPECT_EQ(code(q4, "row_split_k128_v1", {2, 0}), Code::kEncoding);
  EXPECT_EQ(code(q4, "row_split_k128_v1", {2, 2}, 2), Code::kEncoding);
  EXPECT_EQ(code(bf16, "contiguous_le_v1", {2, 2}, 0), Code::kEncoding);
  EXPECT_EQ(code(bf16, "contiguous_le_v1", Shape(17, 1)), Code::kEncoding);
  EXPECT_EQ(code(bf16, "contiguous_le_v1", {1ull << 40, 1ull << 40}), Code::kRange);
  EXPECT_EQ(code(bf16, "contiguous_le_v1", {1ull << 40, 1ull << 40, 2}), Code::kRange);
  EXPECT_EQ(code(q4, "row_split_k128_v1", {2, ~0ull}), Code::kRange);
  EXPECT_EQ(code(q4, "row_split_k128_v1", {1ull << 40, 1ull << 40}), Code::kRange);
}

TEST(GeometryOf, SeesLeadingDimensionsAsRows) {
  EXPECT_EQ(geometry_of({}), (Geometry{1, 1}));
  EXPECT_EQ(geometry_of({7}), (Geometry{1, 7}));
  EXPECT_EQ(geometry_of({2, 3, 5}), (Geometry{6, 5}));
  EXPECT_EQ(element_count({}), 1u);
  EXPECT_EQ(error_of([] { element_count({1ull << 32, 1ull << 32}); }).code(), Code::kRange);
}

TEST(ValidateGaps, FindsEveryByteBetweenPlanesAndNoOther) {
  for (const OracleFormat& oracle : kOracles) {
    const Format& f = format(oracle.id);
    const Geometry g{3, 130};
    const OracleLayout layout(oracle, g.rows, g.cols);
    const uint64_t base_end = g.rows * layout.groups * 32;
    const uint64_t high_end = layout.high_at + g.rows * layout.groups * oracle.high_bytes;
    ByteVector object(layout.bytes);
    validate_gaps(f, g, object);
    for (uint64_t at = 0; at < object.size(); ++at) {
      object[at] = std::byte{0x20};
      const bool in_gap =
          (at >= base_end && at < layout.high_at) || (at >= high_end && at < layout.scale_at);
      const Error error = error_of([&] { validate_gaps(f, g, object); });
      ASSERT_EQ(error.code(), in_gap ? Code::kValue : Code::kInternal) << f.name << " " << at;
      if (in_gap) {
        ASSERT_TRUE(error.message().starts_with("offset " + std::to_string(at) + ":"));
      }
      object[at] = std::byte{0};
    }
    object.pop_back();
    EXPECT_EQ(error_of([&] { validate_gaps(f, g, object); }).code(), Code::kEncoding);
  }
}

}  // namespace
}  // namespace flare::codec
