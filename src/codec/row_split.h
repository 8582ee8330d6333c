// row_split_k128_v1 (artifact.md §7.2) and grouped_absmax (§8.2), written once for every code.
//
// A code supplies
//   static constexpr FormatId kId; kName; kBits; kGroup;        lanes that share a scale
//   static constexpr kBaseBytes;                                of a group
//   static constexpr kHighBytes;                                of a group; 0: no high plane
//   static constexpr kQmin; kQmax;                              range of legal codes
//   static constexpr kScales;                                   what scale words may be
//   static void pack8(uint64_t lanes, std::byte* base, std::byte* high);
//   static uint64_t unpack8(const std::byte* base, const std::byte* high);
//   static uint64_t high8(const std::byte* high);               with a high plane: what is above a
//                                                               nibble, lane by lane
// where `lanes` holds eight signed codes, lane i in byte i, and base and high point at the bytes of
// these eight lanes (kBaseBytes/kGroup·8 and kHighBytes/kGroup·8 of them). A code without an
// encoder (§8.7) derives from ImportedCode.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/checked.h"
#include "base/float_types.h"
#include "codec/format.h"
#include "codec/group_math.h"
#include "codec/grouped_search.h"
#include "codec/lanes.h"

namespace flare::codec {

inline constexpr std::string_view kRowSplitName = "row_split_k128_v1";
inline constexpr uint64_t kRowSplitColumns = 128;  // rows are padded to a multiple of this
inline constexpr uint64_t kRowSplitPlane = 256;    // planes begin at a multiple of this

// Scale words beyond the finite ones (§6.3).
enum class ScaleRule : uint8_t {
  kNoNegativeZero,  // −0 is illegal, and under +0 all codes are 0
  kAny,             // q2: −0 too, and any code under any scale
};
// Codes that come from files alone.
struct ImportedCode {};

// Sums byte by byte, without carries between them.
inline uint64_t add_bytes(uint64_t a, uint64_t b) {
  constexpr uint64_t kTop = 0x8080808080808080u;
  return ((a & ~kTop) + (b & ~kTop)) ^ ((a ^ b) & kTop);
}
// Spreads bit `kBits − 1` of every byte upwards: two's complement of kBits becomes int8.
template <int kBits>
uint64_t sign_extend_lanes(uint64_t lanes) {
  constexpr uint64_t kSign = 0x0101010101010101u << (kBits - 1);
  constexpr uint64_t kSpread = (256u >> (kBits - 1)) - 2;  // 2^(kBits−1)·this fills the bits above
  return lanes | (lanes & kSign) * kSpread;
}

template <typename C>
struct RowSplit {
  static constexpr uint64_t kGroup = C::kGroup;
  static constexpr bool kHasHigh = C::kHighBytes != 0;
  static constexpr int kScalePlane = kHasHigh ? 2 : 1;
  static constexpr uint64_t kBaseBytes = C::kBaseBytes;
  static constexpr bool kHasEncoder = !std::is_base_of_v<ImportedCode, C>;
  using Codes = int8_t[kGroup];

  static Planes planes(Geometry g) {
    if (g.rows == 0 || g.cols == 0)
      throw Error(Code::kEncoding, "{}: a matrix of {} × {}, at least one row and column expected",
                  C::kName, g.rows, g.cols);
    const uint64_t groups = checked_align_up(g.cols, kRowSplitColumns, "row") / kGroup;
    Planes out;
    append_plane(out, g.rows, checked_mul(groups, kBaseBytes, "row size"));
    if constexpr (kHasHigh) append_plane(out, g.rows, checked_mul(groups, C::kHighBytes));
    append_plane(out, g.rows, checked_mul(groups, 2));
    return out;
  }

  static void decode(const std::byte* object, Geometry g, uint64_t row, uint64_t col,
                     uint64_t n_cols, float* out) {
    FLARE_ASSERT(row < g.rows && col % kGroup == 0 && col <= g.cols && n_cols <= g.cols - col);
    const Row at(planes(g), object, row);
    for (uint64_t done = 0; done < n_cols; done += kGroup) {
      const uint64_t group = (col + done) / kGroup;
      alignas(16) Codes codes;
      at.unpack(group, codes);
      const float scale = fp16_to_f32(at.scale_word(group));
      if (n_cols - done >= kGroup) {
        for (uint64_t i = 0; i < kGroup; ++i) out[done + i] = scale * static_cast<float>(codes[i]);
      } else {
        for (uint64_t i = 0; i < n_cols - done; ++i)
          out[done + i] = scale * static_cast<float>(codes[i]);
      }
    }
  }

  static void codes(const std::byte* object, Geometry g, uint64_t row, uint8_t* out) {
    constexpr uint64_t kRaise = 0x0101010101010101u << (C::kBits - 1);
    constexpr uint64_t kKeep = 0x0101010101010101u * ((1u << C::kBits) - 1);
    const Planes p = planes(g);
    const Row at(p, object, row);
    const uint64_t lanes = p.plane[0].row_bytes / kBaseBytes * kGroup;
    constexpr bool kHasNibbles = C::kBits == 4 || kHasHigh;
    if constexpr (kHasNibbles) unpack_all_nibbles(at.base, lanes, out);
    for (uint64_t i = 0; i < lanes; i += 8) {
      const std::byte* high = at.high + i * C::kHighBytes / kGroup;
      uint64_t eight;
      if constexpr (kHasNibbles) {
        std::memcpy(&eight, out + i, 8);
        if constexpr (kHasHigh) eight |= C::high8(high) << 4;
      } else {
        eight = C::unpack8(at.base + i * kBaseBytes / kGroup, high);
      }
      const uint64_t raised = (eight ^ kRaise) & kKeep;  // two's complement plus half its range
      std::memcpy(out + i, &raised, 8);
    }
  }

  static void encode(const float* src, uint64_t n_rows, Geometry g, std::byte* const* dst) {
    encode_groups(src, n_rows, g, nullptr, dst);
  }
  static void search(const float* src, uint64_t n_rows, Geometry g, const float* importance,
                     std::byte* const* dst) {
    const GroupWeights weights(importance, g.cols, kGroup);
    encode_groups(src, n_rows, g, &weights, dst);
  }

  // With weights the scales are searched for.
  static void encode_groups(const float* src, uint64_t n_rows, Geometry g,
                            const GroupWeights* weights, std::byte* const* dst) {
    const Planes p = planes(g);
    const GroupMath& math = group_math();
    const uint64_t groups = p.plane[kScalePlane].row_bytes / 2;
    for (uint64_t row = 0; row < n_rows; ++row) {
      const float* from = src + row * g.cols;
      std::byte* base = dst[0] + row * p.plane[0].row_bytes;
      std::byte* high = kHasHigh ? dst[1] + row * p.plane[1].row_bytes : nullptr;
      std::byte* scale = dst[kScalePlane] + row * p.plane[kScalePlane].row_bytes;
      for (uint64_t group = 0; group < groups; ++group) {
        const uint64_t begin = std::min(group * kGroup, g.cols);
        const uint64_t n_real = std::min(kGroup, g.cols - begin);
        float padded[kGroup];
        const float* values = from + begin;
        if (n_real < kGroup) {
          std::fill(std::copy_n(values, n_real, padded), padded + kGroup, 0.0f);
          values = padded;
        }
        const float* w = weights ? weights->of_group(group) : nullptr;
        if (!encode_group(math, values, w, base, high, scale)) refuse(values, n_real, row, begin);
        base += kBaseBytes;
        if constexpr (kHasHigh) high += C::kHighBytes;
        scale += 2;
      }
    }
  }

  static void validate(const std::byte* object, Geometry g, uint64_t row, uint64_t n_rows) {
    const Planes p = planes(g);
    FLARE_ASSERT(row <= g.rows && n_rows <= g.rows - row);
    const uint64_t groups = p.plane[kScalePlane].row_bytes / 2;
    for (uint64_t r = row; r < row + n_rows; ++r) {
      const Row at(p, object, r);
      for (uint64_t group = 0; group < groups; ++group) validate_group(at, group, r, g.cols);
    }
  }

  static constexpr auto encode_function() -> decltype(&RowSplit::encode) {
    if constexpr (kHasEncoder) return encode;
    return nullptr;
  }

  static Format format() {
    return {.id = C::kId,
            .name = C::kName,
            .layout = LayoutId::kRowSplitK128,
            .layout_name = kRowSplitName,
            .group = kGroup,
            .quantised = true,
            .word_bytes = 0,
            .bits_per_weight = C::kBits + 16.0 / kGroup,
            .planes = planes,
            .decode = decode,
            .codes = kHasEncoder ? codes : nullptr,
            .encode = encode_function(),
            .validate = validate};
  }

 private:
  // Where the groups of one row lie.
  struct Row {
    Row(const Planes& p, const std::byte* object, uint64_t row)
        : base(object + p.plane[0].offset + row * p.plane[0].row_bytes),
          high(object + p.plane[1].offset + row * p.plane[1].row_bytes),  // unused without high
          scale(object + p.plane[kScalePlane].offset + row * p.plane[kScalePlane].row_bytes) {}
    uint16_t scale_word(uint64_t group) const { return load_le<uint16_t>(scale + 2 * group); }
    void unpack(uint64_t group, Codes& codes) const {
      const std::byte* b = base + group * kBaseBytes;
      const std::byte* h = high + group * C::kHighBytes;
      for (uint64_t i = 0; i < kGroup; i += 8) {
        const uint64_t lanes =
            C::unpack8(b + i * kBaseBytes / kGroup, h + i * C::kHighBytes / kGroup);
        std::memcpy(codes + i, &lanes, 8);
      }
    }
    const std::byte* base;
    const std::byte* high;
    const std::byte* scale;
  };

  static void append_plane(Planes& planes, uint64_t rows, uint64_t row_bytes) {
    const uint64_t offset = checked_align_up(planes.total_bytes, kRowSplitPlane, "object size");
    planes.plane[planes.count++] = {offset, row_bytes};
    planes.total_bytes =
        checked_add(offset, checked_mul(rows, row_bytes, "plane size"), "object size");
  }

  // §8.2 on one group of kGroup values, with weights §8.3. False for what it refuses: a non-finite
  // value, or a magnitude whose scale is not finite.
  static bool encode_group(const GroupMath& math, const float* x, const float* w, std::byte* base,
                           std::byte* high, std::byte* scale) {
    constexpr int n = static_cast<int>(kGroup);
    constexpr ScaleRange range = {C::kQmin, C::kQmax};
    const int32_t top = math.top(x, n);
    if (top >= 0x7f800000) return false;
    uint16_t word = 0;
    alignas(64) Codes codes = {};
    if (top != 0) {
      const float largest = std::bit_cast<float>(top);
      word = absmax_scale(largest, range);
      if (word >= 0x7c00) return false;
      if (w != nullptr) word = search_scale(math, x, w, n, largest, word, range);
      math.quantise(x, n, grid_of(word, range), codes);
    }
    for (uint64_t i = 0; i < kGroup; i += 8)
      C::pack8(load_le<uint64_t>(reinterpret_cast<const std::byte*>(codes + i)),
               base + i * kBaseBytes / kGroup, kHasHigh ? high + i * C::kHighBytes / kGroup : high);
    store_le(scale, word);
    return true;
  }

  [[noreturn]] static void refuse(const float* values, uint64_t n_real, uint64_t row,
                                  uint64_t first_col) {
    uint64_t worst = 0;
    for (uint64_t i = 0; i < n_real; ++i) {
      const uint32_t magnitude = std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu;
      if (magnitude >= 0x7f800000u)
        throw Error(Code::kValue, "row {} column {}: {}, a finite value expected", row,
                    first_col + i, values[i]);
      if (magnitude > (std::bit_cast<uint32_t>(values[worst]) & 0x7fffffffu)) worst = i;
    }
    throw Error(Code::kValue,
                "row {} column {}: {} needs a scale above fp16, a magnitude below 65520·{} "
                "expected for {}",
                row, first_col + worst, values[worst], C::kQmax, C::kName);
  }

  static void validate_group(const Row& at, uint64_t group, uint64_t row, uint64_t cols) {
    const uint16_t scale = at.scale_word(group);
    const uint64_t first_col = group * kGroup;
    const uint64_t n_real = first_col < cols ? std::min(kGroup, cols - first_col) : 0;
    if ((scale & 0x7c00u) == 0x7c00u)
      throw Error(Code::kValue, "row {} column {}: scale word 0x{:04X}, a finite scale expected",
                  row, first_col, scale);
    constexpr bool kAnyScale = C::kScales == ScaleRule::kAny;
    if (!kAnyScale && scale == 0x8000u)
      throw Error(Code::kValue, "row {} column {}: scale word 0x8000 is −0, +0 expected", row,
                  first_col);
    if (n_real == 0 && scale != 0)
      throw Error(Code::kValue,
                  "row {} column {}: scale word 0x{:04X} of a padding group, 0x0000 expected", row,
                  first_col, scale);
    // Codes of a full group under a nonzero scale are all legal, save for the lowest of q8 and t2.
    constexpr bool kAllLegal = C::kQmax - C::kQmin + 1 == 1 << C::kBits;
    if (kAllLegal && (scale != 0 || kAnyScale) && n_real == kGroup) return;
    alignas(16) Codes codes;
    at.unpack(group, codes);
    int lowest = 0, highest = 0;
    for (uint64_t i = 0; i < kGroup; ++i) {
      lowest = std::min<int>(lowest, codes[i]);
      highest = std::max<int>(highest, codes[i]);
    }
    if (lowest >= C::kQmin && n_real == kGroup && scale != 0) return;
    if (lowest == 0 && highest == 0) return;
    validate_codes(codes, scale, n_real, row, first_col);
  }

  static void validate_codes(const Codes& codes, uint16_t scale, uint64_t n_real, uint64_t row,
                             uint64_t first_col) {
    for (uint64_t i = 0; i < kGroup; ++i) {
      const int code = codes[i];
      if (code != 0 && i >= n_real)
        throw Error(Code::kValue, "row {} column {}: padding code {}, 0 expected", row,
                    first_col + i, code);
      if (code != 0 && scale == 0 && C::kScales != ScaleRule::kAny)
        throw Error(Code::kValue, "row {} column {}: code {} under scale 0, code 0 expected", row,
                    first_col + i, code);
      if (code < C::kQmin)
        throw Error(Code::kValue, "row {} column {}: code {}, at least {} expected for {}", row,
                    first_col + i, code, C::kQmin, C::kName);
    }
  }
};

}  // namespace flare::codec
