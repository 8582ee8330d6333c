// Views of one expert in the tensors of all.
#include "prepare/import/quantised/gpt_oss_experts.h"

#include <cstring>

#include "base/error.h"
#include "base/float_types.h"
#include "prepare/import/quantised/float_storage.h"
#include "prepare/recipe/recipe.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;
using checkpoint::Tensor;

// Numbers that lie apart: element (r, c) is word first + r·row_step + c·col_step of the tensor.
struct Strides {
  uint64_t first = 0, row_step = 0, col_step = 0;
};

class StridedSource final : public EncodedSource {
 public:
  StridedSource(EncodedFacts facts, Strides strides)
      : EncodedSource(std::move(facts)), tensor_(*this->facts().tensors.front()), s_(strides) {}

  void read_rows(uint64_t row, uint64_t n_rows, float* out) const override {
    const uint64_t cols = facts().geometry.cols;
    for (uint64_t r = row; r < row + n_rows; ++r)
      for (uint64_t c = 0; c < cols; ++c) {
        const std::byte* at = word(r, c);
        *out++ = tensor_.dtype == DType::kBf16  ? bf16_to_f32(load_le<uint16_t>(at))
                 : tensor_.dtype == DType::kF16 ? fp16_to_f32(load_le<uint16_t>(at))
                                                : load_le<float>(at);
      }
  }
  void copy_rows(codec::FormatId, uint64_t row, uint64_t n_rows,
                 const PlaneRows& dst) const override {
    const uint64_t cols = facts().geometry.cols;
    std::byte* out = dst.plane[0];
    for (uint64_t r = row; r < row + n_rows; ++r)
      for (uint64_t c = 0; c < cols; ++c, out += word_bytes())
        std::memcpy(out, word(r, c), word_bytes());
  }

 private:
  uint64_t word_bytes() const {
    return static_cast<uint64_t>(checkpoint::dtype_bits(tensor_.dtype)) / 8;
  }
  const std::byte* word(uint64_t r, uint64_t c) const {
    return tensor_.bytes.data() + (s_.first + r * s_.row_step + c * s_.col_step) * word_bytes();
  }
  const Tensor& tensor_;
  Strides s_;
};

const std::vector<DType>& real_types() {
  static const std::vector<DType> types = {DType::kBf16, DType::kF16, DType::kF32};
  return types;
}

Piece strided(std::string name, const Tensor& tensor, codec::Geometry geometry, Strides strides) {
  EncodedFacts facts{.name = std::move(name),
                     .scheme = {},  // numbers in another order: nothing to report
                     .geometry = geometry,
                     .formats = {direct_format_of(tensor.dtype).value()},
                     .tensors = {&tensor}};
  return {&tensor, 0, geometry.rows, std::make_shared<StridedSource>(std::move(facts), strides)};
}

}  // namespace

GptOssExperts::GptOssExperts(TensorPool& tensors, std::string prefix, uint64_t experts,
                             uint64_t rows, uint64_t cols)
    : prefix_(std::move(prefix)), rows_(rows), cols_(cols) {
  constexpr uint64_t kGroup = 32;
  bias_ = &tensors.take_stored(prefix_ + "_bias", real_types(), {codec::Shape{experts, rows}});
  if (tensors.find_stored(prefix_) != nullptr) {
    plain_ = &tensors.take_stored(prefix_, real_types(), {codec::Shape{experts, cols, rows}});
    return;
  }
  if (cols % kGroup != 0)
    throw Error(Code::kBinding, "weight '{}' has {} columns, a multiple of {} expected for MXFP4",
                prefix_, cols, kGroup);
  const uint64_t groups = cols / kGroup;
  blocks_ = &tensors.take_stored(prefix_ + "_blocks", {DType::kU8},
                                 {codec::Shape{experts, rows, groups, kGroup / 2}});
  scales_ = &tensors.take_stored(prefix_ + "_scales", {DType::kU8, DType::kF8E8M0},
                                 {codec::Shape{experts, rows, groups}});
  blocks_place_ = tensors.place(*blocks_);
  scales_place_ = tensors.place(*scales_);
}

Piece GptOssExperts::weight(uint64_t expert, uint64_t first, uint64_t stride, uint64_t n) const {
  std::string name = fmt::format("{}[{}]", prefix_, expert);
  if (plain_ != nullptr)
    return strided(std::move(name), *plain_, {n, cols_},
                   {expert * cols_ * rows_ + first, stride, rows_});
  FloatParts parts{.codes = blocks_,
                   .scales = scales_,
                   .codes_place = blocks_place_,
                   .scales_place = scales_place_,
                   .four_bits = true,
                   .first_row = expert * rows_ + first,
                   .row_stride = stride,
                   .block_cols = 32};
  EncodedFacts facts{.name = std::move(name),
                     .scheme = "MXFP4 experts",
                     .geometry = {n, cols_},
                     .formats = float_formats(parts),
                     .tensors = {blocks_, scales_}};
  return {blocks_, 0, n, make_float_source(std::move(facts), std::move(parts))};
}

Piece GptOssExperts::bias(uint64_t expert, uint64_t first, uint64_t stride, uint64_t n) const {
  return strided(fmt::format("{}_bias[{}]", prefix_, expert), *bias_, {1, n},
                 {expert * rows_ + first, 0, stride});
}

}  // namespace flare::prepare
