// Matrices of segments: joined where they are neighbours, read row by row across formats.
#include "codec/matrix.h"

#include <gtest/gtest.h>

#include "codec/test_oracle.h"

namespace flare::codec {
namespace {

struct Parent {
  Parent(FormatId id, uint64_t rows, uint64_t cols, uint64_t seed) : f(format(id)), g{rows, cols} {
    object = encode_all(f, g, random_values(rows * cols, -4, 4, seed));
    values = decode_all(f, g, object.data());
  }
  Segment segment(uint64_t begin, uint64_t end) const {
    return {object.data(), g, f.id, f.layout, begin, end};
  }
  const Format& f;
  Geometry g;
  ByteVector object;
  std::vector<float> values;
};

TEST(Matrix, JoinsNeighboursOnly) {
  const Parent a(FormatId::kQ4G64, 10, 70, 1), b(FormatId::kBf16, 4, 70, 2);
  Matrix m;
  append_segment(m, a.segment(2, 4));
  append_segment(m, a.segment(4, 7));
  EXPECT_EQ(m.segments.size(), 1u);
  append_segment(m, a.segment(7, 7));
  EXPECT_EQ(m.segments.size(), 1u);
  append_segment(m, a.segment(8, 9));
  EXPECT_EQ(m.segments.size(), 2u);
  append_segment(m, b.segment(0, 1));
  append_segment(m, a.segment(9, 10));
  append_segment(m, a.segment(2, 3));
  EXPECT_EQ(m.segments.size(), 5u);
  EXPECT_EQ(m.rows, 9u);
  EXPECT_EQ(m.cols, 70u);
}

TEST(Matrix, DecodesRowsOfEverySegment) {
  const Parent a(FormatId::kQ6G64, 9, 130, 1), b(FormatId::kFp16, 4, 130, 2);
  Matrix m;
  append_segment(m, a.segment(5, 8));
  append_segment(m, b.segment(1, 3));
  append_segment(m, a.segment(0, 2));
  const std::vector<std::pair<const Parent*, uint64_t>> expected = {
      {&a, 5}, {&a, 6}, {&a, 7}, {&b, 1}, {&b, 2}, {&a, 0}, {&a, 1}};
  ASSERT_EQ(m.rows, expected.size());
  for (uint64_t r = 0; r < m.rows; ++r) {
    std::vector<float> row(131, -9.0f);
    decode_row(m, r, row.data());
    const auto& [parent, parent_row] = expected[r];
    EXPECT_TRUE(std::equal(row.begin(), row.end() - 1, parent->values.begin() + parent_row * 130))
        << r;
    EXPECT_EQ(row[130], -9.0f);
  }
}

}  // namespace
}  // namespace flare::codec
