// Weights stored as small floats with scales: E2M1 or E4M3 codes, a scale for a block of rows and
// columns, perhaps one more for the whole matrix. NVFP4, FP8, MXFP4 and MXFP8 differ in the numbers
// below alone (spec/models/quantised_checkpoints.md §1, §2).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "prepare/import/quantised/quantisation.h"
#include "prepare/import/tensor_pool.h"

namespace flare::prepare {

// What the codes of a weight lie in and what they are multiplied with.
struct FloatParts {
  const checkpoint::Tensor* codes = nullptr;
  const checkpoint::Tensor* scales = nullptr;
  std::string codes_place, scales_place;  // for messages
  bool four_bits = false;                 // E2M1, two a byte, the even column low; else E4M3
  // Rows of codes and of scales in their tensors: row r of the weight is first_row + r·row_stride.
  uint64_t first_row = 0;
  uint64_t row_stride = 1;
  // A scale is for this many rows and columns; the last block of each may be cut off.
  uint64_t block_rows = 1;
  uint64_t block_cols = 0;
  // Value = code · scale, then / divisor or · factor.
  std::optional<float> divisor;
  std::optional<float> factor;
};

// facts.formats may be any of float_formats.
std::shared_ptr<const EncodedSource> make_float_source(EncodedFacts facts, FloatParts parts);

// The formats that hold such parts as they are, the best first; empty: none.
std::vector<codec::FormatId> float_formats(const FloatParts& parts);

// One way of storing them beside a module, as a Scheme.
struct FloatStorage {
  std::string label;                     // for reports
  std::string_view codes = ".weight";    // ends of names behind the module's
  std::vector<std::string_view> scales;  // the first that is there
  std::vector<checkpoint::DType> scale_types;
  bool four_bits = false;
  enum class Blocks : uint8_t { kTensor, kRow, kGrid } blocks = Blocks::kGrid;
  uint64_t block_rows = 1;  // kGrid
  uint64_t block_cols = 0;
  std::string_view global;  // fp32 scalar: empty, or its name
  bool global_divides = false;
  // The activation's scale: the same convention as `global` where there is one, and then it becomes
  // the activation divisor; otherwise nothing here uses it.
  std::string_view input_scale;
  bool needs_input_scale = false;
  graph::Policy policy = graph::Policy::kA16Only;  // AllowA4 holds where the input scale is there
};

class FloatScheme final : public Scheme {
 public:
  explicit FloatScheme(FloatStorage storage) : storage_(std::move(storage)) {}
  bool stores(const TensorPool& tensors, std::string_view module) const override;
  std::shared_ptr<const EncodedSource> open(TensorPool& tensors, std::string_view module,
                                            const codec::Shape& shape) const override;

 private:
  FloatParts take_parts(TensorPool& tensors, std::string_view module,
                        const codec::Shape& shape) const;
  void take_inputs(TensorPool& tensors, std::string_view module, EncodedFacts& facts) const;
  FloatStorage storage_;
};

}  // namespace flare::prepare
