// What an engine tells of itself: counters and gauges for health, metrics and the dashboard.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/histogram.h"
#include "runtime/cache/disk_tier.h"
#include "runtime/cache/prefix_tree.h"

namespace flare::runtime {

// What the rows of a step were for.
enum class StepKind { kPrefill, kDecode, kMixed };
inline constexpr size_t kStepKinds = 3;
inline constexpr double kStepSecondsBounds[] = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                                0.2,    0.5,   1,     2,     5,    10,   20};

// Where drafted tokens come from (package.md §13): the model's draft heads, or the request's
// history.
enum class DraftKind { kLearned, kHistory };
inline constexpr size_t kDraftKinds = 2;
struct DraftStats {
  uint64_t rounds = 0, drafted = 0, accepted = 0;
};

// A snapshot. Counters only grow.
struct EngineStats {
  uint32_t running = 0, waiting = 0;
  uint32_t prefilling = 0;  // of running: their prompt is still being read
  uint64_t steps = 0, prompt_tokens = 0, generated_tokens = 0;  // prompt tokens that were computed
  uint64_t cached_prompt_tokens = 0;                            // of prompts, not computed
  uint64_t queried_prompt_tokens = 0;                           // looked up in the prefix tree
  std::array<Histogram, kStepKinds> step_seconds{
      Histogram(kStepSecondsBounds), Histogram(kStepSecondsBounds), Histogram(kStepSecondsBounds)};
  uint64_t preemptions = 0;  // running sequences that had to give their place up
  // Computed once more: behind a preemption, or the last one of a prompt that choices share.
  uint64_t replayed_tokens = 0;
  std::array<DraftStats, kDraftKinds> drafts{};
  std::vector<uint64_t> accepted_at_position;  // from 0; as long as the longest draft so far
  uint32_t pages_used = 0, pages_total = 0;    // used: by running sequences, shared ones by each
  uint32_t pages_active = 0;                   // held by a running sequence, shared ones once
  uint32_t pages_cached = 0;                   // held by the prefix tree alone
  uint32_t rows_active = 0, rows_total = 0;    // continuation rows; snapshots are rows too
  PrefixTree::Stats prefixes;
  std::optional<DiskTier::Stats> disk;  // none: no tier on disk
  bool queue_full = false;              // submit() would answer kQueueFull
  bool failed = false;
};

// A running sequence as an operator sees it.
struct RunningRow {
  uint64_t number = 0;  // of the request, in order of submission, from 1
  uint32_t prompt_tokens = 0, cached_tokens = 0;
  uint32_t read_tokens = 0;  // of the prompt, cached ones included
  uint32_t generated_tokens = 0;
  uint32_t max_tokens = 0;
  std::chrono::steady_clock::time_point submitted;
};

}  // namespace flare::runtime
