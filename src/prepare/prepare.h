// Preparation in one call: an opened source becomes a prepared model that the runtime can run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "package/prepared.h"
#include "prepare/parameter_source.h"

namespace flare::prepare {

// What flags say instead of the source's files and of the template's detector.
struct FrontendChoices {
  std::optional<std::string> chat_template;     // Jinja text
  std::optional<std::string> tool_format;       // a name of frontend/output, "none"
  std::optional<std::string> reasoning_format;  // the same
};

struct PrepareOptions {
  uint32_t max_context = 0;                       // 0: what the architecture allows
  uint32_t max_concurrency = 8;                   // sequences in one step
  uint32_t prefill_chunk = 512;                   // prompt rows in one step
  int threads = 0;                                // that pack weights; 0: every usable core
  bool exact = false;                             // f32 reference arithmetic, f32 keys and values
  graph::DType kv_dtype = graph::DType::kF8E4M3;  // of pages, or kBf16; exact makes it f32
  bool taps = false;                              // plans copy hidden states out
  bool input_taps = false;                        // plans copy out what every projection reads
  bool all_logits = false;     // every row may ask for logits, not one per sequence
  uint32_t prompt_logits = 0;  // rows of a step that may ask besides, for prompt_logprobs
  FrontendChoices frontend;
  // Called with everything in place but the bytes of weights, before memory is taken for them: the
  // place to plan memory, tell the plan, and refuse by throwing.
  std::function<void(const package::PreparedModel&)> before_loading;
};

// Builds graphs, chooses kernels, lays out states and memory, decides the frontend block. The
// source moves into the result, which keeps its bytes alive. Errors: kBinding, kSupport, kUsage
// (max_context above the architecture's), kInvalid (tokenizer or generation config).
package::PreparedModel prepare(std::unique_ptr<ParameterSource> source,
                               const PrepareOptions& options);

// The graph of `role` ("text.step") as the model gives it, and its smallest plan, fused, as text,
// for `ignition inspect --graph`. Errors: kUsage for an unknown role.
std::string graph_and_plan_text(ParameterSource& source, std::string_view role);

// Tokenizer, template, stop ids and sampling as the source's files give them, and what the template
// says of tools, reasoning and conversations. A template that cannot be parsed says nothing: who
// serves the model refuses it by line. Errors: kInvalid, kDirectory (files), kUsage (choices).
package::FrontendBlock make_frontend_block(const ParameterSource& source,
                                           const FrontendChoices& choices = {});

// The same without a model: of a folder that may hold tokenizer files alone, a tokenizer.json, a
// tokenizer.model, a GGUF file (vocabulary or model), a checkpoint or an artifact. Reads no
// weights. Errors: kNotFound, and those above.
package::FrontendBlock open_frontend(const std::filesystem::path& path,
                                     const FrontendChoices& choices = {});

}  // namespace flare::prepare
