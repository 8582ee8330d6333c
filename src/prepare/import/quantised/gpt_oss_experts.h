// The experts of gpt-oss: all of a layer in one tensor, rows of gate and up in turns, as MXFP4
// blocks or as bf16 numbers with input and output exchanged (quantised_checkpoints.md §2).
#pragma once

#include <string>

#include "prepare/import/tensor_pool.h"

namespace flare::prepare {

// One projection of every expert of a layer: PREFIX_blocks U8 [experts, rows, columns/32, 16] and
// PREFIX_scales, or PREFIX real numbers [experts, columns, rows]; and PREFIX_bias [experts, rows].
class GptOssExperts {
 public:
  // Takes these tensors. Errors: those of TensorPool::take_stored; kBinding where columns do not
  // divide by 32.
  GptOssExperts(TensorPool& tensors, std::string prefix, uint64_t experts, uint64_t rows,
                uint64_t cols);
  // Rows first, first + stride, … of one expert's matrix, [n, columns].
  Piece weight(uint64_t expert, uint64_t first, uint64_t stride, uint64_t n) const;
  // The same of its bias, [n].
  Piece bias(uint64_t expert, uint64_t first, uint64_t stride, uint64_t n) const;

 private:
  std::string prefix_;
  uint64_t rows_, cols_;
  const checkpoint::Tensor* plain_ = nullptr;
  const checkpoint::Tensor* blocks_ = nullptr;
  const checkpoint::Tensor* scales_ = nullptr;
  const checkpoint::Tensor* bias_ = nullptr;
  std::string blocks_place_, scales_place_;
};

}  // namespace flare::prepare
