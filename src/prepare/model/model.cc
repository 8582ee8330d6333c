// The architecture table.
#include "prepare/model/model.h"

#include "base/error.h"

namespace flare::prepare {
namespace {

struct Architecture {
  std::string_view name;
  BoundGraph (*build)(ParameterSource&, const ModelOptions&);
};

constexpr Architecture kArchitectures[] = {
    {"LlamaForCausalLM", build_llama},     {"MistralForCausalLM", build_llama},
    {"Qwen2ForCausalLM", build_llama},     {"Qwen3ForCausalLM", build_qwen3},
    {"Qwen3_5ForCausalLM", build_qwen3_5},
};

}  // namespace

TextModel build_text_model(ParameterSource& source, const ModelOptions& options) {
  const Config config(source.config("text"));
  const std::vector<std::string> names = config.texts("architectures");
  const std::string name = names.empty() ? "" : names[0];
  for (const Architecture& a : kArchitectures)
    if (a.name == name)
      return {a.build(source, options), config.u32("vocab_size"),
              config.u32("max_position_embeddings")};
  std::string known;
  for (const Architecture& a : kArchitectures)
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  throw Error(Code::kSupport, "{}: architecture {} is unknown, one of {} expected",
              source.path().string(), quote(name), known);
}

}  // namespace flare::prepare
