// A bounded set of hashes.
#include "runtime/cache/lost_frontiers.h"

#include <functional>

namespace flare::runtime {

uint64_t prefix_hash(std::string_view salt) { return std::hash<std::string_view>{}(salt); }

uint64_t prefix_hash(uint64_t before, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    // Finaliser of splitmix64: every bit of token and past reaches every bit of the result.
    before += 0x9e3779b97f4a7c15u + static_cast<uint32_t>(token);
    before = (before ^ (before >> 30)) * 0xbf58476d1ce4e5b9u;
    before = (before ^ (before >> 27)) * 0x94d049bb133111ebu;
    before ^= before >> 31;
  }
  return before;
}

void LostFrontiers::add(uint64_t prefix) {
  if (!prefixes_.insert(prefix).second) return;
  order_.push_back(prefix);
  if (order_.size() <= limit_) return;
  prefixes_.erase(order_.front());
  order_.pop_front();
}

bool LostFrontiers::any_behind(std::string_view salt, std::span<const int32_t> tokens,
                               size_t tokens_had) const {
  if (prefixes_.empty()) return false;
  uint64_t prefix = prefix_hash(prefix_hash(salt), tokens.first(tokens_had));
  for (size_t i = tokens_had; i < tokens.size(); ++i) {
    prefix = prefix_hash(prefix, tokens.subspan(i, 1));
    if (prefixes_.contains(prefix)) return true;
  }
  return false;
}

}  // namespace flare::runtime
