// Small floats: taking of their tensors, values, and copying into our formats.
#include "prepare/import/quantised/float_storage.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/float_types.h"
#include "codec/float4.h"
#include "codec/nvfp4.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;
using checkpoint::Tensor;
using codec::FormatId;

const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> out{};
    for (unsigned i = 0; i < out.size(); ++i) out[i] = e4m3_to_f32(static_cast<uint8_t>(i));
    return out;
  }();
  return values;
}

float scale_value(const Tensor& tensor, uint64_t index) {
  const std::byte* at = tensor.bytes.data();
  switch (tensor.dtype) {
    case DType::kF8E4M3:
      return e4m3_to_f32(std::to_integer<uint8_t>(at[index]));
    case DType::kU8:
    case DType::kF8E8M0:
      return e8m0_to_f32(std::to_integer<uint8_t>(at[index]));  // 255 is NaN
    case DType::kBf16:
      return bf16_to_f32(load_le<uint16_t>(at + 2 * index));
    case DType::kF16:
      return fp16_to_f32(load_le<uint16_t>(at + 2 * index));
    default:
      return load_le<float>(at + 4 * index);
  }
}

bool is_power_scale(DType type) { return type == DType::kU8 || type == DType::kF8E8M0; }

uint64_t blocks_of(uint64_t n, uint64_t block) { return n / block + (n % block != 0); }

class FloatSource final : public EncodedSource {
 public:
  FloatSource(EncodedFacts facts, FloatParts parts)
      : EncodedSource(std::move(facts)),
        parts_(std::move(parts)),
        cols_(this->facts().geometry.cols),
        code_bytes_(parts_.four_bits ? cols_ / 2 : cols_),
        groups_(blocks_of(cols_, parts_.block_cols)) {}

  void read_rows(uint64_t row, uint64_t n_rows, float* out) const override {
    for (uint64_t r = row; r < row + n_rows; ++r, out += cols_) {
      const std::byte* codes = codes_of(r);
      for (uint64_t g = 0; g < groups_; ++g) {
        const uint64_t begin = g * parts_.block_cols;
        const uint64_t end = std::min(begin + parts_.block_cols, cols_);
        const float scale = checked_scale(r, g);
        if (parts_.four_bits)
          for (uint64_t c = begin; c < end; ++c) out[c] = scale * four_bits(codes, c);
        else
          for (uint64_t c = begin; c < end; ++c)
            out[c] = scale * e4m3_values()[std::to_integer<uint8_t>(codes[c])];
      }
      finish_row(r, out);
    }
  }

  void copy_rows(FormatId format, uint64_t row, uint64_t n_rows,
                 const PlaneRows& dst) const override {
    for (uint64_t i = 0; i < n_rows; ++i) {
      const std::byte* codes = codes_of(row + i);
      std::memcpy(dst.plane[0] + i * code_bytes_, codes, code_bytes_);
      if (!parts_.four_bits) check_codes(row + i, codes);
    }
    if (format == FormatId::kNvfp4) return copy_tiled_scales(row, n_rows, dst.plane[1]);
    if (format == FormatId::kFp8RowBf16) return copy_bf16_scales(row, n_rows, dst.plane[1]);
    copy_group_scales(codec::format(format), row, n_rows, dst.plane[1]);
    if (format == FormatId::kNvfp4Rows)
      for (uint64_t i = 0; i < n_rows; ++i)
        store_le(dst.plane[2] + i * sizeof(float), facts().divisor.value());
  }

 private:
  const std::byte* codes_of(uint64_t row) const {
    return parts_.codes->bytes.data() + source_row(row) * code_bytes_;
  }
  uint64_t source_row(uint64_t row) const { return parts_.first_row + row * parts_.row_stride; }
  uint64_t scale_index(uint64_t row, uint64_t group) const {
    return source_row(row) / parts_.block_rows * groups_ + group;
  }
  static float four_bits(const std::byte* codes, uint64_t c) {
    const unsigned pair = std::to_integer<unsigned>(codes[c / 2]);
    return codec::kE2m1Values[c % 2 == 0 ? pair & 15 : pair >> 4];
  }

  float checked_scale(uint64_t row, uint64_t group) const {
    const float scale = scale_value(*parts_.scales, scale_index(row, group));
    if (!std::isfinite(scale) || std::signbit(scale))
      throw Error(Code::kValue,
                  "{}: scale of row {} from column {} is {}, a finite one without sign expected",
                  parts_.scales_place, row, group * parts_.block_cols, scale);
    return scale;
  }

  void check_codes(uint64_t row, const std::byte* codes) const {
    for (uint64_t c = 0; c < cols_; ++c)
      if ((std::to_integer<unsigned>(codes[c]) & 0x7fu) == 0x7f) refuse_code(row, c, codes[c]);
  }
  [[noreturn]] void refuse_code(uint64_t row, uint64_t col, std::byte code) const {
    throw Error(Code::kValue,
                "{}: row {} column {}: code 0x{:02X} is no number, a finite one expected",
                parts_.codes_place, row, col, std::to_integer<unsigned>(code));
  }

  // The factor or divisor of the whole matrix, and a look at the result.
  void finish_row(uint64_t row, float* out) const {
    if (parts_.divisor)
      for (uint64_t c = 0; c < cols_; ++c) out[c] /= *parts_.divisor;
    if (parts_.factor)
      for (uint64_t c = 0; c < cols_; ++c) out[c] *= *parts_.factor;
    for (uint64_t c = 0; c < cols_; ++c) {
      if (std::isfinite(out[c])) continue;
      if (!parts_.four_bits) check_codes(row, codes_of(row));
      throw Error(Code::kValue,
                  "{}: row {} column {}: code times scale is {}, a finite value expected",
                  parts_.codes_place, row, c, out[c]);
    }
  }

  void copy_tiled_scales(uint64_t row, uint64_t n_rows, std::byte* out) const {
    for (uint64_t i = 0; i < n_rows; ++i)
      for (uint64_t g = 0; g < groups_; ++g) {
        checked_scale(row + i, g);
        out[codec::nvfp4_scale_offset({n_rows, cols_}, i, g)] =
            parts_.scales->bytes[scale_index(row + i, g)];
      }
  }

  // row_blocks_v1: every row has a scale for each of the format's groups, of which a block here is
  // a multiple; bytes as they are, words widened to fp32.
  void copy_group_scales(const codec::Format& format, uint64_t row, uint64_t n_rows,
                         std::byte* out) const {
    constexpr float kSafe = std::numeric_limits<float>::max() / 448;
    const uint64_t groups = blocks_of(cols_, format.group);
    const bool bytes = checkpoint::dtype_bits(parts_.scales->dtype) == 8;
    for (uint64_t i = 0; i < n_rows; ++i) {
      bool safe = true;
      for (uint64_t g = 0; g < groups; ++g) {
        const uint64_t block = g * format.group / parts_.block_cols;
        const float scale = checked_scale(row + i, block);
        safe &= scale <= kSafe;
        if (bytes)
          *out++ = parts_.scales->bytes[scale_index(row + i, block)];
        else
          store_le(out, scale), out += sizeof(float);
      }
      if (safe) continue;
      std::vector<float> values(cols_);
      read_rows(row + i, 1, values.data());  // refuses products that are not finite
    }
  }

  // fp8_e4m3fn_row_bf16: one bf16 word a row, under which a zero scale has zero codes (§6.3).
  void copy_bf16_scales(uint64_t row, uint64_t n_rows, std::byte* out) const {
    for (uint64_t i = 0; i < n_rows; ++i) {
      const float scale = checked_scale(row + i, 0);
      const uint16_t word = f32_to_bf16(scale);
      const std::byte* codes = codes_of(row + i);
      const bool fits = std::isfinite(bf16_to_f32(word)) &&
                        (word != 0 || std::all_of(codes, codes + cols_, [](std::byte code) {
                           return (code & std::byte{0x7f}) == std::byte{0};
                         }));
      if (!fits)
        throw Error(Code::kValue,
                    "{}: scale of row {} is {}, one that bf16 holds under its codes expected",
                    parts_.scales_place, row + i, scale);
      store_le(out + 2 * i, word);
    }
  }

  FloatParts parts_;
  uint64_t cols_, code_bytes_, groups_;
};

float read_scalar(const TensorPool& tensors, const Tensor& tensor, bool reciprocal) {
  const float stored = scale_value(tensor, 0);
  const float value = reciprocal ? 1.0f / stored : stored;
  if (!std::isfinite(stored) || stored <= 0 || !std::isfinite(value) || value <= 0)
    throw Error(Code::kValue, "{} is {}, a finite number above 0 with a reciprocal expected",
                tensors.place(tensor), stored);
  return value;
}

std::string joined(std::string_view module, std::string_view suffix) {
  return fmt::format("{}{}", module, suffix);
}

// Whether narrowing the scales to bf16 changes one.
bool rounds_scales(const Tensor& scales) {
  if (scales.dtype != DType::kF32 && scales.dtype != DType::kF16) return false;
  const uint64_t n = codec::element_count(scales.shape);
  for (uint64_t i = 0; i < n; ++i) {
    const float scale = scale_value(scales, i);
    if (bf16_to_f32(f32_to_bf16(scale)) != scale) return true;
  }
  return false;
}

}  // namespace

std::shared_ptr<const EncodedSource> make_float_source(EncodedFacts facts, FloatParts parts) {
  return std::make_shared<FloatSource>(std::move(facts), std::move(parts));
}

std::vector<FormatId> float_formats(const FloatParts& parts) {
  const DType scale = parts.scales->dtype;
  const uint64_t cols = parts.block_cols;
  if (parts.four_bits) {
    if (parts.block_rows != 1) return {};
    if (cols == 16 && scale == DType::kF8E4M3) return {FormatId::kNvfp4, FormatId::kNvfp4Rows};
    if (cols % 32 == 0 && is_power_scale(scale)) return {FormatId::kMxfp4};
    return {};
  }
  if (is_power_scale(scale))
    return cols % 32 == 0 ? std::vector{FormatId::kMxfp8} : std::vector<FormatId>{};
  if (cols % 128 == 0) return {FormatId::kFp8G128};
  if (cols % 32 == 0) return {FormatId::kFp8G32};
  return {};
}

bool FloatScheme::stores(const TensorPool& tensors, std::string_view module) const {
  const Tensor* codes = tensors.find_stored(joined(module, storage_.codes));
  if (codes == nullptr) return false;
  if (!storage_.four_bits) return codes->dtype == DType::kF8E4M3;
  return codes->dtype == DType::kU8 || codes->dtype == DType::kI8;
}

FloatParts FloatScheme::take_parts(TensorPool& tensors, std::string_view module,
                                   const codec::Shape& shape) const {
  const uint64_t rows = shape[0], cols = shape[1];
  FloatParts parts{.four_bits = storage_.four_bits};
  const std::string codes = joined(module, storage_.codes);
  if (storage_.four_bits && cols % 2 != 0)
    throw Error(Code::kBinding, "weight '{}' has {} columns, an even number expected for {}", codes,
                cols, storage_.label);
  parts.codes = storage_.four_bits
                    ? &tensors.take_stored(codes, {DType::kU8, DType::kI8}, {{rows, cols / 2}})
                    : &tensors.take_stored(codes, {DType::kF8E4M3}, {{rows, cols}});
  std::string scales = joined(module, storage_.scales.front());
  for (const std::string_view suffix : storage_.scales)
    if (tensors.find_stored(joined(module, suffix)) != nullptr) {
      scales = joined(module, suffix);
      break;
    }
  using Blocks = FloatStorage::Blocks;
  switch (storage_.blocks) {
    case Blocks::kTensor:
      parts.block_rows = rows;
      parts.block_cols = cols;
      parts.scales = &tensors.take_stored(scales, storage_.scale_types,
                                          {codec::Shape{1}, codec::Shape{}, codec::Shape{1, 1}});
      break;
    case Blocks::kRow:
      parts.block_cols = cols;
      parts.scales = &tensors.take_stored(scales, storage_.scale_types, {{rows, 1}, {rows}});
      break;
    case Blocks::kGrid:
      parts.block_rows = storage_.block_rows;
      parts.block_cols = storage_.block_cols;
      parts.scales = &tensors.take_stored(
          scales, storage_.scale_types,
          {{blocks_of(rows, parts.block_rows), blocks_of(cols, parts.block_cols)}});
      break;
  }
  parts.codes_place = tensors.place(*parts.codes);
  parts.scales_place = tensors.place(*parts.scales);
  return parts;
}

void FloatScheme::take_inputs(TensorPool& tensors, std::string_view module,
                              EncodedFacts& facts) const {
  facts.policy = storage_.policy;
  if (storage_.input_scale.empty()) return;
  const std::string name = joined(module, storage_.input_scale);
  const bool there = tensors.find_stored(name) != nullptr;
  if (!there && !storage_.needs_input_scale) {
    if (facts.policy == graph::Policy::kAllowA4) facts.policy = graph::Policy::kA16Only;
    return;
  }
  const std::vector<DType> types = {DType::kF32, DType::kBf16, DType::kF16};
  if (storage_.global.empty())
    return tensors.take_unused(name, types, {codec::Shape{1}, codec::Shape{}},
                               "static input scales");
  const Tensor& scale = tensors.take_stored(name, {DType::kF32}, {codec::Shape{1}, codec::Shape{}});
  facts.activation_divisor = read_scalar(tensors, scale, !storage_.global_divides);
  facts.tensors.push_back(&scale);
}

std::shared_ptr<const EncodedSource> FloatScheme::open(TensorPool& tensors, std::string_view module,
                                                       const codec::Shape& shape) const {
  FloatParts parts = take_parts(tensors, module, shape);
  EncodedFacts facts{.name = joined(module, ".weight"),
                     .scheme = storage_.label,
                     .geometry = {shape[0], shape[1]},
                     .tensors = {parts.codes, parts.scales}};
  if (!storage_.global.empty()) {
    const Tensor& global = tensors.take_stored(joined(module, storage_.global), {DType::kF32},
                                               {codec::Shape{1}, codec::Shape{}});
    facts.divisor = read_scalar(tensors, global, !storage_.global_divides);
    (storage_.global_divides ? parts.divisor : parts.factor) = scale_value(global, 0);
    if (!storage_.global_divides)
      facts.rounded = "values are divided by the rounded reciprocal of the global scale";
    facts.tensors.push_back(&global);
  }
  take_inputs(tensors, module, facts);
  if (storage_.blocks == FloatStorage::Blocks::kGrid) {
    facts.formats = float_formats(parts);
    if (facts.formats.empty()) facts.unkept = "no format holds their codes and scales";
  } else {
    facts.formats = {FormatId::kFp8RowBf16};
    if (rounds_scales(*parts.scales)) {
      facts.formats.insert(facts.formats.begin(), FormatId::kFp8G128);
      facts.rounded = "scales are rounded to bf16";
      facts.rounded_in = FormatId::kFp8RowBf16;
    }
  }
  return make_float_source(std::move(facts), std::move(parts));
}

}  // namespace flare::prepare
