// One step on one rank: fills the step inputs, picks the smallest plan that fits, replays it. And
// pieces of prompts, which are replayed launch by launch so that steps run in between.
#pragma once

#include <cstdint>
#include <functional>
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
  // Where the continuation row goes as it stands behind the first `n_kept` of the tokens, fewer
  // than all: that frontier costs no step of its own. Null: nowhere. Not of a piece.
  std::byte* kept = nullptr;
  uint32_t n_kept = 0;
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
  // The same, and how many seconds each launch of the returned plan took. No entry has `kept`.
  const graph::Plan& step_timed(std::span<const StepEntry> entries, std::vector<double>* seconds);
  int n_logits() const { return last_->inputs.n_logits; }
  std::span<const float> logits(int l) const;
  // Taps of the last step, [T, cols] each, in the order of plan.taps; empty without taps.
  const std::vector<std::string>& tap_names() const { return tap_names_; }
  std::span<const float> tap(size_t k) const;

  // A piece: rows of prompts that are computed launch by launch, in memory of its own, so that
  // steps of other sequences, of max_concurrency rows at most, run in between. One at a time; its
  // sequences stay as they are until it has ended.
  uint32_t piece_rows() const { return static_cast<uint32_t>(piece_.token_ids.size()); }  // at most
  void begin_piece(std::span<const StepEntry> entries);
  bool has_piece() const { return !piece_entries_.empty(); }
  // Computes for `seconds` at most, as far as the piece before tells, but one launch at least, and
  // no launch more once `interrupted` says so.
  // True: the piece has ended, its rows are committed, and logits() and sample() are about it.
  bool run_piece(double seconds, const std::function<bool()>& interrupted = [] { return false; });
  // Its sequences are in no state then.
  void drop_piece() { piece_entries_.clear(); }
  // Of the launches of the last piece all but the longest twentieth took no more seconds than this.
  double longest_launch() const;

  // Draws one id per logits row of the last step; result[l] belongs to params[l].
  std::span<const int32_t> sample(std::span<const kernel::SampleParams> params);

 private:
  // Launches of a plan that follow each other: all that leave continuation rows alone, or one that
  // moves some of their fields forward.
  struct Stretch {
    std::unique_ptr<kernel::PlanInstance> instance;
    std::vector<package::RowField> fields;
  };
  struct StepPlan {
    std::unique_ptr<kernel::PlanInstance> whole;
    std::vector<Stretch> stretches;  // the same in parts
  };
  struct Instances {
    std::vector<StepPlan> step;  // ascending capacity
    std::unique_ptr<kernel::PlanInstance> sample;
  };
  // Inputs and what they point at.
  struct Arrays {
    std::vector<int32_t> token_ids, positions, row_sequence, sequence_begin, sequence_past;
    std::vector<int32_t> logits_rows;
    std::vector<std::byte* const*> page_tables;
    std::vector<std::byte*> row_addresses;
    kernel::StepInputs inputs;
  };
  void size_arrays(const graph::PlanCapacity& capacity, Arrays* arrays);
  void size_buffers();
  void make_parts(const graph::Plan& plan);
  std::vector<Stretch> make_stretches(const graph::Plan& plan);
  std::vector<package::RowField> fields_moved_by(const graph::Plan& plan,
                                                 const graph::Launch& launch) const;
  // Of continuation rows: all but the open page.
  size_t n_moved_fields() const {
    return rank_.row.fields.size() - (rank_.row.partial_page.has_value() ? 1 : 0);
  }
  void replay_keeping(const StepPlan& plan, std::span<const StepEntry> entries);
  void move_rows(const Stretch& stretch, std::span<const StepEntry> entries);
  const StepPlan& begin_step(std::span<const StepEntry> entries);
  void fill_inputs(std::span<const StepEntry> entries, Arrays* arrays);
  const StepPlan& plan_for(int32_t rows, int32_t sequences, int32_t logits) const;

  const package::PreparedModel& model_;
  const package::Rank& rank_;
  Options options_;
  std::unique_ptr<kernel::Backend> backend_;
  MemoryPlan memory_;
  std::unique_ptr<BlockPool> rows_;
  std::unique_ptr<BlockPool> pages_;
  Instances instances_;
  Arrays step_, piece_;
  Arrays* last_ = &step_;  // what logits() and sample() are about
  std::vector<int32_t> sampled_;
  std::vector<float> logits_;
  std::vector<std::unique_ptr<kernel::PlanInstance>> parts_;  // of a piece, in order
  std::vector<double> part_seconds_;                          // of the piece before, by part
  std::vector<StepEntry> piece_entries_;                      // empty: there is no piece
  size_t next_part_ = 0;
  double pace_ = 0;  // rows of the piece by those that part_seconds_ are of
  size_t measured_rows_ = 0;
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
