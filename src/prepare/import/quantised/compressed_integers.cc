// The integer storages of compressed-tensors: pack-quantized of 4 and 8 bits, int-quantized.
#include "base/error.h"
#include "prepare/import/quantised/compressed_tensors.h"
#include "prepare/import/quantised/integer_storage.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;
using checkpoint::Tensor;

class IntegerGroup final : public Scheme {
 public:
  IntegerGroup(const CompressedGroup& group, bool packed) : group_(group), packed_(packed) {
    if (group.is_float) refuse_group(group, "type", "float", "int");
    const bool wide = group.bits == 8;
    if (!wide && !(packed && group.bits == 4))
      refuse_group(group, "num_bits", std::to_string(group.bits), packed ? "4 or 8" : "8");
    const bool grouped = group.strategy == "group";
    if (!grouped && group.strategy != "channel" && group.strategy != "tensor")
      refuse_group(group, "strategy", group.strategy, "tensor, channel or group");
    if (grouped && group.group_size == 0)
      refuse_group(group, "group_size", "missing", "a number of columns");
    if (!group.actorder.empty() && group.actorder != "weight" && group.actorder != "static" &&
        group.actorder != "group" && group.actorder != "dynamic")
      refuse_group(group, "actorder", group.actorder, "weight or group");
  }

  bool stores(const TensorPool& tensors, std::string_view module) const override {
    if (packed_) return tensors.find_stored(name(module, ".weight_packed")) != nullptr;
    const Tensor* codes = tensors.find_stored(name(module, ".weight"));
    return codes != nullptr && codes->dtype == DType::kI8;
  }

  std::shared_ptr<const EncodedSource> open(TensorPool& tensors, std::string_view module,
                                            const codec::Shape& shape) const override {
    const uint64_t rows = shape[0], cols = shape[1];
    IntegerParts parts{.bits = static_cast<int>(group_.bits),
                       .group_size = group_.strategy == "group" ? group_.group_size : 0};
    if (parts.group_size != 0 && cols % parts.group_size != 0)
      throw Error(Code::kBinding,
                  "{}: weight '{}' has {} columns, a multiple of group_size {} "
                  "expected",
                  group_.where, name(module, ".weight"), cols, parts.group_size);
    const uint64_t groups = integer_groups(cols, parts.group_size);
    take_codes(tensors, module, shape, parts);
    take_scales(tensors, module, rows, groups, parts);
    EncodedFacts facts{.name = name(module, ".weight"),
                       .scheme = label(),
                       .geometry = {rows, cols},
                       .tensors = {parts.codes, parts.scales}};
    if (parts.zeros != nullptr) facts.tensors.push_back(parts.zeros);
    // Only older releases write it (quantised_checkpoints.md §5).
    const std::string index = name(module, ".weight_g_idx");
    const bool ordered = group_.actorder == "group" || group_.actorder == "dynamic";
    if (parts.group_size != 0 && (ordered || tensors.find_stored(index) != nullptr)) {
      const Tensor& tensor = tensors.take_stored(index, {DType::kI32}, {{cols}});
      parts.group_of = read_group_index(tensors, tensor, parts.group_size, groups);
      facts.tensors.push_back(&tensor);
    }
    take_inputs(tensors, module, facts);
    parts.codes_place = tensors.place(*parts.codes);
    parts.scales_place = tensors.place(*parts.scales);
    return make_integer_source(std::move(facts), std::move(parts));
  }

 private:
  static std::string name(std::string_view module, std::string_view end) {
    return fmt::format("{}{}", module, end);
  }
  std::string label() const {
    std::string text = fmt::format("compressed-tensors {} {} bits ", group_.format, group_.bits);
    text += group_.strategy == "group" ? fmt::format("g{}", group_.group_size) : group_.strategy;
    return text + (group_.symmetric ? "" : " asymmetric");
  }

  void take_codes(TensorPool& tensors, std::string_view module, const codec::Shape& shape,
                  IntegerParts& parts) const {
    if (!packed_) {
      parts.layout = IntegerLayout::kSigned8;
      parts.codes = &tensors.take_stored(name(module, ".weight"), {DType::kI8}, {shape});
      return;
    }
    const uint64_t per = 32 / group_.bits;
    parts.layout = IntegerLayout::kAlongColumns;
    parts.codes = &tensors.take_stored(name(module, ".weight_packed"), {DType::kI32},
                                       {{shape[0], (shape[1] + per - 1) / per}});
    const Tensor& stored =
        tensors.take_stored(name(module, ".weight_shape"), {DType::kI64, DType::kI32}, {{2}});
    for (size_t i = 0; i < 2; ++i) {
      const int64_t n = stored.dtype == DType::kI64 ? load_le<int64_t>(stored.bytes.data() + 8 * i)
                                                    : load_le<int32_t>(stored.bytes.data() + 4 * i);
      if (n < 0 || static_cast<uint64_t>(n) != shape[i])
        throw Error(Code::kBinding, "{}: dimension {} is {}, expected {}", tensors.place(stored), i,
                    n, shape[i]);
    }
  }

  void take_scales(TensorPool& tensors, std::string_view module, uint64_t rows, uint64_t groups,
                   IntegerParts& parts) const {
    std::vector<codec::Shape> shapes = {{rows, groups}};
    if (group_.strategy == "channel") shapes.push_back({rows});
    if (group_.strategy == "tensor") shapes = {codec::Shape{1}, codec::Shape{}, codec::Shape{1, 1}};
    parts.one_scale = group_.strategy == "tensor";
    parts.scales = &tensors.take_stored(name(module, ".weight_scale"),
                                        {DType::kBf16, DType::kF16, DType::kF32}, shapes);
    if (group_.symmetric) return;
    const std::string zeros = name(module, ".weight_zero_point");
    if (packed_ && !parts.one_scale) {
      const uint64_t per = 32 / group_.bits;
      parts.zero_layout = IntegerLayout::kAlongRows;
      parts.zeros = &tensors.take_stored(zeros, {DType::kI32}, {{(rows + per - 1) / per, groups}});
    } else if (group_.bits == 8) {
      parts.zero_layout = IntegerLayout::kSigned8;
      parts.zeros = &tensors.take_stored(zeros, {DType::kI8}, shapes);
    } else {
      refuse_group(group_, "symmetric", "false", "true with strategy tensor");
    }
  }

  void take_inputs(TensorPool& tensors, std::string_view module, EncodedFacts& facts) const {
    if (!group_.inputs) return;
    if (group_.inputs->bits >= 8) facts.policy = graph::Policy::kAllowA8;
    const std::string scale = name(module, ".input_scale");
    if (!group_.inputs->static_scale && tensors.find_stored(scale) == nullptr) return;
    tensors.take_unused(scale, {DType::kBf16, DType::kF16, DType::kF32},
                        {codec::Shape{1}, codec::Shape{}}, "static input scales");
  }

  CompressedGroup group_;
  bool packed_;
};

}  // namespace

std::unique_ptr<Scheme> compressed_packed(const CompressedGroup& group) {
  return std::make_unique<IntegerGroup>(group, true);
}

std::unique_ptr<Scheme> compressed_integers(const CompressedGroup& group) {
  return std::make_unique<IntegerGroup>(group, false);
}

}  // namespace flare::prepare
