// A model of three launches whose greedy answer anyone can tell: after id t comes (t + 1) mod V.
#pragma once

#include <memory>
#include <vector>

#include "kernel/kernels.h"
#include "package/prepared.h"

namespace flare::runtime::test {

struct ToyShape {
  uint32_t vocab = 100;
  uint32_t max_context = 64;
  uint32_t max_concurrency = 4;
  uint32_t prefill_chunk = 16;
  uint32_t prompt_logits = 0;  // logits rows besides one for each request
  uint32_t page_tokens = 8;
  uint64_t page_bytes = 256;  // 0: no paged state at all
  float sharpness = 8;        // logit of the greedy id; every other id has 0
};

inline void append_launch(graph::Plan& plan, kernel::KernelId id,
                          const std::vector<graph::Operand>& operands,
                          const std::vector<graph::Immediate>& immediates = {}) {
  plan.launches.push_back({static_cast<uint16_t>(id), static_cast<uint32_t>(plan.operands.size()),
                           static_cast<uint32_t>(operands.size()),
                           static_cast<uint32_t>(plan.immediates.size()),
                           static_cast<uint32_t>(immediates.size())});
  plan.operands.insert(plan.operands.end(), operands.begin(), operands.end());
  plan.immediates.insert(plan.immediates.end(), immediates.begin(), immediates.end());
}

inline graph::Operand io_operand(graph::Io io, graph::DType dtype, graph::Extent extent,
                                 uint32_t cols = 1) {
  return {graph::Space::kIo, dtype, extent, static_cast<uint32_t>(io), 0, cols, cols};
}

inline codec::Matrix fp32_matrix(const std::vector<float>& values, uint64_t rows, uint64_t cols) {
  codec::Matrix matrix;
  codec::append_segment(matrix, {reinterpret_cast<const std::byte*>(values.data()),
                                 {rows, cols},
                                 codec::FormatId::kFp32,
                                 codec::LayoutId::kContiguousLe,
                                 0,
                                 rows});
  return matrix;
}

inline package::PreparedModel toy_model(const ToyShape& shape = {}) {
  using graph::DType;
  using graph::Extent;
  using graph::Io;
  using graph::Operand;
  using graph::Space;
  const uint32_t v = shape.vocab;
  package::PreparedModel model;
  model.name = "toy";
  model.vocab_size = v;
  model.max_position = shape.max_context;
  model.capacity = {shape.max_context, shape.max_concurrency, shape.prefill_chunk,
                    shape.prefill_chunk + shape.max_concurrency};

  package::Rank rank;
  const auto identity = std::make_shared<std::vector<float>>(v * v);
  const auto successor = std::make_shared<std::vector<float>>(v * v);
  for (uint32_t t = 0; t < v; ++t) {
    (*identity)[t * v + t] = 1;
    (*successor)[(t + 1) % v * v + t] = shape.sharpness;
  }
  rank.weights = {fp32_matrix(*identity, v, v), fp32_matrix(*successor, v, v)};
  rank.weight_names = {"identity", "successor"};
  rank.keep_alive = {identity, successor};
  rank.page = {shape.page_tokens, shape.page_bytes, {}};
  if (shape.page_bytes > 0) {
    rank.row.bytes = shape.page_bytes;
    rank.row.partial_page = 0;
    rank.row.fields = {
        {"partial_page", package::RowField::Kind::kPartialPage, 0, shape.page_bytes, DType::kU8}};
  }

  const auto rows = static_cast<int32_t>(model.capacity.max_rows);
  const auto sequences = static_cast<int32_t>(shape.max_concurrency);
  const auto n_logits = sequences + static_cast<int32_t>(shape.prompt_logits);
  const auto weight = [v](uint32_t index) {
    return Operand{Space::kWeight, DType::kU8, Extent::kOne, index, 0, v, v};
  };
  const Operand embedded{Space::kArena, DType::kF32, Extent::kRows, 0, 0, v, v};
  const uint64_t behind = (static_cast<uint64_t>(rows) * v * sizeof(float) + 63) / 64 * 64;
  const Operand wanted{Space::kArena, DType::kF32, Extent::kLogits, 0, behind, v, v};
  const Operand logits = io_operand(Io::kLogits, DType::kF32, Extent::kLogits, v);
  graph::Plan step;
  step.role = "text.step";
  step.capacity = {rows, sequences, n_logits};
  step.arena_bytes = behind + static_cast<uint64_t>(n_logits) * v * sizeof(float);
  append_launch(step, kernel::KernelId::kEmbed,
                {io_operand(Io::kTokenIds, DType::kI32, Extent::kRows), weight(0), embedded},
                {graph::real(1)});
  append_launch(step, kernel::KernelId::kGatherRows,
                {embedded, io_operand(Io::kLogitsRows, DType::kI32, Extent::kLogits), wanted});
  append_launch(step, kernel::KernelId::kLinearGeneric, {wanted, weight(1), {}, logits, {}, {}, {}},
                {graph::integer(static_cast<int64_t>(graph::Policy::kExact)), graph::integer(0),
                 graph::integer(0), graph::real(0), graph::integer(0)});
  graph::Plan sample;
  sample.role = "text.sample";
  sample.capacity = step.capacity;
  append_launch(sample, kernel::KernelId::kSample,
                {logits, io_operand(Io::kSampling, DType::kU8, Extent::kLogits),
                 io_operand(Io::kSampled, DType::kI32, Extent::kLogits)});
  rank.catalog = {{"step", std::move(step)}, {"sample", std::move(sample)}};
  model.ranks.push_back(std::move(rank));
  return model;
}

}  // namespace flare::runtime::test
