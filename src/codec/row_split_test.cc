// q4, q5, q6 and q8: golden numbers of artifact.md §18.8 and §18.9, and properties on random data.
#include <gtest/gtest.h>

#include <cfloat>
#include <limits>

#include "base/hash/sha256.h"
#include "base/test_support.h"
#include "codec/test_oracle.h"

namespace flare::codec {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<uint64_t> columns_to_try(const OracleFormat& f) {
  const auto group = static_cast<uint64_t>(f.group);
  return {1, 2, group - 1, group, group + 1, 127, 128, 129, 130, 256, 300};
}

// Decoded values are code · scale exactly; zeros may have either sign.
void expect_decodes_to(const Format& f, Geometry g, const ByteVector& object,
                       const std::function<int(uint64_t, uint64_t)>& code,
                       const std::function<uint16_t(uint64_t, uint64_t)>& scale) {
  for (uint64_t r = 0; r < g.rows; ++r) {
    std::vector<float> out(g.cols + 1, 77.0f);
    f.decode(object.data(), g, r, 0, g.cols, out.data());
    for (uint64_t c = 0; c < g.cols; ++c)
      ASSERT_EQ(out[c], static_cast<double>(fp16_to_f32(scale(r, c / f.group))) * code(r, c))
          << f.name << " row " << r << " column " << c;
    ASSERT_EQ(out[g.cols], 77.0f) << "wrote past the row";
  }
}

struct PackingCase {
  OracleFormat format;
  uint64_t cols;
  std::vector<int> codes;
  std::vector<int> first_bytes;
  uint64_t high_at;
  std::vector<int> high_bytes;
  uint64_t size;
  std::string_view sha;
};

TEST(RowSplitPacking, MatchesTheGoldenObjects) {
  const PackingCase cases[] = {
      {kOracleQ4, 65, {-8, -7, -1, 0, 1, 7}, {0x98, 0x0f, 0x71}, 0, {}, 260, "34f05f624a2ccb4d"},
      {kOracleQ5,
       130,
       {-16, -15, -1, 0, 1, 15},
       {0x10, 0x0f, 0xf1},
       256,
       {0x07},
       520,
       "f31e1fe6a3853ead"},
      {kOracleQ6,
       65,
       {-32, -31, -17, -16, -1, 0, 15, 31},
       {0x10, 0x0f, 0x0f, 0xff},
       256,
       {0xea, 0x43},
       516,
       "348361ff46682f66"},
      {kOracleQ8,
       33,
       {-127, -1, 0, 1, 127},
       {0x81, 0xff, 0x00, 0x01, 0x7f},
       0,
       {},
       264,
       "f858d4046ba3b681"},
  };
  for (const PackingCase& c : cases) {
    const Format& f = format(c.format.id);
    const Geometry g{1, c.cols};
    const auto code = [&](uint64_t, uint64_t k) { return k < c.codes.size() ? c.codes[k] : 0; };
    const auto scale = [](uint64_t, uint64_t group) -> uint16_t {
      return group == 0 ? 0x3e00 : group == 1 ? 0x3400 : 0;
    };
    const ByteVector object = oracle_pack(c.format, 1, c.cols, code, scale);
    ASSERT_EQ(object.size(), c.size) << f.name;
    EXPECT_EQ(f.planes(g).total_bytes, c.size);
    EXPECT_EQ(sha256_hex(object).substr(0, 16), c.sha) << f.name;
    for (size_t i = 0; i < c.first_bytes.size(); ++i)
      EXPECT_EQ(std::to_integer<int>(object[i]), c.first_bytes[i]);
    for (size_t i = 0; i < c.high_bytes.size(); ++i)
      EXPECT_EQ(std::to_integer<int>(object[c.high_at + i]), c.high_bytes[i]);
    expect_decodes_to(f, g, object, code, scale);
    f.validate(object.data(), g, 0, 1);
    validate_gaps(f, g, object);
  }
}

TEST(RowSplitPacking, MatchesTheGoldenFullPattern) {
  const struct {
    OracleFormat format;
    uint64_t size;
    std::string_view sha;
  } cases[] = {{kOracleQ4, 536, "d8c9f62378f658a8"},
               {kOracleQ5, 792, "abda91b210395c32"},
               {kOracleQ6, 792, "958a490318a8a598"},
               {kOracleQ8, 816, "4e2322ee6c386f88"}};
  for (const auto& c : cases) {
    const Format& f = format(c.format.id);
    const Geometry g{3, 130};
    const int span = c.format.qmax - c.format.qmin + 1;
    const auto code = [&](uint64_t r, uint64_t k) {
      return c.format.qmin + static_cast<int>((7 * r + 3 * k) % span);
    };
    const auto scale = [](uint64_t r, uint64_t group) {
      return static_cast<uint16_t>(0x3c00 + 16 * r + group);
    };
    const ByteVector object = oracle_pack(c.format, g.rows, g.cols, code, scale);
    ASSERT_EQ(object.size(), c.size) << f.name;
    EXPECT_EQ(sha256_hex(object).substr(0, 16), c.sha) << f.name;
    expect_decodes_to(f, g, object, code, scale);
    f.validate(object.data(), g, 0, g.rows);
    validate_gaps(f, g, object);
  }
}

// Scale word and leading codes of one encoded group.
struct EncodedGroup {
  uint16_t scale;
  std::vector<int> codes;
};
EncodedGroup encode_group(const OracleFormat& oracle, std::vector<float> values) {
  const size_t n_codes = values.size();
  const Format& f = format(oracle.id);
  values.resize(oracle.group);
  const Geometry g{1, values.size()};
  const ByteVector object = encode_all(f, g, values);
  EncodedGroup out;
  out.scale = load_le<uint16_t>(object.data() + OracleLayout(oracle, 1, g.cols).scale_at);
  std::vector<float> decoded = decode_all(f, g, object.data());
  for (size_t i = 0; i < n_codes; ++i)
    out.codes.push_back(static_cast<int>(decoded[i] / fp16_to_f32(out.scale)));
  f.validate(object.data(), g, 0, 1);
  return out;
}

TEST(GroupedAbsmax, MatchesTheGoldenQ4Groups) {
  const EncodedGroup small = encode_group(kOracleQ4, std::vector<float>(64, bf16_to_f32(0x3636)));
  EXPECT_EQ(small.scale, 0x0006);
  EXPECT_EQ(small.codes, std::vector<int>(64, 7));

  const EncodedGroup reciprocal = encode_group(
      kOracleQ4, {std::bit_cast<float>(0x41a0b334u), std::bit_cast<float>(0x417c7bffu), 0});
  EXPECT_EQ(reciprocal.scale, 0x41bd);
  EXPECT_EQ(reciprocal.codes, (std::vector<int>{7, 6, 0}));

  EXPECT_EQ(encode_group(kOracleQ4, {7, .5, 1.5, 2.5, -.5, -1.5, -2.5}).codes,
            (std::vector<int>{7, 0, 2, 2, 0, -2, -2}));

  const EncodedGroup plain = encode_group(kOracleQ4, {-7, -1, 0, 1, 7, 3.5, -3.5, .25});
  EXPECT_EQ(plain.scale, 0x3c00);
  EXPECT_EQ(plain.codes, (std::vector<int>{-7, -1, 0, 1, 7, 4, -4, 0}));

  const EncodedGroup tiny = encode_group(kOracleQ4, {0x1p-126f});
  EXPECT_EQ(tiny.scale, 0x0001);
  EXPECT_EQ(tiny.codes, std::vector<int>{0});
}

TEST(GroupedAbsmax, TheSmallestSubnormalStillHasAScale) {
  for (const OracleFormat& f : kOracles)
    EXPECT_EQ(encode_group(f, {std::bit_cast<float>(1u)}).scale, 0x0001);
}

TEST(GroupedAbsmax, RefusesScalesBeyondFp16AtTheGoldenBorder) {
  const std::pair<OracleFormat, float> cases[] = {
      {kOracleQ4, 458640}, {kOracleQ5, 982800}, {kOracleQ6, 2031120}, {kOracleQ8, 8321040}};
  for (const auto& [f, border] : cases) {
    for (const float sign : {1.0f, -1.0f}) {
      const Error error = error_of([&] { encode_group(f, {0, 1, sign * border}); });
      EXPECT_EQ(error.code(), Code::kValue);
      EXPECT_TRUE(error.message().starts_with("row 0 column 2: ")) << error.message();
      EXPECT_EQ(encode_group(f, {sign * std::nextafter(border, 0.0f)}).scale, 0x7bff);
    }
    EXPECT_EQ(error_of([&] { encode_group(f, {FLT_MAX}); }).code(), Code::kValue);
  }
}

TEST(GroupedAbsmax, RefusesNonFiniteValuesAndNamesThem) {
  for (const OracleFormat& oracle : kOracles) {
    const Format& f = format(oracle.id);
    const Geometry g{3, 130};
    for (const float bad : {kNan, -kNan, kInf, -kInf}) {
      for (const uint64_t col : {0u, 1u, 63u, 64u, 129u}) {
        std::vector<float> values = random_values(g.rows * g.cols, -3, 3, 5);
        values[2 * g.cols + col] = bad;
        const Error error = error_of([&] { encode_all(f, g, values); });
        ASSERT_EQ(error.code(), Code::kValue);
        ASSERT_TRUE(error.message().starts_with("row 2 column " + std::to_string(col) + ": "))
            << error.message();
      }
    }
  }
}

TEST(GroupedAbsmax, MatchesTheRuleOnRandomData) {
  for (const OracleFormat& oracle : kOracles) {
    const Format& f = format(oracle.id);
    for (const uint64_t cols : columns_to_try(oracle)) {
      for (const auto& [low, high] : {std::pair{-6, 6}, {-30, -16}, {-140, -20}, {8, 17}}) {
        const uint64_t seed = cols * 1000 + static_cast<uint64_t>(high + 200);
        const Geometry g{5, cols};
        const std::vector<float> values = random_values(g.rows * cols, low, high, seed);
        ASSERT_EQ(encode_all(f, g, values), oracle_encode(oracle, g.rows, cols, values))
            << f.name << " columns " << cols << " seed " << seed;
      }
    }
  }
}

TEST(GroupedAbsmax, EncodingDecodedValuesChangesNothing) {
  for (const OracleFormat& oracle : kOracles) {
    const Format& f = format(oracle.id);
    for (const uint64_t cols : columns_to_try(oracle)) {
      // Scales stay normal: among subnormal ones the largest code may miss qmax.
      const Geometry g{4, cols};
      const std::vector<float> values = random_values(g.rows * cols, -4, 8, cols);
      const ByteVector once = encode_all(f, g, values);
      ASSERT_EQ(encode_all(f, g, decode_all(f, g, once.data())), once) << f.name << " " << cols;
    }
  }
}

TEST(GroupedAbsmax, ZeroGroupsHaveZeroBytesWhateverTheSign) {
  for (const OracleFormat& oracle : kOracles) {
    const Format& f = format(oracle.id);
    const Geometry g{2, 200};
    const ByteVector object = encode_all(f, g, std::vector<float>(400, -0.0f));
    EXPECT_EQ(object, ByteVector(object.size())) << f.name;
  }
}

TEST(GroupedAbsmax, WritesEveryByteOfItsRowsAndNoOther) {
  for (const OracleFormat& oracle : kOracles) {
    const Format& f = format(oracle.id);
    const Geometry g{6, 130};
    const std::vector<float> values = random_values(g.rows * g.cols, -4, 4, 9);
    const ByteVector whole = encode_all(f, g, values);
    ByteVector poisoned(whole.size(), std::byte{0xa5});
    encode_rows(f, g, values.data() + 2 * g.cols, 2, 3, poisoned.data());
    const Planes planes = f.planes(g);
    std::vector<bool> ours(whole.size());
    for (int i = 0; i < planes.count; ++i)
      for (uint64_t b = 2 * planes.plane[i].row_bytes; b < 5 * planes.plane[i].row_bytes; ++b)
        ours[planes.plane[i].offset + b] = true;
    for (size_t i = 0; i < whole.size(); ++i)
      ASSERT_EQ(poisoned[i], ours[i] ? whole[i] : std::byte{0xa5}) << f.name << " byte " << i;
  }
}

TEST(RowSplit, RowSlicesByPlanesEqualAnEncodingOfTheirOwn) {
  for (const OracleFormat& oracle : kOracles) {
    const Format& f = format(oracle.id);
    const Geometry whole{7, 190}, slice{3, 190};
    const std::vector<float> values = random_values(whole.rows * whole.cols, -4, 4, 11);
    const ByteVector parent = encode_all(f, whole, values);
    const Planes from = f.planes(whole), to = f.planes(slice);
    ByteVector copied(to.total_bytes);
    for (int i = 0; i < from.count; ++i)
      std::copy_n(parent.begin() +
                      static_cast<ptrdiff_t>(from.plane[i].offset + 2 * from.plane[i].row_bytes),
                  3 * from.plane[i].row_bytes,
                  copied.begin() + static_cast<ptrdiff_t>(to.plane[i].offset));
    const std::vector<float> rows(values.begin() + 2 * 190, values.begin() + 5 * 190);
    EXPECT_EQ(copied, encode_all(f, slice, rows)) << f.name;
  }
}

TEST(RowSplit, DecodesAnyTileAtAnyAlignment) {
  for (const OracleFormat& oracle : kOracles) {
    const Format& f = format(oracle.id);
    const Geometry g{3, 300};
    const std::vector<float> values = random_values(g.rows * g.cols, -4, 4, 21);
    const ByteVector object = encode_all(f, g, values);
    const std::vector<float> all = decode_all(f, g, object.data());
    ByteVector shifted(object.size() + 1);
    std::copy(object.begin(), object.end(), shifted.begin() + 1);
    for (uint64_t col = 0; col < g.cols; col += f.group) {
      for (uint64_t n = 0; n <= g.cols - col; ++n) {
        std::vector<float> tile(n + 1, -5.0f);
        f.decode(shifted.data() + 1, g, 1, col, n, tile.data());
        ASSERT_TRUE(std::equal(tile.begin(), tile.end() - 1, all.begin() + 300 + col));
        ASSERT_EQ(tile[n], -5.0f);
      }
    }
  }
}

TEST(RowSplit, NegativeAndSubnormalScalesAreRead) {
  for (const OracleFormat& oracle : kOracles) {
    const Format& f = format(oracle.id);
    const Geometry g{1, 128};
    const auto code = [&](uint64_t, uint64_t k) {
      return oracle.qmin + static_cast<int>(k) % (oracle.qmax - oracle.qmin + 1);
    };
    for (const uint16_t word : {0x8001, 0xbc00, 0xfbff, 0x0001, 0x03ff, 0x7bff}) {
      const auto scale = [&](uint64_t, uint64_t) { return word; };
      const ByteVector object = oracle_pack(oracle, 1, 128, code, scale);
      f.validate(object.data(), g, 0, 1);
      expect_decodes_to(f, g, object, code, scale);
    }
  }
}

// A legal object with codes all over the range; validate must name (row, column) of one fault.
class RowSplitValidate : public testing::TestWithParam<OracleFormat> {
 protected:
  static constexpr Geometry kGeometry{3, 130};
  RowSplitValidate() : f_(format(GetParam().id)), layout_(GetParam(), 3, 130) {}

  ByteVector make(const std::function<int(uint64_t, uint64_t)>& code,
                  const std::function<uint16_t(uint64_t, uint64_t)>& scale) {
    return oracle_pack(GetParam(), 3, 130, code, scale);
  }
  void expect_refused(const ByteVector& object, uint64_t row, uint64_t col, std::string_view rule) {
    const Error error = error_of([&] { f_.validate(object.data(), kGeometry, 0, 3); });
    EXPECT_EQ(error.code(), Code::kValue);
    const std::string place = fmt::format("row {} column {}: ", row, col);
    EXPECT_TRUE(error.message().starts_with(place)) << error.message() << " for " << place;
    EXPECT_NE(error.message().find(rule), std::string::npos) << error.message();
    if (row > 0) f_.validate(object.data(), kGeometry, 0, row);
    if (row < 2) f_.validate(object.data(), kGeometry, row + 1, 2 - row);
  }

  const Format& f_;
  OracleLayout layout_;
};

TEST_P(RowSplitValidate, RefusesIllegalScales) {
  for (const uint16_t word : {0x8000, 0x7c00, 0xfc00, 0x7c01, 0x7e00, 0xffff}) {
    for (uint64_t bad = 0; bad * f_.group < 130; ++bad) {
      const ByteVector object = make(
          [](uint64_t, uint64_t) { return 0; },
          [&](uint64_t r, uint64_t g) -> uint16_t { return r == 1 && g == bad ? word : 0x3c00; });
      expect_refused(object, 1, bad * f_.group, "scale word 0x");
    }
  }
}

TEST_P(RowSplitValidate, RefusesCodesUnderAZeroScale) {
  for (const uint64_t col : {0u, 5u, 31u, 63u, 64u, 127u, 128u, 129u}) {
    for (const int code : {GetParam().qmin, -1, 1, GetParam().qmax}) {
      const ByteVector object =
          make([&](uint64_t r, uint64_t k) { return r == 2 && k == col ? code : 0; },
               [](uint64_t, uint64_t) -> uint16_t { return 0; });
      expect_refused(object, 2, col, "under scale 0");
    }
  }
}

TEST_P(RowSplitValidate, RefusesEveryPaddingBit) {
  const ByteVector legal = make([](uint64_t, uint64_t k) { return k % 2 == 0 ? 1 : -1; },
                                [](uint64_t, uint64_t) -> uint16_t { return 0x3c00; });
  f_.validate(legal.data(), kGeometry, 0, 3);
  // The same object of all 256 columns tells which bits belong to columns from 130 on.
  for (uint64_t col = 130; col < 256; ++col) {
    for (int bit = 0; bit < GetParam().bits; ++bit) {
      const int code = bit + 1 == GetParam().bits ? -(1 << bit) : 1 << bit;
      const ByteVector wide = oracle_pack(
          GetParam(), 3, 256,
          [&](uint64_t r, uint64_t k) {
            return k < 130 ? (k % 2 == 0 ? 1 : -1) : (r == 1 && k == col ? code : 0);
          },
          [&](uint64_t, uint64_t g) -> uint16_t { return g * f_.group < 130 ? 0x3c00 : 0; });
      ASSERT_EQ(wide.size(), legal.size());
      expect_refused(wide, 1, col, "padding code");
    }
  }
}

TEST_P(RowSplitValidate, RefusesAScaleOfAPaddingGroup) {
  const ByteVector legal = make([](uint64_t, uint64_t) { return 0; },
                                [](uint64_t, uint64_t) -> uint16_t { return 0x3c00; });
  const uint64_t first_padding = (130 + f_.group - 1) / f_.group;
  for (uint64_t group = first_padding; group < layout_.groups; ++group) {
    ByteVector object = legal;
    object[layout_.scale_at + 2 * (layout_.groups + group)] = std::byte{1};
    expect_refused(object, 1, group * f_.group, "padding group");
  }
}

INSTANTIATE_TEST_SUITE_P(All, RowSplitValidate, testing::ValuesIn(kOracles),
                         [](const auto& info) { return std::string(format(info.param.id).name); });

TEST(Q8Validate, RefusesTheWord0x80Everywhere) {
  const Format& f = format(FormatId::kQ8G32);
  const Geometry g{2, 128};
  const ByteVector legal = oracle_pack(
      kOracleQ8, 2, 128, [](uint64_t, uint64_t) { return -127; },
      [](uint64_t, uint64_t) -> uint16_t { return 0x3c00; });
  f.validate(legal.data(), g, 0, 2);
  for (uint64_t col = 0; col < 128; ++col) {
    ByteVector object = legal;
    object[128 + col] = std::byte{0x80};
    const Error error = error_of([&] { f.validate(object.data(), g, 0, 2); });
    ASSERT_EQ(error.code(), Code::kValue);
    ASSERT_TRUE(error.message().starts_with(fmt::format("row 1 column {}: code -128", col)))
        << error.message();
  }
}

TEST(RowSplitValidateRandom, AcceptsWhateverTheEncoderWrites) {
  for (const OracleFormat& oracle : kOracles) {
    const Format& f = format(oracle.id);
    for (const uint64_t cols : columns_to_try(oracle)) {
      const Geometry g{3, cols};
      const ByteVector object = encode_all(f, g, random_values(g.rows * cols, -140, 14, cols + 3));
      f.validate(object.data(), g, 0, g.rows);
      validate_gaps(f, g, object);
    }
  }
}

}  // namespace
}  // namespace flare::codec
