// The table of methods, and where a checkpoint names its own.
#include "prepare/import/quantised/quantisation.h"

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "prepare/import/quantised/methods.h"

namespace flare::prepare {
namespace {

struct Method {
  std::string_view name;  // as in `quant_method`
  QuantisationReader read;
};

constexpr Method kMethods[] = {
    {"compressed-tensors", read_compressed_tensors},
    {"modelopt", read_modelopt},
    {"fp8", read_block_fp8},
    {"mxfp4", read_mxfp4_experts},
    {"gptq", read_gptq},
    {"awq", read_awq},
};

// Configs of their own that older tools leave beside config.json, and the method they mean.
struct SideFile {
  std::string_view name, method;
};
constexpr SideFile kSideFiles[] = {{"hf_quant_config.json", "modelopt"},
                                   {"quantize_config.json", "gptq"}};

std::unique_ptr<Quantisation> read(std::string_view name, const Json& config,
                                   const std::string& where) {
  std::string known;
  for (const Method& method : kMethods) {
    if (method.name == name) return method.read(config, where);
    known += (known.empty() ? "" : ", ") + std::string(method.name);
  }
  throw Error(Code::kSupport, "{}: 'quant_method' is {}, expected one of {}", where, quote(name),
              known);
}

}  // namespace

std::unique_ptr<Quantisation> read_quantisation(const checkpoint::Checkpoint& checkpoint) {
  const std::string file = (checkpoint.folder() / "config.json").string();
  for (const char* key : {"quantization_config", "compression_config"}) {
    const Json* config = checkpoint.config().find(key);
    if (config == nullptr || config->is_null()) continue;
    const std::string where = fmt::format("{}: {}", file, key);
    const Json* method = config->find("quant_method");
    if (method != nullptr && method->is_string()) return read(method->as_string(), *config, where);
    // Early compressed-tensors files do not say so.
    if (method == nullptr && config->find("config_groups") != nullptr)
      return read("compressed-tensors", *config, where);
    throw Error(Code::kBinding, "{}: 'quant_method' is {}, expected the name of a method", where,
                method == nullptr ? "missing" : quote(method->to_text()));
  }
  for (const SideFile& side : kSideFiles) {
    const auto text = checkpoint.asset(side.name);
    if (!text) continue;
    const std::string where = (checkpoint.folder() / side.name).string();
    return read(side.method, parse_large_json(*text, where), where);
  }
  return nullptr;
}

}  // namespace flare::prepare
