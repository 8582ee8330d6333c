// One step on one rank: fills the step inputs, picks the smallest plan that fits, replays it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernel/backend.h"
#include "package/prepared.h"
#include "runtime/cache/sequence.h"
#include "runtime/memory_plan.h"

namespace flare::runtime {

// Rows of one sequence in a step: tokens that follow the ones already computed.
struct StepEntry {
  SequenceMemory* memory = nullptr;
  std::span<const int32_t> tokens;
  bool wants_logits = false;  // of the last row; with all_logits of every row
  bool of_every_row = false;  // wants_logits means every row
};

// Owns a rank's back end, pools, plan instances and step buffers. Confined to the engine thread.
class StepRunner {
 public:
  struct Options {
    kernel::CpuOptions cpu;
    MemoryWishes memory;
    bool all_logits = false;
    std::optional<MemoryPlan> plan;  // made by plan_before_loading; absent: made now
  };
  // The model outlives the runner. Errors: kDoesNotFit, kInvalid (plans).
  StepRunner(const package::PreparedModel& model, const Options& options);
  ~StepRunner();

  const MemoryPlan& memory_plan() const { return memory_; }
  kernel::Backend& backend() { return *backend_; }
  BlockPool& rows() { return *rows_; }
  BlockPool& pages() { return *pages_; }
  const package::Rank& rank() const { return rank_; }
  SequenceMemory new_sequence();

  // Runs all entries in one step and commits their rows. Afterwards logits(l) holds the l-th wanted
  // row, in entry order. The caller keeps within capacity and has seen to free pages. Does not
  // allocate once buffers have grown to capacity.
  void step(std::span<const StepEntry> entries);
  int n_logits() const { return inputs_.n_logits; }
  std::span<const float> logits(int l) const;
  // Taps of the last step, [T, cols] each, in the order of plan.taps; empty without taps.
  const std::vector<std::string>& tap_names() const { return tap_names_; }
  std::span<const float> tap(size_t k) const;

  // Draws one id per logits row of the last step; result[l] belongs to params[l].
  std::span<const int32_t> sample(std::span<const kernel::SampleParams> params);

 private:
  struct Instances {
    std::vector<std::unique_ptr<kernel::PlanInstance>> step;  // ascending capacity
    std::unique_ptr<kernel::PlanInstance> sample;
  };
  void size_buffers();
  void fill_inputs(std::span<const StepEntry> entries);
  kernel::PlanInstance& instance_for(int32_t rows, int32_t sequences, int32_t logits);

  const package::PreparedModel& model_;
  const package::Rank& rank_;
  Options options_;
  std::unique_ptr<kernel::Backend> backend_;
  MemoryPlan memory_;
  std::unique_ptr<BlockPool> rows_;
  std::unique_ptr<BlockPool> pages_;
  Instances instances_;
  kernel::StepInputs inputs_;
  std::vector<int32_t> token_ids_, positions_, row_sequence_, sequence_begin_, sequence_past_;
  std::vector<int32_t> logits_rows_, sampled_;
  std::vector<std::byte* const*> page_tables_;
  std::vector<std::byte*> row_addresses_;
  std::vector<float> logits_;
  std::vector<std::string> tap_names_;
  std::vector<std::vector<float>> taps_;
  std::vector<uint32_t> tap_cols_;
  std::vector<float*> tap_addresses_;
};

// The memory plan of a model whose weights take no memory yet (PrepareOptions::before_loading).
// Errors: kDoesNotFit, kInvalid (plans).
MemoryPlan plan_before_loading(const package::PreparedModel& model, const kernel::CpuOptions& cpu,
                               const MemoryWishes& wishes);

}  // namespace flare::runtime
