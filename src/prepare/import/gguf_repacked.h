// Blocks of GGUF files whose codes and scales a format of ours takes over in another order of
// bytes: MXFP4 becomes mxfp4, NVFP4 nvfp4, the ternary PQ2_0, TQ1_0 and TQ2_0 and the binary Q1_0
// t2_g128_fp16.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "prepare/import/imported_model.h"

namespace flare::prepare {

bool is_repacked(checkpoint::DType dtype);

// The rows of a tensor of such a type, or of Q2_0 or Q8_0 as take_over_blocks wants them; `place`
// names file and tensor in messages. `factors`, of NVFP4 alone: what values are multiplied with
// besides, one number for the tensor or one for each of its equally tall matrices, finite and above
// 0 as their reciprocals; empty: 1. kBinding where the columns are no whole blocks. Reading and
// copying refuse (kValue) scales that are no numbers, codes that exceed binary32, bit pairs 3 and
// scales that spec/artifact.md §6.3 forbids.
std::shared_ptr<const EncodedSource> open_repacked(const checkpoint::Tensor& tensor,
                                                   const std::string& place,
                                                   codec::Geometry geometry,
                                                   std::vector<float> factors = {});

// Makes the parameter one whose words `format` takes over as they are, of the two that hold blocks
// of ggml and are no blocks themselves (§8.6): q2_g64_fp16 of Q2_0, q8_g32_fp16 of Q8_0. False, and
// nothing changes, where the format is another or the checkpoint holds other types.
bool take_over_blocks(const checkpoint::Checkpoint& checkpoint, codec::FormatId format,
                      ImportedParameter& parameter);

// The same rows with their columns in the order of `columns`, every column once: whole blocks move,
// else the kept words stay where they are and get input_columns. Null for sources that are not of
// open_repacked.
std::shared_ptr<const EncodedSource> reorder_repacked(const EncodedSource& source,
                                                      const std::vector<Columns>& columns);

}  // namespace flare::prepare
