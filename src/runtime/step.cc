// Step inputs from sequences, and the choice of a plan.
#include "runtime/step.h"

#include <algorithm>

#include "base/error.h"

namespace flare::runtime {
namespace {

uint64_t scratch_bytes(const package::Rank& rank, kernel::Backend& backend) {
  uint64_t scratch = 0;
  for (const package::CatalogEntry& e : rank.catalog)
    scratch = std::max(scratch, backend.scratch_bytes(e.plan, {rank.weights, rank.constants}));
  return scratch;
}

}  // namespace

MemoryPlan plan_before_loading(const package::PreparedModel& model, const kernel::CpuOptions& cpu,
                               const MemoryWishes& wishes) {
  const auto backend = kernel::make_cpu_backend(cpu);
  return plan_memory(model, scratch_bytes(model.ranks.at(0), *backend), wishes,
                     total_memory_bytes(), available_memory_bytes());
}

StepRunner::StepRunner(const package::PreparedModel& model, const Options& options)
    : model_(model),
      rank_(model.ranks.at(0)),
      options_(options),
      backend_(kernel::make_cpu_backend(options.cpu)) {
  const kernel::PlanBindings bindings{rank_.weights, rank_.constants};
  if (options.plan) {
    memory_ = *options.plan;
  } else {
    // The weights are part of the plan, and of what is in use.
    const uint64_t available = available_memory_bytes() + rank_.weight_bytes;
    memory_ = plan_memory(model, scratch_bytes(rank_, *backend_), options.memory,
                          total_memory_bytes(), available);
  }
  rows_ =
      std::make_unique<BlockPool>(*backend_, memory_.row_bytes, memory_.rows + memory_.snapshots);
  pages_ = std::make_unique<BlockPool>(*backend_, memory_.page_bytes, memory_.pages);
  for (const package::CatalogEntry& e : rank_.catalog) {
    auto instance = backend_->instantiate(e.plan, bindings);
    if (e.graph_class == "sample") {
      instances_.sample = std::move(instance);
    } else {
      instances_.step.push_back(std::move(instance));
    }
  }
  FLARE_ASSERT(!instances_.step.empty() && instances_.sample);
  size_buffers();
}

StepRunner::~StepRunner() = default;

SequenceMemory StepRunner::new_sequence() { return SequenceMemory(rank_, *rows_, *pages_); }

void StepRunner::size_buffers() {
  const graph::Plan& largest = instances_.step.back()->plan();
  const auto rows = static_cast<size_t>(largest.capacity.rows);
  const auto sequences = static_cast<size_t>(largest.capacity.sequences);
  const auto n_logits = static_cast<size_t>(largest.capacity.logits);
  token_ids_.resize(rows);
  positions_.resize(3 * rows);
  row_sequence_.resize(rows);
  sequence_begin_.resize(sequences + 1);
  sequence_past_.resize(sequences);
  page_tables_.resize(sequences);
  row_addresses_.resize(sequences);
  logits_rows_.resize(n_logits);
  sampled_.resize(n_logits);
  logits_.resize(n_logits * model_.vocab_size);
  tap_names_ = largest.taps;
  for (size_t k = 0; k < tap_names_.size(); ++k) {
    const uint32_t io = static_cast<uint32_t>(graph::Io::kTaps) + static_cast<uint32_t>(k);
    const auto operand = std::ranges::find_if(largest.operands, [io](const graph::Operand& o) {
      return o.space == graph::Space::kIo && o.index == io;
    });
    FLARE_ASSERT(operand != largest.operands.end());
    tap_cols_.push_back(operand->cols);
    taps_.emplace_back(rows * operand->cols);
  }
  for (auto& tap : taps_) tap_addresses_.push_back(tap.data());
  inputs_.token_ids = token_ids_.data();
  inputs_.positions = positions_.data();
  inputs_.row_sequence = row_sequence_.data();
  inputs_.sequence_begin = sequence_begin_.data();
  inputs_.sequence_past = sequence_past_.data();
  inputs_.page_tables = page_tables_.data();
  inputs_.rows = row_addresses_.data();
  inputs_.page_tokens = static_cast<int32_t>(rank_.page.tokens);
  inputs_.logits_rows = logits_rows_.data();
  inputs_.logits = logits_.data();
  inputs_.logits_stride = model_.vocab_size;
  inputs_.sampled = sampled_.data();
  inputs_.taps = tap_addresses_.data();
}

void StepRunner::fill_inputs(std::span<const StepEntry> entries) {
  int32_t t = 0, b = 0, l = 0, n_rows = 0;
  for (const StepEntry& e : entries) n_rows += static_cast<int32_t>(e.tokens.size());
  FLARE_ASSERT(n_rows > 0 && static_cast<size_t>(n_rows) <= token_ids_.size());
  FLARE_ASSERT(entries.size() <= page_tables_.size());
  for (const StepEntry& e : entries) {
    const auto n = static_cast<int32_t>(e.tokens.size());
    e.memory->prepare_rows(static_cast<uint32_t>(n));
    const auto past = static_cast<int32_t>(e.memory->computed());
    sequence_begin_[b] = t;
    sequence_past_[b] = past;
    page_tables_[b] = e.memory->page_table();
    row_addresses_[b] = e.memory->row();
    for (int32_t i = 0; i < n; ++i, ++t) {
      token_ids_[t] = e.tokens[i];
      row_sequence_[t] = b;
      for (int axis = 0; axis < 3; ++axis) positions_[axis * n_rows + t] = past + i;
      const bool every = options_.all_logits || e.of_every_row;
      if (!e.wants_logits || (!every && i < n - 1)) continue;
      FLARE_ASSERT(static_cast<size_t>(l) < logits_rows_.size());
      logits_rows_[l++] = t;
    }
    ++b;
  }
  sequence_begin_[b] = t;
  inputs_.n_rows = t;
  inputs_.n_sequences = b;
  inputs_.n_logits = l;
}

kernel::PlanInstance& StepRunner::instance_for(int32_t rows, int32_t sequences, int32_t logits) {
  for (const auto& instance : instances_.step) {
    const graph::PlanCapacity& c = instance->plan().capacity;
    if (rows <= c.rows && sequences <= c.sequences && logits <= c.logits) return *instance;
  }
  FLARE_ASSERT(false && "a step beyond the catalog");
}

void StepRunner::step(std::span<const StepEntry> entries) {
  fill_inputs(entries);
  backend_->replay(instance_for(inputs_.n_rows, inputs_.n_sequences, inputs_.n_logits), inputs_);
  for (const StepEntry& e : entries) e.memory->commit_rows(static_cast<uint32_t>(e.tokens.size()));
}

std::span<const float> StepRunner::logits(int l) const {
  return {logits_.data() + static_cast<size_t>(l) * model_.vocab_size, model_.vocab_size};
}

std::span<const float> StepRunner::tap(size_t k) const {
  return {taps_[k].data(), static_cast<size_t>(inputs_.n_rows) * tap_cols_[k]};
}

std::span<const int32_t> StepRunner::sample(std::span<const kernel::SampleParams> params) {
  FLARE_ASSERT(params.size() == static_cast<size_t>(inputs_.n_logits));
  inputs_.sampling = params.data();
  backend_->replay(*instances_.sample, inputs_);
  return {sampled_.data(), params.size()};
}

}  // namespace flare::runtime
