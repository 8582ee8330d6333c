// The family adapters that the architecture table of import.cc names.
#pragma once

#include <string_view>

#include "prepare/import/config_reader.h"
#include "prepare/import/imported_model.h"
#include "prepare/import/tensor_pool.h"

namespace flare::prepare {

// Adds component text (and what was skipped) to `model`. `config` is the whole config.json.
using Adapter = void (*)(std::string_view architecture, const Json& config,
                         const std::string& where, TensorPool& tensors, ImportedModel& model);

void import_llama_family(std::string_view architecture, const Json& config,
                         const std::string& where, TensorPool& tensors, ImportedModel& model);
void import_qwen3_moe(std::string_view architecture, const Json& config, const std::string& where,
                      TensorPool& tensors, ImportedModel& model);
void import_gpt_oss(std::string_view architecture, const Json& config, const std::string& where,
                    TensorPool& tensors, ImportedModel& model);
void import_gemma3(std::string_view architecture, const Json& config, const std::string& where,
                   TensorPool& tensors, ImportedModel& model);
void import_qwen3_5(std::string_view architecture, const Json& config, const std::string& where,
                    TensorPool& tensors, ImportedModel& model);

// Component vision of the Qwen3.5 family (§15.4), for a text model of this width; `family` is
// "qwen3_5" or "qwen3_5_moe".
void import_qwen3_5_vision(std::string_view family, const Json& config, const std::string& where,
                           uint64_t hidden, TensorPool& tensors, ImportedModel& model);

}  // namespace flare::prepare
