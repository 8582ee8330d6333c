// Preparation in one call: an opened source becomes a prepared model that the runtime can run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "package/prepared.h"
#include "prepare/parameter_source.h"

namespace flare::prepare {

struct PrepareOptions {
  uint32_t max_context = 0;                       // 0: what the architecture allows
  uint32_t max_concurrency = 8;                   // sequences in one step
  uint32_t prefill_chunk = 512;                   // prompt rows in one step
  int threads = 0;                                // that pack weights; 0: every usable core
  bool exact = false;                             // f32 reference arithmetic, f32 keys and values
  graph::DType kv_dtype = graph::DType::kF8E4M3;  // of pages, or kBf16; exact makes it f32
  bool taps = false;                              // plans copy hidden states out
  bool all_logits = false;                   // every row may ask for logits, not one per sequence
  std::optional<std::string> chat_template;  // Jinja text instead of the source's
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

// Tokenizer, template, stop ids and sampling as the source's files give them.
package::FrontendBlock make_frontend_block(const ParameterSource& source);

}  // namespace flare::prepare
