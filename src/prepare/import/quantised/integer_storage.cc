// Integers: fields of rows, values, and copying into our formats.
#include "prepare/import/quantised/integer_storage.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/float_types.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;
using checkpoint::Tensor;
using codec::FormatId;

// Field of word c that holds output column 8c + i (AutoAWQ, awq/utils/packing_utils.py).
constexpr std::array<int, 8> kAwqField = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t word_at(const Tensor& tensor, uint64_t index) {
  return load_le<uint32_t>(tensor.bytes.data() + index * sizeof(uint32_t));
}

float scale_at(const Tensor& tensor, uint64_t index) {
  const std::byte* at = tensor.bytes.data();
  switch (tensor.dtype) {
    case DType::kBf16:
      return bf16_to_f32(load_le<uint16_t>(at + 2 * index));
    case DType::kF16:
      return fp16_to_f32(load_le<uint16_t>(at + 2 * index));
    default:
      return load_le<float>(at + 4 * index);
  }
}

// What a scale becomes in a file.
enum class ScaleWord : uint8_t { kFp16, kBf16, kFp32 };

void store_scale(ScaleWord word, float scale, std::byte* to) {
  switch (word) {
    case ScaleWord::kFp16:
      return store_le(to, f32_to_fp16(scale));
    case ScaleWord::kBf16:
      return store_le(to, f32_to_bf16(scale));
    case ScaleWord::kFp32:
      return store_le(to, scale);
  }
}

// The formats that take integers over, the widest group first. A format serves every group size
// that is a multiple of its own: the scale is repeated.
struct Target {
  FormatId format;
  int bits;
  bool zeros;
  ScaleWord scale;
  uint64_t group;  // 0: the row
  enum class Layout : uint8_t { kRowBlocks, kRowSplit, kGguf } layout = Layout::kRowBlocks;
};
constexpr Target kTargets[] = {
    {FormatId::kI8RowFp32, 8, false, ScaleWord::kFp32, 0},
    {FormatId::kI8RowFp32, 8, false, ScaleWord::kBf16, 0},
    {FormatId::kI8RowFp32, 8, false, ScaleWord::kFp16, 0},
    {FormatId::kQ4G64, 4, false, ScaleWord::kFp16, 64, Target::Layout::kRowSplit},
    {FormatId::kGgufQ4_0, 4, false, ScaleWord::kFp16, 32, Target::Layout::kGguf},
    {FormatId::kGgufQ8_0, 8, false, ScaleWord::kFp16, 32, Target::Layout::kGguf},
    {FormatId::kQ4G128Bf16, 4, false, ScaleWord::kBf16, 128},
    {FormatId::kQ4G64Bf16, 4, false, ScaleWord::kBf16, 64},
    {FormatId::kQ4G32Bf16, 4, false, ScaleWord::kBf16, 32},
    {FormatId::kI8G32Bf16, 8, false, ScaleWord::kBf16, 32},
    {FormatId::kU4G128Fp16, 4, true, ScaleWord::kFp16, 128},
    {FormatId::kU4G64Fp16, 4, true, ScaleWord::kFp16, 64},
    {FormatId::kU4G32Fp16, 4, true, ScaleWord::kFp16, 32},
    {FormatId::kU4G128Bf16, 4, true, ScaleWord::kBf16, 128},
    {FormatId::kU4G64Bf16, 4, true, ScaleWord::kBf16, 64},
    {FormatId::kU4G32Bf16, 4, true, ScaleWord::kBf16, 32},
    {FormatId::kU8G32Fp16, 8, true, ScaleWord::kFp16, 32},
    {FormatId::kU8G32Bf16, 8, true, ScaleWord::kBf16, 32},
};

class IntegerSource final : public EncodedSource {
 public:
  IntegerSource(EncodedFacts facts, IntegerParts parts, const Target* target)
      : EncodedSource(std::move(facts)), parts_(std::move(parts)), target_(target) {
    const codec::Geometry& g = this->facts().geometry;
    rows_ = g.rows;
    cols_ = g.cols;
    groups_ = integer_groups(cols_, parts_.group_size);
    per_ = 32 / static_cast<uint64_t>(parts_.bits);
    mask_ = (1u << parts_.bits) - 1;
    order_.assign(this->facts().input_columns.begin(), this->facts().input_columns.end());
  }

  void read_rows(uint64_t row, uint64_t n_rows, float* out) const override {
    const std::vector<uint8_t> codes = unpack(row, n_rows);
    std::vector<float> scales(groups_);
    std::vector<int> zeros(groups_);
    for (uint64_t i = 0; i < n_rows; ++i, out += cols_) {
      for (uint64_t g = 0; g < groups_; ++g) {
        scales[g] = checked_scale(row + i, g);
        zeros[g] = static_cast<int>(zero(row + i, g));
      }
      for (uint64_t c = 0; c < cols_; ++c) {
        const uint64_t g = group_of(c);
        out[c] = scales[g] * static_cast<float>(codes[i * cols_ + c] - zeros[g]);
        if (!std::isfinite(out[c]))
          throw Error(Code::kValue,
                      "{}: row {} column {}: code times scale is {}, a finite value expected",
                      parts_.codes_place, row + i, c, out[c]);
      }
    }
  }

  void copy_rows(FormatId format, uint64_t row, uint64_t n_rows,
                 const PlaneRows& dst) const override {
    FLARE_ASSERT(target_ != nullptr && format == target_->format);
    const codec::Planes planes = codec::format(target_->format).planes({n_rows, cols_});
    std::vector<uint8_t> codes = unpack(row, n_rows);
    std::vector<uint8_t> ordered(cols_);
    for (uint64_t i = 0; i < n_rows; ++i) {
      uint8_t* words = codes.data() + i * cols_;
      if (!order_.empty()) {
        for (uint64_t c = 0; c < cols_; ++c) ordered[c] = words[order_[c]];
        std::copy(ordered.begin(), ordered.end(), words);
      }
      std::byte* to[codec::kMaxPlanes] = {};
      for (int p = 0; p < planes.count; ++p) {
        to[p] = dst.plane[p] + i * planes.plane[p].row_bytes;
        std::fill_n(to[p], planes.plane[p].row_bytes, std::byte{0});
      }
      write_row(row + i, words, to);
    }
  }

 private:
  uint64_t group_of(uint64_t col) const {
    if (!parts_.group_of.empty()) return parts_.group_of[col];
    return parts_.group_size == 0 ? 0 : col / parts_.group_size;
  }

  // Codes of rows [row, row + n) in the order of the input, raised so that they are unsigned.
  // Loops run along the words as they lie.
  std::vector<uint8_t> unpack(uint64_t row, uint64_t n) const {
    std::vector<uint8_t> out(n * cols_);
    const Tensor& codes = *parts_.codes;
    switch (parts_.layout) {
      case IntegerLayout::kSigned8:
        for (uint64_t i = 0; i < n * cols_; ++i)
          out[i] = std::to_integer<uint8_t>(codes.bytes[row * cols_ + i]) ^ 0x80;
        break;
      case IntegerLayout::kAlongColumns: {
        const uint64_t words = (cols_ + per_ - 1) / per_;
        for (uint64_t i = 0; i < n; ++i)
          for (uint64_t w = 0; w < words; ++w)
            spread(word_at(codes, (row + i) * words + w), w * per_, out.data() + i * cols_);
        break;
      }
      case IntegerLayout::kInputMajor:
        for (uint64_t w = 0; w * per_ < cols_; ++w)
          for (uint64_t i = 0; i < n; ++i)
            spread(word_at(codes, w * rows_ + row + i), w * per_, out.data() + i * cols_);
        break;
      case IntegerLayout::kAwq:
        for (uint64_t i = 0; i < n;) {
          const uint64_t first = (row + i) % 8, count = std::min(8 - first, n - i);
          for (uint64_t c = 0; c < cols_; ++c) {
            const uint32_t word = word_at(codes, c * (rows_ / 8) + (row + i) / 8);
            for (uint64_t j = 0; j < count; ++j)
              out[(i + j) * cols_ + c] = word >> 4 * kAwqField[first + j] & 15;
          }
          i += count;
        }
        break;
      case IntegerLayout::kAlongRows:
        FLARE_ASSERT(false);
    }
    return out;
  }

  uint8_t field(uint32_t word, uint64_t i) const {
    return static_cast<uint8_t>(word >> (static_cast<uint64_t>(parts_.bits) * i) & mask_);
  }
  // The fields of a word as columns from `col` on, as far as there are any.
  void spread(uint32_t word, uint64_t col, uint8_t* row) const {
    const uint64_t n = std::min(per_, cols_ - col);
    for (uint64_t j = 0; j < n; ++j) row[col + j] = field(word, j);
  }

  unsigned zero(uint64_t row, uint64_t group) const {
    if (parts_.zeros == nullptr) return 1u << (parts_.bits - 1);
    const Tensor& zeros = *parts_.zeros;
    switch (parts_.zero_layout) {
      case IntegerLayout::kSigned8:
        return std::to_integer<unsigned>(zeros.bytes[scale_index(row, group)]) ^ 0x80u;
      case IntegerLayout::kAlongRows:
        return field(word_at(zeros, row / per_ * groups_ + group), row % per_);
      case IntegerLayout::kInputMajor:
        return field(word_at(zeros, group * (rows_ / per_) + row / per_) + parts_.raise_zeros,
                     row % per_);
      case IntegerLayout::kAwq:
        return word_at(zeros, group * (rows_ / 8) + row / 8) >> 4 * kAwqField[row % 8] & 15;
      case IntegerLayout::kAlongColumns:
        FLARE_ASSERT(false);
    }
    return 0;
  }

  uint64_t scale_index(uint64_t row, uint64_t group) const {
    if (parts_.one_scale) return 0;
    return parts_.scales_by_group ? group * rows_ + row : row * groups_ + group;
  }
  float checked_scale(uint64_t row, uint64_t group) const {
    const float scale = scale_at(*parts_.scales, scale_index(row, group));
    if (!std::isfinite(scale))
      throw Error(Code::kValue, "{}: scale of row {} and group {} is {}, a finite one expected",
                  parts_.scales_place, row, group, scale);
    return scale;
  }

  // Group of the checkpoint that stored columns from `col` on belong to; groups are contiguous.
  uint64_t stored_group(uint64_t col) const {
    return group_of(order_.empty() ? col : static_cast<uint64_t>(order_[col]));
  }

  void write_row(uint64_t row, const uint8_t* codes, std::byte* const* to) const {
    const uint64_t width = target_->group == 0 ? cols_ : target_->group;
    for (uint64_t col = 0, unit = 0; col < cols_; col += width, ++unit) {
      const uint64_t group = stored_group(col), n = std::min(width, cols_ - col);
      const float scale = checked_scale(row, group);
      const unsigned zero_point = zero(row, group);
      switch (target_->layout) {
        case Target::Layout::kRowBlocks:
          write_block(codes, col, n, unit, scale, zero_point, to);
          break;
        case Target::Layout::kRowSplit:
          write_split(codes, col, n, unit, scale, to);
          break;
        case Target::Layout::kGguf:
          write_gguf(codes + col, scale, to[0] + unit * (target_->bits == 4 ? 18 : 34));
          break;
      }
    }
  }

  // row_blocks_v1.
  void write_block(const uint8_t* codes, uint64_t col, uint64_t n, uint64_t unit, float scale,
                   unsigned zero_point, std::byte* const* to) const {
    // Signed codes are two's complement: the raised ones with their top bit turned.
    const unsigned turn = target_->zeros ? 0 : 1u << (target_->bits - 1);
    for (uint64_t c = col; c < col + n; ++c) put(to[0], c, codes[c] ^ turn);
    if (target_->zeros) put(to[1], unit, zero_point);
    std::byte* scales = to[target_->zeros ? 2 : 1];
    const bool row_scale = target_->group == 0;
    store_scale(row_scale ? ScaleWord::kFp32 : target_->scale, scale,
                scales + unit * (row_scale ? 4 : 2));
  }
  void put(std::byte* fields, uint64_t i, unsigned word) const {
    if (target_->bits == 8)
      fields[i] = static_cast<std::byte>(word);
    else
      fields[i / 2] |= static_cast<std::byte>(word << (i % 2 * 4));
  }

  // q4_g64_fp16: a group without a scale has codes of 0 there (artifact.md §6.3), which is what
  // any code under it means.
  void write_split(const uint8_t* codes, uint64_t col, uint64_t n, uint64_t unit, float scale,
                   std::byte* const* to) const {
    if (scale == 0) return;
    for (uint64_t c = col; c < col + n; ++c) put(to[0], c, codes[c] ^ 8u);
    store_scale(ScaleWord::kFp16, scale, to[1] + 2 * unit);
  }

  // gguf_q4_0 and gguf_q8_0.
  void write_gguf(const uint8_t* codes, float scale, std::byte* block) const {
    store_scale(ScaleWord::kFp16, scale, block);
    for (uint64_t i = 0; i < 32; ++i) {
      if (target_->bits == 8)
        block[2 + i] = static_cast<std::byte>(codes[i] ^ 0x80u);
      else
        block[2 + i % 16] |= static_cast<std::byte>(codes[i] << (i < 16 ? 0 : 4));
    }
  }

  IntegerParts parts_;
  const Target* target_;
  uint64_t rows_ = 0, cols_ = 0, groups_ = 0, per_ = 8;
  uint32_t mask_ = 15;
  std::vector<uint64_t> order_;  // stored column → input column; empty: the same
};

// The narrowest word that holds every scale; nullopt: fp32 alone.
std::optional<ScaleWord> word_of_scales(const Tensor& scales) {
  if (scales.dtype == DType::kBf16) return ScaleWord::kBf16;
  if (scales.dtype == DType::kF16) return ScaleWord::kFp16;
  const uint64_t n = codec::element_count(scales.shape);
  bool bf16 = true, fp16 = true;
  for (uint64_t i = 0; i < n && (bf16 || fp16); ++i) {
    const float scale = scale_at(scales, i);
    bf16 = bf16 && bf16_to_f32(f32_to_bf16(scale)) == scale;
    fp16 = fp16 && fp16_to_f32(f32_to_fp16(scale)) == scale;
  }
  if (bf16) return ScaleWord::kBf16;
  if (fp16) return ScaleWord::kFp16;
  return std::nullopt;
}

// Every zero point is the middle of the codes' range, as symmetric GPTQ files have it.
bool zeros_are_middle(const EncodedFacts& facts, const IntegerParts& parts) {
  if (parts.zeros == nullptr) return true;
  const uint32_t ones = parts.bits == 4 ? 0x11111111u : 0x01010101u;
  const uint32_t middle = ones << (parts.bits - 1);
  if (parts.zero_layout == IntegerLayout::kSigned8)
    return std::ranges::all_of(parts.zeros->bytes, [](std::byte b) { return b == std::byte{0}; });
  const uint64_t per = 32 / static_cast<uint64_t>(parts.bits);
  if (facts.geometry.rows % per != 0) return false;  // fields behind the last row may be anything
  const uint64_t words = parts.zeros->bytes.size() / sizeof(uint32_t);
  for (uint64_t i = 0; i < words; ++i)
    if (word_at(*parts.zeros, i) + parts.raise_zeros != middle) return false;
  return true;
}

const Target* find_target(const EncodedFacts& facts, const IntegerParts& parts) {
  const bool zeros = !zeros_are_middle(facts, parts);
  const uint64_t cols = facts.geometry.cols;
  const bool whole_row = parts.group_size == 0 || parts.group_size >= cols;
  const std::optional<ScaleWord> word = word_of_scales(*parts.scales);
  for (const Target& target : kTargets) {
    if (target.bits != parts.bits || target.zeros != zeros) continue;
    if (target.group == 0 ? !whole_row : !whole_row && parts.group_size % target.group != 0)
      continue;
    if (target.scale != word.value_or(ScaleWord::kFp32)) continue;
    if (target.layout == Target::Layout::kGguf && cols % target.group != 0) continue;
    return &target;
  }
  return nullptr;
}

// Input columns in the order of their groups; nullopt if some group but the last has not its full
// number of columns, so that groups of that size cannot be.
std::optional<std::vector<int32_t>> contiguous_order(const IntegerParts& parts) {
  std::vector<int32_t> order(parts.group_of.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int32_t c) { return parts.group_of[c]; });
  for (uint64_t i = 0; i < order.size(); ++i)
    if (parts.group_of[order[i]] != i / parts.group_size) return std::nullopt;
  return order;
}

}  // namespace

uint64_t integer_groups(uint64_t cols, uint64_t group_size) {
  if (group_size == 0 || cols == 0) return 1;
  return cols / group_size + (cols % group_size != 0 ? 1 : 0);
}

std::shared_ptr<const EncodedSource> make_integer_source(EncodedFacts facts, IntegerParts parts) {
  const Target* target = find_target(facts, parts);
  if (target == nullptr) {
    facts.unkept =
        fmt::format("no format holds {} bits with groups of {} and scales of {}", parts.bits,
                    parts.group_size, checkpoint::dtype_name(parts.scales->dtype));
  } else if (!parts.group_of.empty()) {
    if (auto order = contiguous_order(parts)) {
      facts.input_columns = std::move(*order);
    } else {
      target = nullptr;
      facts.unkept =
          fmt::format("g_idx gives groups that are not of {} columns each", parts.group_size);
    }
  }
  if (target != nullptr) facts.formats = {target->format};
  return std::make_shared<IntegerSource>(std::move(facts), std::move(parts), target);
}

std::vector<uint32_t> read_group_index(const TensorPool& tensors, const Tensor& tensor,
                                       uint64_t group_size, uint64_t groups) {
  const uint64_t cols = codec::element_count(tensor.shape);
  std::vector<uint32_t> group_of(cols);
  bool trivial = true, unset = true;
  for (uint64_t c = 0; c < cols; ++c) {
    group_of[c] = word_at(tensor, c);
    unset = unset && group_of[c] == UINT32_MAX;
    trivial = trivial && group_of[c] == (group_size == 0 ? 0 : c / group_size);
  }
  if (trivial || unset) return {};
  for (uint64_t c = 0; c < cols; ++c)
    if (group_of[c] >= groups)
      throw Error(Code::kValue, "{}: group of column {} is {}, a number of 0 … {} expected",
                  tensors.place(tensor), c, static_cast<int32_t>(group_of[c]), groups - 1);
  return group_of;
}

}  // namespace flare::prepare
