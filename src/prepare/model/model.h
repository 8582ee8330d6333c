// The architectures this build knows: one builder each, chosen by a component's `architectures`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "prepare/model/binder.h"

namespace flare::prepare {

// What the rest of preparation needs to know of a model besides its graph.
struct TextModel {
  BoundGraph step;  // role text.step
  uint32_t vocab_size = 0;
  uint32_t max_position = 0;
};

// Emits text.step of the model behind `source`. Errors: kSupport (unknown architecture; the message
// lists the known ones), kBinding.
TextModel build_text_model(ParameterSource& source, const ModelOptions& options);

// One per architecture file.
BoundGraph build_llama(ParameterSource& source, const ModelOptions& options);
BoundGraph build_qwen3(ParameterSource& source, const ModelOptions& options);
BoundGraph build_gemma3(ParameterSource& source, const ModelOptions& options);
BoundGraph build_qwen3_5(ParameterSource& source, const ModelOptions& options);

}  // namespace flare::prepare
