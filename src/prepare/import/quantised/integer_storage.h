// Weights stored as integers with scales: value = (code − zero point)·scale. AWQ, GPTQ and
// compressed-tensors differ in where the fields of a row lie (quantised_checkpoints.md §5).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "prepare/import/quantised/quantisation.h"
#include "prepare/import/tensor_pool.h"

namespace flare::prepare {

// Where codes and zero points of output row r, input column k, group g lie. `per` fields of
// `bits` bits fill a word of 32, the first in the lowest bits.
enum class IntegerLayout : uint8_t {
  kSigned8,       // int8 [out, in]; zero points int8 [out, groups]
  kAlongColumns,  // codes: words [out, in/per]
  kAlongRows,     // zero points: words [out/per, groups], field r mod per
  kInputMajor,    // codes: words [in/per, out]; zero points: words [groups, out/per]
  kAwq,           // codes: words [in, out/8], zero points [groups, out/8], outputs in AWQ's order
};

// What makes up a weight. Tensors have been checked for type and shape.
struct IntegerParts {
  int bits = 4;  // 4 or 8
  IntegerLayout layout = IntegerLayout::kAlongColumns;
  const checkpoint::Tensor* codes = nullptr;
  const checkpoint::Tensor* scales = nullptr;  // bf16, fp16 or fp32
  bool scales_by_group = false;                // [groups, out], else [out, groups]
  bool one_scale = false;                      // the only group of all rows
  const checkpoint::Tensor* zeros = nullptr;   // null: the middle of the codes' range
  IntegerLayout zero_layout = IntegerLayout::kAlongRows;
  uint32_t raise_zeros = 0;               // added to every word of zero points, modulo 2^32
  uint64_t group_size = 0;                // input columns of a group; 0: all
  std::vector<uint32_t> group_of;         // input column → group; empty: column/group_size
  std::string codes_place, scales_place;  // for messages
};

// Chooses the format that keeps the words, and the order of columns that makes groups contiguous.
// `facts` holds name, scheme, geometry, policy and tensors.
std::shared_ptr<const EncodedSource> make_integer_source(EncodedFacts facts, IntegerParts parts);

// The groups that a g_idx tensor [in] of int32 words gives, each below `groups`; empty if it is
// column/group_size, or all −1, which means the same. kValue names the column of a wrong one.
std::vector<uint32_t> read_group_index(const TensorPool& tensors, const checkpoint::Tensor& tensor,
                                       uint64_t group_size, uint64_t groups);

// Number of groups of `cols` columns.
uint64_t integer_groups(uint64_t cols, uint64_t group_size);

}  // namespace flare::prepare
