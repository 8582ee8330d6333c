// A weight that a checkpoint does not keep as one plain tensor: codes with companions, or numbers
// in another order. One interface gives its rows as numbers and as words of the format that holds
// them as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "codec/format.h"
#include "graph/types.h"

namespace flare::prepare {

// Where rows of an encoded object go, plane by plane.
struct PlaneRows {
  std::byte* plane[codec::kMaxPlanes] = {};
};

// What is known of such a weight before its data is read.
struct EncodedFacts {
  std::string name;  // before quantisation, e.g. "model.layers.0.mlp.up_proj.weight"
  std::string
      scheme;  // how reports call its storage, e.g. "compressed-tensors nvfp4-pack-quantized"
  codec::Geometry geometry;  // [out, in], one divisor
  // Formats that take the stored codes over bit for bit, the best first: of those whose layout
  // holds a parameter's shape the first is used, unless a recipe names another one. Empty: none
  // does, and `unkept` says why.
  std::vector<codec::FormatId> formats;
  std::string unkept;
  // What keeping changes all the same ("scales are rounded to bf16"); empty: nothing.
  std::string rounded;
  // The one of `formats` in which it does; none: in all of them.
  std::optional<codec::FormatId> rounded_in;
  bool is_rounded_in(codec::FormatId format) const {
    return !rounded.empty() && rounded_in.value_or(format) == format;
  }
  // Of every use of the kept weight (spec/models/quantised_checkpoints.md §2).
  graph::Policy policy = graph::Policy::kA16Only;
  std::optional<float> divisor;             // nvfp4: of the weight
  std::optional<float> activation_divisor;  // of every use; AllowA4 needs it (§10.3)
  // Column c of the kept rows multiplies input column [c]; empty: the same one.
  std::vector<int32_t> input_columns;
  // Everything it is read from; front() holds the codes.
  std::vector<const checkpoint::Tensor*> tensors;
};

// Immutable: rows may be read by many threads at once. Points into its checkpoint. Whoever opens
// one has checked names, shapes and types of the tensors, but not their data.
class EncodedSource {
 public:
  explicit EncodedSource(EncodedFacts facts) : facts_(std::move(facts)) {}
  virtual ~EncodedSource() = default;
  const EncodedFacts& facts() const { return facts_; }

  // out[0 .. n_rows·in) = rows [row, row + n_rows): the exact value, rounded once to binary32;
  // columns in the order of the input. kValue names file, tensor, row and column of a code or a
  // scale that is no number.
  virtual void read_rows(uint64_t row, uint64_t n_rows, float* out) const = 0;

  // Writes rows [row, row + n_rows) as `format`, one of facts().formats, has them; dst points at
  // the first encoded byte in each plane, where a whole tile of rows begins (recipe/encode.h,
  // row_step). Words that the format forbids are kValue, as above.
  virtual void copy_rows(codec::FormatId format, uint64_t row, uint64_t n_rows,
                         const PlaneRows& dst) const = 0;

  // Gives back the pages of these rows, which were read; false: whoever knows the tensors does.
  virtual bool release_rows(uint64_t /*row*/, uint64_t /*n_rows*/) const { return false; }

 private:
  EncodedFacts facts_;
};

}  // namespace flare::prepare
