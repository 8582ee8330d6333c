// The format table: every numeric format, its layout, sizes, encoder, decoder and validity rules.
//
// A format is one file (bf16.cc, q4_g64.cc, …) and one row of the table in format.cc. Source of all
// rules: spec/artifact.md §6–§8. Nothing here knows files, kernels or models.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace flare::codec {

using Shape = std::vector<uint64_t>;

enum class FormatId : uint8_t {
  kBf16,
  kFp32,
  kInt32,
  kFp16,
  kQ4G64,
  kQ5G64,
  kQ6G64,
  kQ8G32,
  kGgufQ4_0,
  kGgufQ8_0,
  kGgufQ4K,
  kGgufQ6K,
  kGgufQ4_1,
  kGgufQ5_0,
  kGgufQ5_1,
  kGgufQ2_0,
  kGgufQ2K,
  kGgufQ3K,
  kGgufQ5K,
  kGgufIq4Nl,
  kGgufIq4Xs,
  kQ2G64,
  kT2G128,
  kFp8RowBf16,
  kFp8RowFp16,
  kNvfp4,
  kGgufIq2Xxs,
  kGgufIq2Xs,
  kGgufIq3Xxs,
  kGgufIq1S,
  kGgufIq3S,
  kGgufIq2S,
  kGgufIq1M,
  kMxfp4,
  kMxfp8,
  kFp8G32,
  kFp8G128,
  kNvfp4Rows,
  kQ4G32Bf16,
  kQ4G64Bf16,
  kQ4G128Bf16,
  kU4G32Bf16,
  kU4G64Bf16,
  kU4G128Bf16,
  kU4G32Fp16,
  kU4G64Fp16,
  kU4G128Fp16,
  kI8G32Bf16,
  kI8RowFp32,
  kU8G32Bf16,
  kU8G32Fp16,
};
inline constexpr int kFormats = 51;

enum class LayoutId : uint8_t {
  kContiguousLe,    // contiguous_le_v1: C order words
  kRowSplitK128,    // row_split_k128_v1: base, high and scale planes
  kGgufBlocks,      // gguf_blocks_v1: rows of ggml's blocks, one plane
  kRowScale,        // row_scale_v1: codes, then a scale a row
  kRowInterleaved,  // row_interleaved_v1: a row's codes, then its scale
  kBlockScale,      // block_scale_k16_m128x4_v1: codes, swizzled scales, divisors
  kRowBlocks,       // row_blocks_v1: codes, zero points, scales and divisors, a plane each
  kPanels16,        // kernel layout of quantised formats, never in artifacts: codec/panels.h
};

// Rows and columns of a stored matrix. A tensor of another rank is seen as
// [product of leading dimensions, last dimension]; a scalar as [1, 1].
struct Geometry {
  uint64_t rows = 1;
  uint64_t cols = 1;
  uint64_t divisors = 1;  // nvfp4: matrices stacked along the rows, each with its own divisor
  bool operator==(const Geometry&) const = default;
};
Geometry geometry_of(const Shape& shape, uint64_t divisors = 1);
// Product of the dimensions, 1 for []; kRange on overflow.
uint64_t element_count(const Shape& shape);

// One plane of an encoded object: row r of the matrix occupies
// [offset + r·row_bytes, offset + (r+1)·row_bytes). Bytes between planes are zero.
struct Plane {
  uint64_t offset = 0;
  uint64_t row_bytes = 0;
};
inline constexpr int kMaxPlanes = 3;

// In the order base, high (q5 and q6 only), scale; a contiguous object has the one plane; those of
// row_blocks_v1: codec/row_blocks.h.
struct Planes {
  int count = 0;
  Plane plane[kMaxPlanes];
  uint64_t total_bytes = 0;  // size of the object
};

// All functions are pure and thread-safe. `object` points at the first byte of the encoded object,
// at any alignment.
struct Format {
  FormatId id;
  std::string_view name;  // as stored, e.g. "q4_g64_fp16"
  LayoutId layout;        // the layout this format is stored in
  std::string_view layout_name;
  uint32_t group;          // columns sharing a scale; 0: none
  bool quantised;          // has scales; rank 2 only
  uint32_t word_bytes;     // of an element where there are no groups, else 0
  double bits_per_weight;  // scales included, for a large matrix

  // Where rows lie. Checked arithmetic (kRange); kEncoding if the shape does not fit the layout.
  Planes (*planes)(Geometry g);

  // out[0..n_cols) = exact binary32 values of row `row`, columns [col, col+n_cols). col is a
  // multiple of the group (or 0); any n_cols inside the row. Int32 words are converted. kEncoding
  // where stored_only.
  void (*decode)(const std::byte* object, Geometry g, uint64_t row, uint64_t col, uint64_t n_cols,
                 float* out);

  // out[c] = the code of column c of row `row`, raised so that it is unsigned: by 2^(bits−1) where
  // the format's codes are signed. Columns as stored, padding included (row_split_k128_v1: up to
  // the next multiple of 128). Where codes stand for values of a table (iq4_nl, iq4_xs), the place
  // in it. Null for formats whose codes nothing needs.
  void (*codes)(const std::byte* object, Geometry g, uint64_t row, uint8_t* out);

  // Scale and low of every group of row `row` (of the row where a scale covers it): a value is
  // scale·n − low, where n is the code as codes() gives it if it is an integer of 4 bits, that less
  // 128 if it has 8, twice the value of an E2M1 code, and the value of an E4M3 code. Exact but for
  // what the format itself rounds; with the divisors of nvfp4 one rounding more. Null for formats
  // whose scales are read in another way.
  void (*groups)(const std::byte* object, Geometry g, uint64_t row, float* scale, float* low);

  // Encodes n_rows rows of g.cols real values (row-major, `src`) with the format's default encoder
  // (cast_direct, grouped_absmax §8.2, fp8_row_maxabs §8.4; nvfp4: codec/nvfp4.h). dst[i] points at
  // the first encoded byte of the first row in plane i. Writes every byte of these rows. Errors:
  // kValue naming row (counted from src) and column for a non-finite or unrepresentable value;
  // where source and format are the same type, §8.1 keeps NaN and infinities, whose bytes are
  // copied without this function. Null for formats that are never encoded from numbers.
  void (*encode)(const float* src, uint64_t n_rows, Geometry g, std::byte* const* dst);

  // Checks codes, scales and padding of rows [row, row+n_rows) (§6.3, §7): kValue names row and
  // column and the rule. Gaps between planes are checked by validate_gaps.
  void (*validate)(const std::byte* object, Geometry g, uint64_t row, uint64_t n_rows);

  // Only its bytes are known: decode() throws.
  bool stored_only = false;
};

std::span<const Format> all_formats();
const Format& format(FormatId id);
// nullptr if the name is not in the table (names of §6.5 included): the caller raises kEncoding. A
// format with two layouts (nvfp4) is two rows: without a layout the one of the specification comes.
const Format* find_format(std::string_view name);
// The row with this name and layout; where no row has both, as find_format(name).
const Format* find_format(std::string_view name, std::string_view layout_name);

// Encoded size of (format, layout, shape, divisors). Errors: kEncoding when layout and format do
// not go together, the shape does not fit, or divisors > 1 where that is not allowed.
uint64_t encoded_bytes(const Format& format, std::string_view layout_name, const Shape& shape,
                       uint64_t divisors);
// Every gap between the planes of an object is zero (kValue names the offset).
void validate_gaps(const Format& format, Geometry g, Bytes object);

}  // namespace flare::codec
