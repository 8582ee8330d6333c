// Step inputs from sequences, and the choice of a plan.
#include "runtime/step.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace flare::runtime {
namespace {

constexpr uint64_t kAlignment = 64;

// Rows of a piece: kernels for many rows are near their best, and the piece is over soon.
constexpr int32_t kPieceRows = 64;

// The smallest plan of steps with that many rows, or the largest.
const graph::Plan& plan_of(const package::Rank& rank, int32_t rows) {
  const graph::Plan* plan = nullptr;
  for (const package::CatalogEntry& e : rank.catalog) {
    if (e.graph_class == "sample") continue;
    plan = &e.plan;
    if (plan->capacity.rows >= rows) break;
  }
  FLARE_ASSERT(plan != nullptr);
  return *plan;
}

// The plan of pieces: its values lie behind all that steps of answers use.
graph::Plan piece_plan(const package::PreparedModel& model, kernel::Backend& backend) {
  const package::Rank& rank = model.ranks.at(0);
  const kernel::PlanBindings bindings{rank.weights, rank.constants};
  const auto answers = static_cast<int32_t>(model.capacity.max_concurrency);
  uint64_t used = backend.scratch_bytes(plan_of(rank, answers), bindings);
  for (const package::CatalogEntry& e : rank.catalog)
    if (e.graph_class == "sample") used = std::max(used, backend.scratch_bytes(e.plan, bindings));
  used = checked_align_up(used, kAlignment);
  graph::Plan plan = plan_of(rank, kPieceRows);
  plan.arena_bytes = checked_add(plan.arena_bytes, used, "arena");
  for (graph::Operand& o : plan.operands)
    if (o.space == graph::Space::kArena) o.offset += used;
  return plan;
}

// Its launches from `begin` on, before `end`.
graph::Plan part_of(const graph::Plan& plan, size_t begin, size_t end) {
  graph::Plan part{plan.role, plan.capacity, plan.arena_bytes, {}, {}, {}, plan.taps};
  for (size_t i = begin; i < end; ++i) {
    graph::Launch launch = plan.launches[i];
    const auto operands = std::span(plan.operands).subspan(launch.first_operand, launch.n_operands);
    const auto immediates =
        std::span(plan.immediates).subspan(launch.first_immediate, launch.n_immediates);
    launch.first_operand = static_cast<uint32_t>(part.operands.size());
    launch.first_immediate = static_cast<uint32_t>(part.immediates.size());
    part.operands.insert(part.operands.end(), operands.begin(), operands.end());
    part.immediates.insert(part.immediates.end(), immediates.begin(), immediates.end());
    part.launches.push_back(launch);
  }
  return part;
}

bool writes_logits(const graph::Plan& plan, const graph::Launch& launch) {
  const auto operands = std::span(plan.operands).subspan(launch.first_operand, launch.n_operands);
  return std::ranges::any_of(operands, [](const graph::Operand& o) {
    return o.space == graph::Space::kIo && o.index == static_cast<uint32_t>(graph::Io::kLogits);
  });
}

// What steps use, or the plan of pieces.
uint64_t scratch_bytes(const package::PreparedModel& model, const graph::Plan& pieces,
                       kernel::Backend& backend) {
  const package::Rank& rank = model.ranks.at(0);
  const kernel::PlanBindings bindings{rank.weights, rank.constants};
  uint64_t scratch = backend.scratch_bytes(pieces, bindings);
  for (const package::CatalogEntry& e : rank.catalog)
    scratch = std::max(scratch, backend.scratch_bytes(e.plan, bindings));
  return scratch;
}

}  // namespace

MemoryPlan plan_before_loading(const package::PreparedModel& model, const kernel::CpuOptions& cpu,
                               const MemoryWishes& wishes) {
  const auto backend = kernel::make_cpu_backend(cpu);
  return plan_memory(model, scratch_bytes(model, piece_plan(model, *backend), *backend), wishes,
                     total_memory_bytes(), available_memory_bytes());
}

StepRunner::StepRunner(const package::PreparedModel& model, const Options& options)
    : model_(model),
      rank_(model.ranks.at(0)),
      options_(options),
      backend_(kernel::make_cpu_backend(options.cpu)) {
  const kernel::PlanBindings bindings{rank_.weights, rank_.constants};
  const graph::Plan pieces = piece_plan(model, *backend_);
  if (options.plan) {
    memory_ = *options.plan;
  } else {
    // The weights are part of the plan, and of what is in use.
    const uint64_t available = available_memory_bytes() + rank_.weight_bytes;
    memory_ = plan_memory(model, scratch_bytes(model, pieces, *backend_), options.memory,
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
      instances_.step.push_back({std::move(instance), make_stretches(e.plan)});
    }
  }
  FLARE_ASSERT(!instances_.step.empty() && instances_.sample);
  size_buffers();
  make_parts(pieces);
}

StepRunner::~StepRunner() = default;

SequenceMemory StepRunner::new_sequence() { return SequenceMemory(rank_, *rows_, *pages_); }

void StepRunner::size_buffers() {
  const graph::Plan& largest = instances_.step.back().whole->plan();
  const auto rows = static_cast<size_t>(largest.capacity.rows);
  const auto n_logits = static_cast<size_t>(largest.capacity.logits);
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
  size_arrays(largest.capacity, &step_);
  step_.inputs.taps = tap_addresses_.data();
}

void StepRunner::size_arrays(const graph::PlanCapacity& capacity, Arrays* arrays) {
  Arrays& a = *arrays;
  const auto rows = static_cast<size_t>(capacity.rows);
  const auto sequences = static_cast<size_t>(capacity.sequences);
  a.token_ids.resize(rows);
  a.positions.resize(3 * rows);
  a.row_sequence.resize(rows);
  a.sequence_begin.resize(sequences + 1);
  a.sequence_past.resize(sequences);
  a.page_tables.resize(sequences);
  a.row_addresses.resize(sequences);
  a.logits_rows.resize(static_cast<size_t>(capacity.logits));
  a.inputs.token_ids = a.token_ids.data();
  a.inputs.positions = a.positions.data();
  a.inputs.row_sequence = a.row_sequence.data();
  a.inputs.sequence_begin = a.sequence_begin.data();
  a.inputs.sequence_past = a.sequence_past.data();
  a.inputs.page_tables = a.page_tables.data();
  a.inputs.rows = a.row_addresses.data();
  a.inputs.page_tokens = static_cast<int32_t>(rank_.page.tokens);
  a.inputs.logits_rows = a.logits_rows.data();
  a.inputs.logits = logits_.data();
  a.inputs.logits_stride = model_.vocab_size;
  a.inputs.sampled = sampled_.data();
}

// A launch each; those from the logits on together, since steps write logits too.
void StepRunner::make_parts(const graph::Plan& plan) {
  const kernel::PlanBindings bindings{rank_.weights, rank_.constants};
  for (size_t begin = 0, end = 0; begin < plan.launches.size(); begin = end) {
    end = writes_logits(plan, plan.launches[begin]) ? plan.launches.size() : begin + 1;
    parts_.push_back(backend_->instantiate(part_of(plan, begin, end), bindings));
  }
  part_seconds_.resize(parts_.size());
  size_arrays(plan.capacity, &piece_);
}

// The fields of continuation rows that a launch moves forward.
std::vector<package::RowField> StepRunner::fields_moved_by(const graph::Plan& plan,
                                                           const graph::Launch& launch) const {
  std::vector<package::RowField> fields;
  const auto operands = std::span(plan.operands).subspan(launch.first_operand, launch.n_operands);
  for (const graph::Operand& o : operands)
    if (o.space == graph::Space::kRow)
      for (const package::RowField& f : rank_.row.fields)
        if (f.offset == o.offset) fields.push_back(f);
  return fields;
}

// None for a model whose rows hold the open page alone.
std::vector<StepRunner::Stretch> StepRunner::make_stretches(const graph::Plan& plan) {
  std::vector<Stretch> stretches;
  size_t n_fields = 0;
  if (n_moved_fields() == 0) return stretches;
  const kernel::PlanBindings bindings{rank_.weights, rank_.constants};
  for (size_t begin = 0, end = 0; begin < plan.launches.size(); begin = end) {
    std::vector<package::RowField> fields = fields_moved_by(plan, plan.launches[begin]);
    n_fields += fields.size();
    end = begin + 1;
    while (fields.empty() && end < plan.launches.size() &&
           fields_moved_by(plan, plan.launches[end]).empty())
      ++end;
    stretches.push_back(
        {backend_->instantiate(part_of(plan, begin, end), bindings), std::move(fields)});
  }
  FLARE_ASSERT(n_fields == n_moved_fields());
  return stretches;
}

void StepRunner::fill_inputs(std::span<const StepEntry> entries, Arrays* arrays) {
  Arrays& in = *arrays;
  int32_t t = 0, b = 0, l = 0, n_rows = 0;
  for (const StepEntry& e : entries) n_rows += static_cast<int32_t>(e.tokens.size());
  FLARE_ASSERT(n_rows > 0 && static_cast<size_t>(n_rows) <= in.token_ids.size());
  FLARE_ASSERT(entries.size() <= in.page_tables.size());
  for (const StepEntry& e : entries) {
    const auto n = static_cast<int32_t>(e.tokens.size());
    e.memory->prepare_rows(static_cast<uint32_t>(n));
    const auto past = static_cast<int32_t>(e.memory->computed());
    in.sequence_begin[b] = t;
    in.sequence_past[b] = past;
    in.page_tables[b] = e.memory->page_table();
    in.row_addresses[b] = e.memory->row();
    for (int32_t i = 0; i < n; ++i, ++t) {
      in.token_ids[t] = e.tokens[i];
      in.row_sequence[t] = b;
      for (int axis = 0; axis < 3; ++axis) in.positions[axis * n_rows + t] = past + i;
      const bool every = options_.all_logits || e.of_every_row;
      if (!e.wants_logits || (!every && i < n - 1)) continue;
      FLARE_ASSERT(static_cast<size_t>(l) < in.logits_rows.size());
      in.logits_rows[l++] = t;
    }
    ++b;
  }
  in.sequence_begin[b] = t;
  in.inputs.n_rows = t;
  in.inputs.n_sequences = b;
  in.inputs.n_logits = l;
  last_ = arrays;
}

const StepRunner::StepPlan& StepRunner::plan_for(int32_t rows, int32_t sequences,
                                                 int32_t logits) const {
  for (const StepPlan& plan : instances_.step) {
    const graph::PlanCapacity& c = plan.whole->plan().capacity;
    if (rows <= c.rows && sequences <= c.sequences && logits <= c.logits) return plan;
  }
  FLARE_ASSERT(false && "a step beyond the catalog");
}

const StepRunner::StepPlan& StepRunner::begin_step(std::span<const StepEntry> entries) {
  fill_inputs(entries, &step_);
  const kernel::StepInputs& in = step_.inputs;
  // Larger plans would write over the values of a piece.
  FLARE_ASSERT(!has_piece() || std::cmp_less_equal(in.n_rows, model_.capacity.max_concurrency));
  return plan_for(in.n_rows, in.n_sequences, in.n_logits);
}

void StepRunner::step(std::span<const StepEntry> entries) {
  const StepPlan& plan = begin_step(entries);
  if (std::ranges::any_of(entries, [](const StepEntry& e) { return e.kept != nullptr; }))
    replay_keeping(plan, entries);
  else
    backend_->replay(*plan.whole, step_.inputs);
  for (const StepEntry& e : entries) e.memory->commit_rows(static_cast<uint32_t>(e.tokens.size()));
}

const graph::Plan& StepRunner::step_timed(std::span<const StepEntry> entries,
                                          std::vector<double>* seconds) {
  const StepPlan& plan = begin_step(entries);
  seconds->resize(plan.whole->plan().launches.size());
  backend_->replay_timed(*plan.whole, step_.inputs, *seconds);
  for (const StepEntry& e : entries) e.memory->commit_rows(static_cast<uint32_t>(e.tokens.size()));
  return plan.whole->plan();
}

// What moves the state of a sequence runs twice where its row is kept: up to the frontier, and on
// from there. Sequence by sequence, since rows of one run are neighbours.
void StepRunner::move_rows(const Stretch& stretch, std::span<const StepEntry> entries) {
  for (size_t b = 0; b < entries.size(); ++b) {
    const StepEntry& e = entries[b];
    int32_t range[] = {step_.sequence_begin[b], step_.sequence_begin[b + 1]};
    kernel::StepInputs one = step_.inputs;
    one.n_sequences = 1;
    one.sequence_begin = range;
    one.sequence_past += b;
    one.page_tables += b;
    one.rows += b;
    if (e.kept != nullptr) {
      const int32_t end = std::exchange(range[1], range[0] + static_cast<int32_t>(e.n_kept));
      backend_->replay(*stretch.instance, one);
      for (const package::RowField& f : stretch.fields)
        std::memcpy(e.kept + f.offset, e.memory->row() + f.offset, f.bytes);
      range[0] = std::exchange(range[1], end);
    }
    backend_->replay(*stretch.instance, one);
  }
}

// Keys and values stay where they are written, so open pages are copied at the end.
void StepRunner::replay_keeping(const StepPlan& plan, std::span<const StepEntry> entries) {
  if (plan.stretches.empty()) backend_->replay(*plan.whole, step_.inputs);
  for (const Stretch& stretch : plan.stretches) {
    if (stretch.fields.empty())
      backend_->replay(*stretch.instance, step_.inputs);
    else
      move_rows(stretch, entries);
  }
  for (const StepEntry& e : entries) {
    if (e.kept == nullptr) continue;
    FLARE_ASSERT(e.n_kept > 0 && e.n_kept < e.tokens.size());
    const uint32_t frontier = e.memory->computed() + e.n_kept;
    if (rank_.page.bytes > 0 && frontier % rank_.page.tokens != 0)
      std::memcpy(e.kept + *rank_.row.partial_page,
                  e.memory->page_table()[frontier / rank_.page.tokens], rank_.page.bytes);
  }
}

void StepRunner::begin_piece(std::span<const StepEntry> entries) {
  FLARE_ASSERT(!has_piece() && !entries.empty());
  fill_inputs(entries, &piece_);
  piece_entries_.assign(entries.begin(), entries.end());
  next_part_ = 0;
  const auto rows = static_cast<size_t>(piece_.inputs.n_rows);
  pace_ = measured_rows_ == 0 ? 0 : static_cast<double>(rows) / static_cast<double>(measured_rows_);
  measured_rows_ = rows;
}

bool StepRunner::run_piece(double seconds, const std::function<bool()>& interrupted) {
  using Clock = std::chrono::steady_clock;
  FLARE_ASSERT(has_piece());
  double used = 0;
  do {
    const Clock::time_point begin = Clock::now();
    backend_->replay(*parts_[next_part_], piece_.inputs);
    part_seconds_[next_part_] = std::chrono::duration<double>(Clock::now() - begin).count();
    used += part_seconds_[next_part_];
    if (++next_part_ < parts_.size()) continue;
    for (const StepEntry& e : piece_entries_)
      e.memory->commit_rows(static_cast<uint32_t>(e.tokens.size()));
    piece_entries_.clear();
    last_ = &piece_;
    return true;
  } while (used + pace_ * part_seconds_[next_part_] <= seconds && !interrupted());
  return false;
}

double StepRunner::longest_launch() const {
  std::vector<double> sorted = part_seconds_;
  const auto at = sorted.begin() + static_cast<ptrdiff_t>((sorted.size() - 1) * 19 / 20);
  std::ranges::nth_element(sorted, at);
  return *at;
}

std::span<const float> StepRunner::logits(int l) const {
  return {logits_.data() + static_cast<size_t>(l) * model_.vocab_size, model_.vocab_size};
}

std::span<const float> StepRunner::tap(size_t k) const {
  return {taps_[k].data(), static_cast<size_t>(step_.inputs.n_rows) * tap_cols_[k]};
}

std::span<const int32_t> StepRunner::sample(std::span<const kernel::SampleParams> params) {
  FLARE_ASSERT(params.size() == static_cast<size_t>(last_->inputs.n_logits));
  last_->inputs.sampling = params.data();
  backend_->replay(*instances_.sample, last_->inputs);
  return {sampled_.data(), params.size()};
}

}  // namespace flare::runtime
