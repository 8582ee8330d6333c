// Names of what a request's usage says.
#include "runtime/request.h"

#include "base/error.h"

namespace flare::runtime {

std::string_view prefix_miss_text(PrefixMiss miss) {
  switch (miss) {
    case PrefixMiss::kNone:
      return "none";
    case PrefixMiss::kCold:
      return "cold";
    case PrefixMiss::kDiverged:
      return "diverged";
    case PrefixMiss::kNoSnapshot:
      return "no_snapshot";
    case PrefixMiss::kEvicted:
      return "evicted";
    case PrefixMiss::kSalt:
      return "salt";
    case PrefixMiss::kDisabled:
      return "disabled";
  }
  return "";
}

std::string prefix_miss_note(const Usage& usage) {
  if (usage.miss == PrefixMiss::kDiverged) return fmt::format("diverged@{}", usage.known_tokens);
  return std::string(prefix_miss_text(usage.miss));
}

}  // namespace flare::runtime
