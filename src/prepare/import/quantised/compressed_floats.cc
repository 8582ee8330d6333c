// The float storages of compressed-tensors: NVFP4, FP8, MXFP4, MXFP8.
#include "base/error.h"
#include "prepare/import/quantised/compressed_tensors.h"
#include "prepare/import/quantised/float_storage.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;
using graph::Policy;

std::string label_of(const CompressedGroup& group) { return "compressed-tensors " + group.format; }

// What quantised activations the config declares (quantised_checkpoints.md §2, activation rules).
Policy policy_of(const CompressedGroup& group) {
  if (!group.inputs) return Policy::kA16Only;
  return group.inputs->bits <= 4 ? Policy::kAllowA4 : Policy::kAllowA8;
}

void expect(const CompressedGroup& group, uint64_t bits,
            std::initializer_list<std::string_view> strategies, uint64_t group_size) {
  if (!group.is_float) refuse_group(group, "type", "int", "float");
  if (group.bits != bits)
    refuse_group(group, "num_bits", std::to_string(group.bits), std::to_string(bits));
  if (!group.symmetric) refuse_group(group, "symmetric", "false", "true");
  if (!group.actorder.empty()) refuse_group(group, "actorder", group.actorder, "none");
  std::string known;
  bool found = false;
  for (const std::string_view strategy : strategies) {
    found |= strategy == group.strategy;
    known += (known.empty() ? "" : " or ") + std::string(strategy);
  }
  if (!found) refuse_group(group, "strategy", group.strategy, known);
  if (group_size != 0 && group.group_size != group_size)
    refuse_group(group, "group_size", std::to_string(group.group_size), std::to_string(group_size));
}

}  // namespace

std::unique_ptr<Scheme> compressed_nvfp4(const CompressedGroup& group) {
  expect(group, 4, {"tensor_group"}, 16);
  return std::make_unique<FloatScheme>(FloatStorage{.label = label_of(group),
                                                    .codes = ".weight_packed",
                                                    .scales = {".weight_scale"},
                                                    .scale_types = {DType::kF8E4M3},
                                                    .four_bits = true,
                                                    .block_cols = 16,
                                                    .global = ".weight_global_scale",
                                                    .global_divides = true,
                                                    .input_scale = ".input_global_scale",
                                                    .policy = policy_of(group)});
}

std::unique_ptr<Scheme> compressed_fp8(const CompressedGroup& group) {
  expect(group, 8, {"tensor", "channel", "block"}, 0);
  FloatStorage storage{.label = label_of(group),
                       .scales = {".weight_scale"},
                       .scale_types = {DType::kBf16, DType::kF32, DType::kF16},
                       .input_scale = ".input_scale",
                       .needs_input_scale = group.inputs && group.inputs->static_scale,
                       .policy = policy_of(group)};
  if (group.strategy == "block") {
    if (group.block_rows == 0) refuse_group(group, "block_structure", "none", "[rows, columns]");
    storage.block_rows = group.block_rows;
    storage.block_cols = group.block_cols;
  } else {
    storage.blocks =
        group.strategy == "tensor" ? FloatStorage::Blocks::kTensor : FloatStorage::Blocks::kRow;
  }
  storage.label += fmt::format(" ({})", group.strategy);
  return std::make_unique<FloatScheme>(std::move(storage));
}

std::unique_ptr<Scheme> compressed_mxfp4(const CompressedGroup& group) {
  expect(group, 4, {"group"}, 32);
  return std::make_unique<FloatScheme>(FloatStorage{.label = label_of(group),
                                                    .codes = ".weight_packed",
                                                    .scales = {".weight_scale"},
                                                    .scale_types = {DType::kU8, DType::kF8E8M0},
                                                    .four_bits = true,
                                                    .block_cols = 32,
                                                    .policy = policy_of(group)});
}

std::unique_ptr<Scheme> compressed_mxfp8(const CompressedGroup& group) {
  expect(group, 8, {"group"}, 32);
  return std::make_unique<FloatScheme>(FloatStorage{.label = label_of(group),
                                                    .scales = {".weight_scale"},
                                                    .scale_types = {DType::kU8, DType::kF8E8M0},
                                                    .block_cols = 32,
                                                    .policy = policy_of(group)});
}

}  // namespace flare::prepare
