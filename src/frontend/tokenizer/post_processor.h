// Post-processors: the ids that encoding with special tokens puts around a text.
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/tokenizer/component.h"

namespace flare::frontend::tokenizer {

// All kinds come down to ids in front of and behind a single sequence.
struct PostProcessor {
  std::vector<int32_t> prefix, suffix;

  static PostProcessor from_json(const Component& component);
};

}  // namespace flare::frontend::tokenizer
