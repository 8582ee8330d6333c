// DRY: a penalty on ids that would lengthen a repetition of what the sequence ends with.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernel/sample.h"
#include "runtime/request.h"

namespace flare::runtime {

// An id that followed an earlier occurrence of the last n ids, with n >= allowed_length the longest
// such run, loses multiplier · base^(n − allowed_length). Runs do not reach over a sequence
// breaker, and breakers themselves lose nothing. As llama.cpp has it, after p-e-w's "DRY: A modern
// repetition penalty that reliably prevents looping" (text-generation-webui #5677). Confined to one
// thread.
class DryPenalty {
 public:
  // `breakers`: bit id; may be null: none.
  DryPenalty(const DrySettings& settings, std::shared_ptr<const std::vector<uint32_t>> breakers)
      : settings_(settings), breakers_(std::move(breakers)) {}
  // What to take off each id's logit; valid until the next call. Time is linear in the window.
  std::span<const kernel::LogitChange> penalties(std::span<const int32_t> history);

 private:
  bool is_breaker(int32_t id) const;

  const DrySettings settings_;
  const std::shared_ptr<const std::vector<uint32_t>> breakers_;
  std::vector<int32_t> repeats_;  // Z function of the reversed window
  std::unordered_map<int32_t, int32_t> longest_;
  std::vector<kernel::LogitChange> penalties_;
};

}  // namespace flare::runtime
