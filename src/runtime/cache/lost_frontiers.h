// Frontiers that a prefix tree once had and evicted: remembered as hashes, to tell why a prompt was
// read again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <unordered_set>

namespace flare::runtime {

// A hash of a salt and the tokens behind it, one token at a time. Equal prefixes have equal hashes;
// two that differ by chance do not cost more than a wrong word in a log.
uint64_t prefix_hash(std::string_view salt);
uint64_t prefix_hash(uint64_t before, std::span<const int32_t> tokens);

// The newest `limit` of them. Confined to the engine thread.
class LostFrontiers {
 public:
  explicit LostFrontiers(size_t limit) : limit_(limit) {}
  void add(uint64_t prefix);
  // Whether a request with these tokens could once go on from behind more than `tokens_had` of
  // them.
  bool any_behind(std::string_view salt, std::span<const int32_t> tokens, size_t tokens_had) const;
  size_t size() const { return prefixes_.size(); }

 private:
  size_t limit_;
  std::unordered_set<uint64_t> prefixes_;
  std::deque<uint64_t> order_;  // oldest first
};

}  // namespace flare::runtime
