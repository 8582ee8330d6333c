// The architecture table, and the steps every import shares.
#include "prepare/import/import.h"

#include "prepare/import/adapters.h"
#include "prepare/import/gguf.h"

namespace flare::prepare {
namespace {

struct Architecture {
  std::string_view name;  // as in `architectures`
  Adapter import;
};

constexpr Architecture kArchitectures[] = {
    {"LlamaForCausalLM", import_llama_family},
    {"MistralForCausalLM", import_llama_family},
    {"Qwen2ForCausalLM", import_llama_family},
    {"Qwen3ForCausalLM", import_llama_family},
    {"Qwen3MoeForCausalLM", import_qwen3_moe},
    {"GptOssForCausalLM", import_gpt_oss},
    {"Qwen3_5ForCausalLM", import_qwen3_5},
    {"Qwen3_5ForConditionalGeneration", import_qwen3_5},
    {"Qwen3_5MoeForCausalLM", import_qwen3_5},
    {"Qwen3_5MoeForConditionalGeneration", import_qwen3_5},
    {"Gemma3ForCausalLM", import_gemma3},
    {"Gemma3ForConditionalGeneration", import_gemma3},
};

std::string architecture_name(const Json& config, const std::string& where) {
  const Json* list = config.find("architectures");
  if (list == nullptr || !list->is_array() || list->as_array().size() != 1 ||
      !list->as_array()[0].is_string())
    throw Error(Code::kBinding, "{}: 'architectures' is {}, expected a list of one name", where,
                list == nullptr ? "missing" : quote(list->to_text()));
  return list->as_array()[0].as_string();
}

const Architecture& find_architecture(const std::string& name, const std::string& where) {
  std::string known;
  for (const Architecture& row : kArchitectures) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Error(Code::kSupport, "{}: architecture {} is unknown, expected one of {}", where,
              quote(name), known);
}

// Translates configuration and names, lets the family's adapter import, and undoes the order of
// rows and the numbers that GGUF keeps differently.
ImportedModel import_gguf(const checkpoint::Checkpoint& checkpoint,
                          std::vector<std::string> components) {
  const std::string where = checkpoint.gguf()->path().string();
  const GgufConfig gguf = read_gguf_config(checkpoint);
  const std::string name = architecture_name(gguf.config, where);
  if (gguf.mtp_layers != 1) std::erase(components, "mtp");  // adapters know one layer
  TensorPool tensors(checkpoint, nullptr, std::move(components));
  ImportedModel model;
  find_architecture(name, where).import(name, gguf.config, where, tensors, model);
  for (uint64_t i = 0; i < gguf.mtp_layers && model.find("mtp") == nullptr; ++i)
    tensors.skip_component("mtp", fmt::format("blk.{}.", gguf.layers + i), model.skipped);
  tensors.skip_derived("rope_freqs.weight");
  tensors.skip_unused(model.notes);
  tensors.finish(name);
  restore_gguf_orders(gguf, where, model);
  return model;
}

}  // namespace

const ImportedParameter* ImportedComponent::find(std::string_view name) const {
  for (const ImportedParameter& parameter : parameters)
    if (parameter.name == name) return &parameter;
  return nullptr;
}

const ImportedComponent* ImportedModel::find(std::string_view id) const {
  for (const ImportedComponent& component : components)
    if (component.id == id) return &component;
  return nullptr;
}

ImportedParameter* ImportedModel::find_parameter(std::string_view name) {
  for (ImportedComponent& component : components)
    for (ImportedParameter& parameter : component.parameters)
      if (parameter.name == name) return &parameter;
  return nullptr;
}

ImportedModel import_checkpoint(const checkpoint::Checkpoint& checkpoint,
                                const std::vector<std::string>& components) {
  if (checkpoint.gguf() != nullptr) return import_gguf(checkpoint, components);
  const std::string where = (checkpoint.folder() / "config.json").string();
  const Json& config = checkpoint.config();
  if (config.is_null())
    throw Error(Code::kNotFound, "{}: no such file, expected the checkpoint's configuration",
                where);
  if (!config.is_object())
    throw Error(Code::kBinding, "{} is {}, expected an object", where, config.kind_name());
  const std::string name = architecture_name(config, where);
  const Architecture& architecture = find_architecture(name, where);
  const std::unique_ptr<Quantisation> quantisation = read_quantisation(checkpoint);
  TensorPool tensors(checkpoint, quantisation.get(), components);
  ImportedModel model;
  architecture.import(name, config, where, tensors, model);
  tensors.skip_unused(model.notes);
  tensors.finish(name);
  return model;
}

}  // namespace flare::prepare
