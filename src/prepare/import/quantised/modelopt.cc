// ModelOpt: one algorithm for the whole model, or one for each module.
#include <map>

#include "base/error.h"
#include "prepare/import/config_reader.h"
#include "prepare/import/quantised/float_storage.h"
#include "prepare/import/quantised/methods.h"
#include "prepare/import/quantised/module_list.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;
using graph::Policy;

struct Algorithm {
  std::string_view name;  // as in `quant_algo`
  uint64_t group_size;    // what `group_size` must be where it is said
};
constexpr Algorithm kAlgorithms[] = {{"NVFP4", 16}, {"FP8", 0}, {"MXFP8", 32}};
constexpr std::string_view kMixed = "MIXED_PRECISION";

FloatStorage storage_of(std::string_view algorithm) {
  FloatStorage storage{.label = fmt::format("ModelOpt {}", algorithm), .scales = {".weight_scale"}};
  if (algorithm == "NVFP4") {
    storage.scale_types = {DType::kF8E4M3};
    storage.four_bits = true;
    storage.block_cols = 16;
    storage.global = ".weight_scale_2";
    storage.input_scale = ".input_scale";
    storage.policy = Policy::kAllowA4;
  } else if (algorithm == "FP8") {
    storage.scale_types = {DType::kF32, DType::kBf16};
    storage.blocks = FloatStorage::Blocks::kTensor;
    storage.input_scale = ".input_scale";
    storage.policy = Policy::kAllowA8;
  } else {
    storage.scale_types = {DType::kU8, DType::kF8E8M0};
    storage.block_cols = 32;
    storage.policy = Policy::kAllowA8;
  }
  return storage;
}

class ModelOpt final : public Quantisation {
 public:
  ModelOpt(const Json& json, const std::string& file) {
    // hf_quant_config.json has one object more around it.
    const Json* inner = json.find("quantization");
    const std::string where = inner != nullptr ? file + ": quantization" : file;
    ConfigReader config(inner != nullptr ? *inner : json, where);
    const std::string algorithm = config.text("quant_algo").value_or("");
    std::vector<std::string> excluded;
    for (const char* key : {"ignore", "exclude_modules"})
      if (const auto names = config.texts(key))
        excluded.insert(excluded.end(), names->begin(), names->end());
    excluded_ = std::make_unique<ModuleList>(excluded, ModuleSyntax::kWildcards,
                                             where + ": exclude_modules");
    const Json* layers = config.take("quantized_layers");
    if (algorithm == kMixed) {
      read_layers(layers, where);
    } else {
      every_ = scheme_named(algorithm, where);
      check_group_size(config, algorithm);
    }
    constexpr std::string_view other[] = {
        "quant_method",        "producer",       "config_groups",   "kv_cache_scheme",
        "kv_cache_quant_algo", "has_zero_point", "pre_quant_scale", "version"};
    config.expect("has_zero_point", {false});
    config.expect("pre_quant_scale", {false});
    config.ignore(other);
    config.finish();
  }

  const Scheme* scheme_of(std::string_view module, bool linear) const override {
    if (excluded_->matches(module, linear)) return nullptr;
    if (every_ != nullptr) return linear ? every_ : nullptr;
    const auto found = layers_.find(module);
    return found != layers_.end() ? found->second : nullptr;
  }

  std::vector<Unused> unused() const override {
    return {{".k_scale", "scales of the key-value cache"},
            {".v_scale", "scales of the key-value cache"},
            {".output_scale", "scales of outputs"}};
  }

 private:
  const Scheme* scheme_named(const std::string& algorithm, const std::string& where) {
    if (const auto known = schemes_.find(algorithm); known != schemes_.end())
      return known->second.get();
    std::string names;
    for (const Algorithm& row : kAlgorithms) {
      if (row.name == algorithm)
        return schemes_.emplace(algorithm, std::make_unique<FloatScheme>(storage_of(algorithm)))
            .first->second.get();
      names += std::string(row.name) + ", ";
    }
    throw Error(Code::kSupport, "{}: 'quant_algo' is {}, expected one of {}{}", where,
                algorithm.empty() ? "missing" : quote(algorithm), names, kMixed);
  }

  static void check_group_size(ConfigReader& config, const std::string& algorithm) {
    for (const Algorithm& row : kAlgorithms)
      if (row.name == algorithm && row.group_size != 0)
        config.expect("group_size", {row.group_size});
    constexpr std::string_view size[] = {"group_size"};
    config.ignore(size);
  }

  void read_layers(const Json* layers, const std::string& where) {
    if (layers == nullptr || !layers->is_object())
      throw Error(Code::kBinding, "{}: 'quantized_layers' is {}, expected an object of modules",
                  where, layers == nullptr ? "missing" : quote(layers->to_text()));
    for (const auto& [module, json] : layers->as_object()) {
      ConfigReader layer(json, fmt::format("{}: quantized_layers: {}", where, module));
      const std::string algorithm = layer.text("quant_algo").value_or("");
      layers_.emplace(module, scheme_named(algorithm, layer.where()));
      check_group_size(layer, algorithm);
      layer.finish();
    }
  }

  std::unique_ptr<ModuleList> excluded_;
  std::map<std::string, std::unique_ptr<Scheme>, std::less<>> schemes_;  // by algorithm
  const Scheme* every_ = nullptr;
  std::map<std::string, const Scheme*, std::less<>> layers_;
};

}  // namespace

std::unique_ptr<Quantisation> read_modelopt(const Json& config, const std::string& where) {
  return std::make_unique<ModelOpt>(config, where);
}

}  // namespace flare::prepare
