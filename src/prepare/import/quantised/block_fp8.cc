// Hugging Face's "fp8": E4M3 with a scale for each block, or for each matrix, and its relatives
// whose experts are MXFP4.
#include "base/error.h"
#include "prepare/import/config_reader.h"
#include "prepare/import/quantised/float_storage.h"
#include "prepare/import/quantised/methods.h"
#include "prepare/import/quantised/module_list.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;

// What the codes are tells which storage a module has.
class ByCodes final : public Scheme {
 public:
  ByCodes(FloatStorage eight, std::optional<FloatStorage> four) : eight_(std::move(eight)) {
    if (four) four_.emplace(std::move(*four));
  }
  bool stores(const TensorPool& tensors, std::string_view module) const override {
    return eight_.stores(tensors, module) || (four_ && four_->stores(tensors, module));
  }
  std::shared_ptr<const EncodedSource> open(TensorPool& tensors, std::string_view module,
                                            const codec::Shape& shape) const override {
    return (eight_.stores(tensors, module) ? eight_ : *four_).open(tensors, module, shape);
  }

 private:
  FloatScheme eight_;
  std::optional<FloatScheme> four_;
};

class BlockFp8 final : public Quantisation {
 public:
  BlockFp8(const Json& json, const std::string& where) {
    ConfigReader config(json, where);
    config.expect("fmt", {"e4m3", "float8_e4m3fn"});
    config.expect("scale_fmt", {"ue8m0", "float32", "e8m0"});  // the scales' type tells
    FloatStorage eight{.label = "block FP8",
                       .scales = {".weight_scale_inv", ".scale", ".weight_scale"},
                       .scale_types = {DType::kF32, DType::kBf16, DType::kF8E8M0, DType::kU8}};
    const std::string activations = config.text("activation_scheme").value_or("");
    config.expect("activation_scheme", {"dynamic", "static"});
    if (!activations.empty()) eight.policy = graph::Policy::kAllowA8;
    if (const auto block = config.counts("weight_block_size")) {
      if (block->size() != 2)
        throw Error(Code::kBinding, "{}: 'weight_block_size' has {} numbers, expected 2", where,
                    block->size());
      eight.block_rows = (*block)[0];
      eight.block_cols = (*block)[1];
      eight.label += fmt::format(" {}×{}", eight.block_rows, eight.block_cols);
    } else {
      eight.label = "FP8 (tensor)";
      eight.blocks = FloatStorage::Blocks::kTensor;
    }
    config.expect("expert_dtype", {"fp4", "fp8"});
    std::optional<FloatStorage> four;
    if (config.text("expert_dtype") == "fp4")
      four = FloatStorage{.label = "MXFP4",
                          .scales = {".scale", ".weight_scale_inv", ".weight_scale"},
                          .scale_types = {DType::kF8E8M0, DType::kU8},
                          .four_bits = true,
                          .block_cols = 32,
                          .policy = eight.policy};
    scheme_ = std::make_unique<ByCodes>(std::move(eight), std::move(four));
    std::vector<std::string> plain;
    for (const char* key : {"modules_to_not_convert", "ignored_layers"})
      if (const auto names = config.texts(key))
        plain.insert(plain.end(), names->begin(), names->end());
    plain_ = std::make_unique<ModuleList>(plain, ModuleSyntax::kParts,
                                          where + ": modules_to_not_convert");
    constexpr std::string_view other[] = {"quant_method"};
    config.ignore(other);
    config.expect("dequantize", {false});
    config.finish();
  }

  // The library leaves the head alone whether the list has it or not.
  bool codes_decide() const override { return true; }

  const Scheme* scheme_of(std::string_view module, bool linear) const override {
    return linear && !plain_->matches(module, linear) ? scheme_.get() : nullptr;
  }

  std::vector<Unused> unused() const override {
    return {{".activation_scale", "static input scales"},
            {".input_scale", "static input scales"},
            {".k_scale", "scales of the key-value cache"},
            {".v_scale", "scales of the key-value cache"}};
  }

 private:
  std::unique_ptr<ByCodes> scheme_;
  std::unique_ptr<ModuleList> plain_;
};

// gpt-oss: the experts alone, which its importer reads itself (gpt_oss_experts.h).
class Mxfp4Experts final : public Quantisation {
 public:
  Mxfp4Experts(const Json& json, const std::string& where) {
    ConfigReader config(json, where);
    constexpr std::string_view other[] = {"quant_method", "modules_to_not_convert"};
    config.expect("dequantize", {false});
    config.ignore(other);
    config.finish();
  }
  const Scheme* scheme_of(std::string_view, bool) const override { return nullptr; }
  std::vector<Unused> unused() const override { return {}; }
};

}  // namespace

std::unique_ptr<Quantisation> read_block_fp8(const Json& config, const std::string& where) {
  return std::make_unique<BlockFp8>(config, where);
}

std::unique_ptr<Quantisation> read_mxfp4_experts(const Json& config, const std::string& where) {
  return std::make_unique<Mxfp4Experts>(config, where);
}

}  // namespace flare::prepare
