// The search for scales: never worse than absmax in binary64, valid, the same at every ISA level.
#include "codec/grouped_search.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "codec/search.h"
#include "codec/test_oracle.h"

namespace flare::codec {
namespace {

ByteVector search_all(const Format& format, Geometry g, const std::vector<float>& src,
                      const float* importance) {
  const Planes planes = format.planes(g);
  ByteVector object(planes.total_bytes);
  std::byte* dst[kMaxPlanes] = {};
  for (int i = 0; i < planes.count; ++i) dst[i] = object.data() + planes.plane[i].offset;
  search_of(format.id)(src.data(), g.rows, g, importance, dst);
  return object;
}

// Σ w·(x − decoded)² of each group.
std::vector<double> group_errors(const Format& f, Geometry g, const std::vector<float>& x,
                                 const ByteVector& object, const std::vector<float>& w) {
  const std::vector<float> decoded = decode_all(f, g, object.data());
  const uint64_t groups = (g.cols + f.group - 1) / f.group;
  std::vector<double> out(g.rows * groups);
  for (uint64_t r = 0; r < g.rows; ++r)
    for (uint64_t c = 0; c < g.cols; ++c) {
      const uint64_t i = r * g.cols + c;
      const double miss = static_cast<double>(x[i]) - static_cast<double>(decoded[i]);
      out[r * groups + c / f.group] += static_cast<double>(w[c]) * miss * miss;
    }
  return out;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum;
}

std::vector<float> gaussian(uint64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> out(n);
  for (float& v : out) v = normal(random);
  return out;
}

// A few columns matter a thousand times more than the others; some not at all.
std::vector<float> uneven_importance(uint64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> out(n);
  for (float& v : out) v = std::ldexp(1.0f, static_cast<int>(random() % 10));
  for (uint64_t i = 0; i < n; i += 7) out[i] = 0;
  return out;
}

TEST(GroupedSearch, IsNeverWorseThanAbsmaxInAnyGroup) {
  for (const OracleFormat& oracle : kOracles) {
    const Format& f = format(oracle.id);
    for (const auto& [low, high] : {std::pair{-6, 6}, {-30, -16}, {-140, -20}, {8, 14}}) {
      const Geometry g{4, 330};
      const std::vector<float> x = random_values(g.rows * g.cols, low, high, 77 + high);
      for (const bool weighted : {false, true}) {
        const std::vector<float> w =
            weighted ? uneven_importance(g.cols, 5) : std::vector<float>(g.cols, 1.0f);
        const ByteVector found = search_all(f, g, x, weighted ? w.data() : nullptr);
        f.validate(found.data(), g, 0, g.rows);
        validate_gaps(f, g, found);
        const auto before = group_errors(f, g, x, encode_all(f, g, x), w);
        const auto after = group_errors(f, g, x, found, w);
        for (size_t i = 0; i < before.size(); ++i)
          ASSERT_LE(after[i], before[i]) << f.name << " group " << i << " weighted " << weighted;
      }
    }
  }
}

// What the search is for: gaussian weights lose a good part of their error, heavy tails more.
TEST(GroupedSearch, GainsWhatItIsFor) {
  const std::pair<OracleFormat, double> kLeast[] = {{kOracleQ4, 0.90}, {kOracleQ5, 0.97}};
  for (const auto& [oracle, most] : kLeast) {
    const Format& f = format(oracle.id);
    const Geometry g{16, 512};
    const std::vector<float> x = gaussian(g.rows * g.cols, 3);
    const std::vector<float> ones(g.cols, 1.0f);
    const double before = sum_of(group_errors(f, g, x, encode_all(f, g, x), ones));
    const double after = sum_of(group_errors(f, g, x, search_all(f, g, x, nullptr), ones));
    EXPECT_LT(after, most * before) << f.name;
  }
}

TEST(GroupedSearch, HeedsTheImportanceOfColumns) {
  const Format& f = format(FormatId::kQ4G64);
  const Geometry g{16, 512};
  const std::vector<float> x = gaussian(g.rows * g.cols, 4);
  const std::vector<float> w = uneven_importance(g.cols, 6);
  const double plain = sum_of(group_errors(f, g, x, search_all(f, g, x, nullptr), w));
  const double weighted = sum_of(group_errors(f, g, x, search_all(f, g, x, w.data()), w));
  EXPECT_LT(weighted, plain);
}

TEST(GroupedSearch, KeepsZerosAndRefusesWhatAbsmaxRefuses) {
  for (const OracleFormat& oracle : kOracles) {
    const Format& f = format(oracle.id);
    const Geometry g{2, 200};
    EXPECT_EQ(search_all(f, g, std::vector<float>(400, -0.0f), nullptr),
              ByteVector(f.planes(g).total_bytes));
    for (const float bad : {INFINITY, -INFINITY, NAN, 3e38f}) {
      std::vector<float> x = gaussian(400, 5);
      x[271] = bad;
      try {
        search_all(f, g, x, nullptr);
        ADD_FAILURE() << f.name << " " << bad;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kValue);
        EXPECT_TRUE(error.message().starts_with("row 1 column 71: ")) << error.message();
      }
    }
  }
}

// Columns of no importance cannot make the error of the others grow without bound or the codes
// illegal: an outlier among them is cut off.
TEST(GroupedSearch, CutsOffOutliersThatDoNotMatter) {
  const Format& f = format(FormatId::kQ4G64);
  const Geometry g{1, 64};
  std::vector<float> x = gaussian(64, 8), w(64, 1.0f);
  x[9] = 0.1f;
  w[9] = 0;
  const ByteVector found = search_all(f, g, x, w.data());
  f.validate(found.data(), g, 0, 1);
  EXPECT_LT(group_errors(f, g, x, found, w)[0],
            0.6 * group_errors(f, g, x, encode_all(f, g, x), w)[0]);
}

TEST(GroupMath, GivesTheSameBitsAtEveryLevel) {
  const Isa machine = machine_isa().value();
  const GroupMath& floor = group_math(Isa::kV2);
  for (const Isa isa : {Isa::kV3, Isa::kV4}) {
    if (isa > machine) continue;
    const GroupMath& math = group_math(isa);
    for (const int n : {16, 32, 64, 256})
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const std::vector<float> x = random_values(n, -4, 4, seed);
        const std::vector<float> w = uneven_importance(n, seed);
        const Grid grid{3.0f + static_cast<float>(seed), 0.3f, 0.25f, -8, 7};
        ASSERT_EQ(math.top(x.data(), n), floor.top(x.data(), n));
        ASSERT_EQ(math.error(x.data(), w.data(), n, grid),
                  floor.error(x.data(), w.data(), n, grid));
        const GridSums a = math.sums(x.data(), w.data(), n, grid);
        const GridSums b = floor.sums(x.data(), w.data(), n, grid);
        ASSERT_TRUE(a.q == b.q && a.qq == b.qq && a.xq == b.xq);
        float one[2], other[2];
        math.moments(x.data(), w.data(), n, &one[0], &one[1]);
        floor.moments(x.data(), w.data(), n, &other[0], &other[1]);
        ASSERT_TRUE(one[0] == other[0] && one[1] == other[1]);
        std::vector<int8_t> codes(n), expected(n);
        math.quantise(x.data(), n, grid, codes.data());
        floor.quantise(x.data(), n, grid, expected.data());
        ASSERT_EQ(codes, expected);
      }
  }
}

}  // namespace
}  // namespace flare::codec
