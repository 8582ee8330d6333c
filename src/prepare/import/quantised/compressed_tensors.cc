// The config of compressed-tensors: groups, targets, ignored modules.
#include "prepare/import/quantised/compressed_tensors.h"

#include "base/error.h"
#include "prepare/import/config_reader.h"
#include "prepare/import/quantised/methods.h"
#include "prepare/import/quantised/module_list.h"

namespace flare::prepare {
namespace {

struct Format {
  std::string_view name;
  CompressedScheme make;
};

// The older name of both.
std::unique_ptr<Scheme> compressed_naive(const CompressedGroup& group) {
  return group.is_float ? compressed_fp8(group) : compressed_integers(group);
}

constexpr Format kFormats[] = {
    {"nvfp4-pack-quantized", compressed_nvfp4}, {"float-quantized", compressed_fp8},
    {"mxfp4-pack-quantized", compressed_mxfp4}, {"mxfp8-quantized", compressed_mxfp8},
    {"pack-quantized", compressed_packed},      {"int-quantized", compressed_integers},
    {"naive-quantized", compressed_naive},
};
constexpr std::string_view kMixed = "mixed-precision";

// Keys of quantisation arguments that say how numbers were found, not what they mean.
constexpr std::string_view kObservation[] = {"observer", "observer_kwargs", "zp_dtype"};

void read_weights(ConfigReader& weights, CompressedGroup& group) {
  group.bits = weights.count("num_bits");
  weights.expect("type", {"float", "int"});
  group.symmetric = weights.flag_or("symmetric", true);
  group.strategy = weights.text("strategy").value_or("");
  if (const Json* size = weights.take("group_size")) {
    // −1 is an older spelling of "no groups".
    if (!size->is_integer() || size->to_text() == "-1") size = nullptr;
    if (size != nullptr) group.group_size = weights.count("group_size");
  }
  if (const auto block = weights.counts("block_structure")) {
    if (block->size() != 2)
      throw Error(Code::kBinding, "{}: 'block_structure' has {} numbers, expected 2",
                  weights.where(), block->size());
    group.block_rows = (*block)[0];
    group.block_cols = (*block)[1];
  }
  if (const Json* order = weights.take("actorder"); order != nullptr && *order != Json(false))
    group.actorder = order->is_string() ? order->as_string() : order->to_text();
  weights.expect("dynamic", {false});
  group.scale_dtype = weights.text("scale_dtype").value_or("");
  weights.ignore(kObservation);
  weights.finish();
}

void read_inputs(const Json& json, const std::string& where, CompressedGroup& group) {
  ConfigReader inputs(json, where);
  group.inputs = CompressedGroup::Inputs{.bits = inputs.count("num_bits")};
  const Json* dynamic = inputs.take("dynamic");
  group.inputs->static_scale = dynamic == nullptr || *dynamic == Json(false);
  constexpr std::string_view other[] = {
      "type", "symmetric", "strategy", "group_size", "block_structure", "actorder", "scale_dtype"};
  inputs.ignore(other);
  inputs.ignore(kObservation);
  inputs.finish();
}

class CompressedTensors final : public Quantisation {
 public:
  CompressedTensors(const Json& json, const std::string& where) {
    ConfigReader config(json, where);
    config.expect("quantization_status", {"compressed", "frozen"});
    const std::string format = config.text("format").value_or("");
    refuse_sparsity(config);
    const auto ignored = config.texts("ignore");
    ignored_ = std::make_unique<ModuleList>(ignored.value_or(std::vector<std::string>{}),
                                            ModuleSyntax::kCompressedTensors, where + ": ignore");
    const Json* groups = config.take("config_groups");
    if (groups == nullptr || !groups->is_object() || groups->as_object().empty())
      throw Error(Code::kBinding, "{}: 'config_groups' is {}, expected an object of groups", where,
                  groups == nullptr ? "missing" : quote(groups->to_text()));
    for (const auto& [name, group] : groups->as_object())
      add_group(group, fmt::format("{}: config_groups: {}", where, name), format);
    constexpr std::string_view other[] = {"quant_method", "version", "global_compression_ratio",
                                          "kv_cache_scheme"};
    config.ignore(other);
    config.finish();
  }

  const Scheme* scheme_of(std::string_view module, bool linear) const override {
    if (ignored_->matches(module, linear)) return nullptr;
    // A target that names the module goes before one that names its class.
    for (const bool by_class : {false, true})
      for (const Group& group : groups_)
        if (group.targets.matches(module, linear) &&
            (by_class || group.targets.matches_by_name(module)))
          return group.scheme.get();
    return nullptr;
  }

  std::vector<Unused> unused() const override {
    return {{".k_scale", "scales of the key-value cache"},
            {".v_scale", "scales of the key-value cache"},
            {".q_scale", "scales of queries"},
            {".output_scale", "scales of outputs"}};
  }

 private:
  struct Group {
    ModuleList targets;
    std::unique_ptr<Scheme> scheme;
  };

  static void refuse_sparsity(ConfigReader& config) {
    for (const char* key : {"sparsity_config", "transform_config", "moe_sparsity_config"}) {
      const Json* value = config.take(key);
      if (value == nullptr || (value->is_object() && value->as_object().empty())) continue;
      const Json* format = value->find("format");
      if (std::string_view(key) == "sparsity_config" && format != nullptr &&
          *format == Json("dense"))
        continue;
      throw Error(Code::kSupport, "{}: '{}' is {}, only an empty one is supported", config.where(),
                  key, quote(value->to_text()));
    }
  }

  void add_group(const Json& json, const std::string& where, const std::string& root_format) {
    ConfigReader reader(json, where);
    CompressedGroup group{.where = where};
    group.format = reader.text("format").value_or(root_format);
    const auto targets = reader.texts("targets");
    if (!targets || targets->empty())
      throw Error(Code::kBinding, "{}: 'targets' is missing or empty, expected module names",
                  where);
    const Json* weights = reader.take("weights");
    if (weights == nullptr)
      throw Error(Code::kSupport,
                  "{}: 'weights' is missing, only groups that quantise weights are supported",
                  where);
    ConfigReader weight_reader(*weights, where + ": weights");
    group.is_float = weights->find("type") != nullptr && *weights->find("type") == Json("float");
    read_weights(weight_reader, group);
    if (const Json* inputs = reader.take("input_activations"))
      read_inputs(*inputs, where + ": input_activations", group);
    constexpr std::string_view other[] = {"output_activations"};
    reader.ignore(other);
    reader.finish();
    groups_.push_back({ModuleList(*targets, ModuleSyntax::kCompressedTensors, where + ": targets"),
                       make_scheme(group)});
  }

  static std::unique_ptr<Scheme> make_scheme(const CompressedGroup& group) {
    std::string known;
    for (const Format& format : kFormats) {
      if (format.name == group.format) return format.make(group);
      known += (known.empty() ? "" : ", ") + std::string(format.name);
    }
    throw Error(Code::kSupport, "{}: 'format' is {}, expected one of {}", group.where,
                quote(group.format.empty() ? std::string(kMixed) : group.format), known);
  }

  std::unique_ptr<ModuleList> ignored_;
  std::vector<Group> groups_;
};

}  // namespace

void refuse_group(const CompressedGroup& group, std::string_view key, std::string_view value,
                  std::string_view expected) {
  throw Error(Code::kSupport, "{}: weights: '{}' is {}, only {} is supported for {}", group.where,
              key, quote(std::string(value)), expected, group.format);
}

std::unique_ptr<Quantisation> read_compressed_tensors(const Json& config,
                                                      const std::string& where) {
  return std::make_unique<CompressedTensors>(config, where);
}

}  // namespace flare::prepare
