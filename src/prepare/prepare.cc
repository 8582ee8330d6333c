// The catalog of an in-memory preparation.
#include "prepare/prepare.h"

#include <malloc.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/cpu.h"
#include "base/error.h"
#include "kernel/kernels.h"
#include "prepare/lower/fuse.h"
#include "prepare/lower/lower.h"
#include "prepare/lower/pack.h"
#include "prepare/model/model.h"

namespace flare::prepare {
namespace {

constexpr uint32_t kPageTokens = 128;

graph::Plan sample_plan(uint32_t vocab, const graph::PlanCapacity& capacity) {
  graph::Builder b("text.sample");
  b.sample(vocab);
  const graph::Graph g = b.finish();
  return lower(g, lay_out_states(g, kPageTokens), {}, vocab, capacity);
}

package::Capacity choose_capacity(const PrepareOptions& options, uint32_t max_position) {
  if (options.max_context > max_position)
    throw Error(Code::kUsage, "--max-context {}: the model has {} positions", options.max_context,
                max_position);
  // Far above what a machine runs, far below what wraps.
  constexpr uint32_t kMost = 1u << 20;
  if (options.max_concurrency == 0 || options.max_concurrency > kMost)
    throw Error(Code::kUsage, "--max-concurrency {}: 1..{} expected", options.max_concurrency,
                kMost);
  if (options.prefill_chunk == 0 || options.prefill_chunk > kMost)
    throw Error(Code::kUsage, "prefill chunk of {} rows: 1..{} expected", options.prefill_chunk,
                kMost);
  package::Capacity c;
  c.max_context = options.max_context > 0 ? options.max_context : max_position;
  c.max_concurrency = options.max_concurrency;
  c.prefill_chunk = options.prefill_chunk;
  c.max_rows = options.prefill_chunk + options.max_concurrency;
  return c;
}

// One plan of text.step per power of two up to the largest step: a bucket sizes the arena.
std::vector<package::CatalogEntry> make_catalog(const TextModel& model, const StateLayout& states,
                                                const package::Capacity& capacity,
                                                const PrepareOptions& options) {
  std::vector<package::CatalogEntry> catalog;
  graph::PlanCapacity key;
  for (uint32_t rows = 1;; rows = std::min(rows * 2, capacity.max_rows)) {
    key.rows = static_cast<int32_t>(rows);
    key.sequences = static_cast<int32_t>(std::min(rows, capacity.max_concurrency));
    key.logits = key.sequences;
    if (options.all_logits) key.logits = key.rows;
    if (options.prompt_logits > 0)
      key.logits = static_cast<int32_t>(
          std::min<uint64_t>(rows, uint64_t{options.prompt_logits} + key.sequences));
    catalog.push_back(
        {"step", lower(model.step.graph, states, model.step.weights, model.vocab_size, key)});
    if (rows == capacity.max_rows) break;
  }
  catalog.push_back({"sample", sample_plan(model.vocab_size, key)});
  return catalog;
}

// Of every matrix in the form that kernels read, each row once, and of constants.
uint64_t weight_bytes(const package::Rank& rank, const Packing& packing) {
  uint64_t total = packing.bytes;
  std::set<std::tuple<const std::byte*, uint64_t, uint64_t>> counted;
  for (const codec::Matrix& weight : rank.weights)
    for (const codec::Segment& s : weight.segments) {
      if (s.layout == codec::LayoutId::kPanels16) continue;  // in the packed memory
      if (!counted.emplace(s.object, s.row_begin, s.row_end).second) continue;
      const codec::Planes planes = codec::format(s.format).planes(s.geometry);
      for (int p = 0; p < planes.count; ++p) total += s.rows() * planes.plane[p].row_bytes;
    }
  for (const kernel::Constant& constant : rank.constants)
    total += constant.elements() * sizeof(float);  // of i32 as well
  return total;
}

}  // namespace

package::PreparedModel prepare(std::unique_ptr<ParameterSource> source,
                               const PrepareOptions& options) {
  ModelOptions model_options;
  model_options.exact = options.exact;
  model_options.taps = options.taps;
  model_options.input_taps = options.input_taps;
  model_options.kv_dtype = options.exact ? graph::DType::kF32 : options.kv_dtype;
  TextModel model = build_text_model(*source, model_options);
  model.step.graph = fuse(std::move(model.step.graph), model.step.weights, model.step.constants);
  const Packing packing = plan_packing(model.step.graph, model.step.weights);
  StateLayout states = lay_out_states(model.step.graph, kPageTokens);

  package::PreparedModel prepared;
  prepared.name = source->name();
  prepared.source = source->path().string();
  prepared.vocab_size = model.vocab_size;
  prepared.max_position = model.max_position;
  prepared.capacity = choose_capacity(options, model.max_position);
  prepared.frontend = make_frontend_block(*source, options.frontend);

  package::Rank rank;
  rank.catalog = make_catalog(model, states, prepared.capacity, options);
  rank.page = std::move(states.page);
  rank.row = std::move(states.row);
  rank.weights = std::move(model.step.weights);
  rank.weight_names = std::move(model.step.graph.weight_names);
  rank.constants = std::move(model.step.constants);
  rank.weight_bytes = weight_bytes(rank, packing);
  const std::shared_ptr<ParameterSource> shared_source = std::move(source);
  rank.keep_alive = {packing.memory, shared_source};
  prepared.ranks.push_back(std::move(rank));

  if (options.before_loading) options.before_loading(prepared);
  ::malloc_trim(0);  // what reading and importing took and gave up, which may be tens of megabytes
  shared_source->fill();
  pack_weights(packing, *shared_source,
               options.threads > 0 ? options.threads : static_cast<int>(usable_cores().size()));
  return prepared;
}

std::string graph_and_plan_text(ParameterSource& source, std::string_view role) {
  if (role != "text.step") throw Error(Code::kUsage, "--graph {}: text.step expected", quote(role));
  const TextModel model = build_text_model(source, {});
  const StateLayout states = lay_out_states(model.step.graph, kPageTokens);
  const graph::Graph fused = fuse(model.step.graph, model.step.weights, model.step.constants);
  const graph::Plan plan = lower(fused, states, model.step.weights, model.vocab_size, {1, 1, 1});
  return graph::graph_text(model.step.graph) + graph::plan_text(plan, kernel::kernel_name);
}

}  // namespace flare::prepare
