// The rules of artifact.md §6–§8 for the row-split formats a second time, one lane and one bit at a
// time: what the tests of this folder compare with.
#pragma once

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/float_types.h"
#include "codec/format.h"

namespace flare::codec {

struct OracleFormat {
  FormatId id;
  int bits;
  int group;
  int high_bytes;
  int qmin;
  int qmax;
};
inline constexpr OracleFormat kOracleQ4 = {FormatId::kQ4G64, 4, 64, 0, -8, 7};
inline constexpr OracleFormat kOracleQ5 = {FormatId::kQ5G64, 5, 64, 8, -16, 15};
inline constexpr OracleFormat kOracleQ6 = {FormatId::kQ6G64, 6, 64, 16, -32, 31};
inline constexpr OracleFormat kOracleQ8 = {FormatId::kQ8G32, 8, 32, 0, -127, 127};
inline constexpr OracleFormat kOracles[] = {kOracleQ4, kOracleQ5, kOracleQ6, kOracleQ8};

using ByteVector = std::vector<std::byte>;

inline uint64_t oracle_align_up(uint64_t x, uint64_t a) { return (x + a - 1) / a * a; }

struct OracleLayout {
  OracleLayout(const OracleFormat& f, uint64_t n, uint64_t k)
      : groups(oracle_align_up(k, 128) / f.group),
        high_at(oracle_align_up(n * groups * 32, 256)),
        scale_at(high_at + oracle_align_up(n * groups * f.high_bytes, 256)),
        bytes(scale_at + 2 * n * groups) {}
  uint64_t groups, high_at, scale_at, bytes;
};

// An object of codes and scale words; padding is zero.
inline ByteVector oracle_pack(const OracleFormat& f, uint64_t n, uint64_t k,
                              const std::function<int(uint64_t, uint64_t)>& code,
                              const std::function<uint16_t(uint64_t, uint64_t)>& scale) {
  const OracleLayout layout(f, n, k);
  ByteVector object(layout.bytes);
  const auto set_bit = [&](uint64_t byte, int bit) { object[byte] |= std::byte(1 << bit); };
  for (uint64_t r = 0; r < n; ++r) {
    for (uint64_t c = 0; c < k; ++c) {
      const uint64_t group = r * layout.groups + c / f.group;
      const int lane = static_cast<int>(c % f.group);
      const auto u = static_cast<unsigned>(code(r, c));
      for (int b = 0; b < f.bits; ++b) {
        if ((u >> b & 1) == 0) continue;
        if (f.bits == 8) {
          set_bit(group * 32 + lane, b);
        } else if (b < 4) {
          set_bit(group * 32 + lane / 2, b + 4 * (lane % 2));
        } else {
          const int position = lane * (f.bits - 4) + b - 4;
          set_bit(layout.high_at + group * f.high_bytes + position / 8, position % 8);
        }
      }
    }
    for (uint64_t g = 0; g * f.group < k; ++g) {
      const uint16_t word = scale(r, g);
      const uint64_t at = layout.scale_at + 2 * (r * layout.groups + g);
      object[at] = std::byte(word & 0xff);
      object[at + 1] = std::byte(word >> 8);
    }
  }
  return object;
}

// An object of 2-bit words, lane by lane; padding lanes hold `padding`.
struct OraclePairs {
  FormatId id;
  uint64_t group, base_bytes;
  unsigned padding;
};
inline constexpr OraclePairs kOracleQ2 = {FormatId::kQ2G64, 64, 16, 1};
inline constexpr OraclePairs kOracleT2 = {FormatId::kT2G128, 128, 32, 0};

template <typename Word, typename Scale>
inline ByteVector oracle_pack_pairs(const OraclePairs& f, uint64_t n, uint64_t k, const Word& word,
                                    const Scale& scale) {
  const uint64_t padded = oracle_align_up(k, 128), groups = padded / f.group;
  const uint64_t scale_at = oracle_align_up(n * groups * f.base_bytes, 256);
  ByteVector object(scale_at + 2 * n * groups);
  for (uint64_t r = 0; r < n; ++r) {
    for (uint64_t c = 0; c < padded; ++c)
      object[r * groups * f.base_bytes + c / 4] |=
          static_cast<std::byte>((c < k ? word(r, c) : f.padding) << 2 * (c % 4));
    for (uint64_t g = 0; g * f.group < k; ++g)
      store_le<uint16_t>(&object[scale_at + 2 * (r * groups + g)], scale(r, g));
  }
  return object;
}

// Legal ones: random words, and scales of about 2^-6 and either sign, every seventh one 0.
inline ByteVector oracle_random_pairs(const OraclePairs& f, Geometry g, uint64_t seed) {
  std::mt19937_64 random(seed);
  const bool is_ternary = f.id == FormatId::kT2G128;  // no −2, and zeros under a scale of 0
  std::vector<uint16_t> scales(g.rows * oracle_align_up(g.cols, f.group) / f.group);
  for (uint16_t& scale : scales)
    if (random() % 7 != 0) scale = static_cast<uint16_t>(0x2400 | (random() & 0x83ff));
  const auto scale = [&](uint64_t r, uint64_t group) {
    return scales[r * (scales.size() / g.rows) + group];
  };
  const auto word = [&](uint64_t r, uint64_t c) -> unsigned {
    if (!is_ternary) return random() % 4;
    return scale(r, c / f.group) == 0 ? 0 : random() % 3 * 5 / 3;  // 0, 1 or 3
  };
  return oracle_pack_pairs(f, g.rows, g.cols, word, scale);
}

// fp16 word nearest to a non-negative value, ties to even, by search over all words.
inline uint16_t oracle_fp16(double value) {
  const auto widen = [](int word) {
    const int exponent = word >> 10, mantissa = word & 0x3ff;
    return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  };
  int low = 0, high = 0x7c00;  // widen(0x7c00) = 65536, the border of RNE to infinity
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (widen(middle) <= value ? low : high) = middle;
  }
  const double down = value - widen(low), up = widen(high) - value;
  if (down != up) return static_cast<uint16_t>(down < up ? low : high);
  return static_cast<uint16_t>(low % 2 == 0 ? low : high);
}

// §8.2 word for word.
inline ByteVector oracle_encode(const OracleFormat& f, uint64_t n, uint64_t k,
                                const std::vector<float>& x) {
  const uint64_t real_groups = (k + f.group - 1) / f.group;
  std::vector<uint16_t> scales(n * real_groups);
  std::vector<int> codes(n * k);
  for (uint64_t r = 0; r < n; ++r) {
    for (uint64_t g = 0; g < real_groups; ++g) {
      const uint64_t begin = r * k + g * f.group;
      const uint64_t end = r * k + std::min<uint64_t>((g + 1) * f.group, k);
      float a = 0;
      for (uint64_t i = begin; i < end; ++i) a = std::max(a, std::fabs(x[i]));
      if (a == 0) continue;
      const float ratio = a / static_cast<float>(f.qmax);
      const uint16_t s = std::max<uint16_t>(oracle_fp16(ratio), 1);
      scales[r * real_groups + g] = s;
      const float v = 1.0f / fp16_to_f32(s);
      for (uint64_t i = begin; i < end; ++i) {
        const float product = x[i] * v;
        const int rounded = static_cast<int>(std::nearbyint(static_cast<double>(product)));
        codes[i] = std::clamp(rounded, f.qmin, f.qmax);
      }
    }
  }
  return oracle_pack(
      f, n, k, [&](uint64_t r, uint64_t c) { return codes[r * k + c]; },
      [&](uint64_t r, uint64_t g) { return scales[r * real_groups + g]; });
}

// Rows [row, row + n_rows) of `src` through Format::encode into an object of g.
inline void encode_rows(const Format& format, Geometry g, const float* src, uint64_t row,
                        uint64_t n_rows, std::byte* object) {
  const Planes planes = format.planes(g);
  std::byte* dst[kMaxPlanes] = {};
  for (int i = 0; i < planes.count; ++i)
    dst[i] = object + planes.plane[i].offset + row * planes.plane[i].row_bytes;
  format.encode(src, n_rows, g, dst);
}

inline ByteVector encode_all(const Format& format, Geometry g, const std::vector<float>& src) {
  ByteVector object(format.planes(g).total_bytes);
  encode_rows(format, g, src.data(), 0, g.rows, object.data());
  return object;
}

inline std::vector<float> decode_all(const Format& format, Geometry g, const std::byte* object) {
  std::vector<float> out(g.rows * g.cols);
  for (uint64_t r = 0; r < g.rows; ++r)
    format.decode(object, g, r, 0, g.cols, out.data() + r * g.cols);
  return out;
}

// Values of very different magnitudes: groups of a row differ by powers of two, some are zero.
inline std::vector<float> random_values(uint64_t count, int low_exponent, int high_exponent,
                                        uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  int exponent = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (i % 32 == 0)
      exponent = low_exponent + static_cast<int>(random() % (high_exponent - low_exponent + 1));
    const double unit = static_cast<double>(random() >> 11) * 0x1p-52 - 1.0;
    values[i] = i / 32 % 7 == 3 ? 0.0f : static_cast<float>(std::ldexp(unit, exponent));
  }
  return values;
}

}  // namespace flare::codec
