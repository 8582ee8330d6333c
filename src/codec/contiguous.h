// contiguous_le_v1 (artifact.md §7.1) and cast_direct (§8.1), written once for every word type.
//
// A direct format supplies
//   using Word;                                   the stored word
//   static constexpr FormatId kId; kName;
//   static float widen(Word);                     exact, or the nearest binary32 for int32
//   static bool narrow(float, Word*);             false for what has no word; writes anyway
#pragma once

#include <cmath>

#include "base/checked.h"
#include "codec/format.h"

namespace flare::codec {

inline constexpr std::string_view kContiguousName = "contiguous_le_v1";

template <typename Direct>
struct Contiguous {
  using Word = typename Direct::Word;

  static Planes planes(Geometry g) {
    Planes out;
    out.count = 1;
    out.plane[0] = {0, checked_mul(g.cols, sizeof(Word), "row size")};
    out.total_bytes = checked_mul(g.rows, out.plane[0].row_bytes, "object size");
    return out;
  }

  static void decode(const std::byte* object, Geometry g, uint64_t row, uint64_t col,
                     uint64_t n_cols, float* out) {
    const std::byte* from = object + (row * g.cols + col) * sizeof(Word);
    for (uint64_t i = 0; i < n_cols; ++i)
      out[i] = Direct::widen(load_le<Word>(from + i * sizeof(Word)));
  }

  static void encode(const float* src, uint64_t n_rows, Geometry g, std::byte* const* dst) {
    for (uint64_t row = 0; row < n_rows; ++row) {
      const float* from = src + row * g.cols;
      std::byte* to = dst[0] + row * g.cols * sizeof(Word);
      bool all_fit = true;
      for (uint64_t col = 0; col < g.cols; ++col) {
        Word word;
        all_fit &= Direct::narrow(from[col], &word);
        store_le(to + col * sizeof(Word), word);
      }
      if (!all_fit) refuse(from, row, g.cols);
    }
  }

  // Every bit pattern is a legal word.
  static void validate(const std::byte*, Geometry, uint64_t, uint64_t) {}

  static Format format() {
    return {.id = Direct::kId,
            .name = Direct::kName,
            .layout = LayoutId::kContiguousLe,
            .layout_name = kContiguousName,
            .group = 0,
            .quantised = false,
            .word_bytes = sizeof(Word),
            .bits_per_weight = 8.0 * sizeof(Word),
            .planes = planes,
            .decode = decode,
            .encode = encode,
            .validate = validate};
  }

 private:
  [[noreturn]] static void refuse(const float* values, uint64_t row, uint64_t cols) {
    for (uint64_t col = 0; col < cols; ++col) {
      Word word;
      if (Direct::narrow(values[col], &word)) continue;
      throw Error(Code::kValue, "row {} column {}: {} has no {} word, {} expected", row, col,
                  values[col], Direct::kName,
                  std::isfinite(values[col]) ? Direct::kExpectation : "a finite value");
    }
    FLARE_ASSERT(!"a refused row has a refused value");
    __builtin_unreachable();
  }
};

}  // namespace flare::codec
