// Post-processors: the ids that encoding with special tokens puts around texts.
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/tokenizer/component.h"

namespace flare::frontend::tokenizer {

// What stands at one place of a processed pair.
struct PairItem {
  enum Kind { kFirst, kSecond, kIds } kind;
  std::vector<int32_t> ids;  // of kIds
  int32_t type = 0;          // type id of all of it
};

// All kinds come down to ids in front of and behind a single sequence, and to a list for a pair.
struct PostProcessor {
  std::vector<int32_t> prefix, suffix;
  std::vector<PairItem> pair = {{PairItem::kFirst, {}, 0}, {PairItem::kSecond, {}, 1}};

  static PostProcessor from_json(const Component& component);

 private:
  bool plain() const { return prefix.empty() && suffix.empty() && pair.size() == 2; }
};

}  // namespace flare::frontend::tokenizer
