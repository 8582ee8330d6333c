// A checkpoint seen through the parameter registry: what import makes and recipes, sources and
// build read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "checkpoint/safetensors.h"
#include "codec/format.h"
#include "prepare/import/encoded_source.h"

namespace flare::prepare {

// Rows [row_begin, row_end) of a source tensor seen as codec::geometry_of(shape), or of a weight
// that is no plain tensor.
struct Piece {
  const checkpoint::Tensor* tensor = nullptr;  // of an encoded weight: its codes
  uint64_t row_begin = 0;
  uint64_t row_end = 0;
  std::shared_ptr<const EncodedSource> encoded = nullptr;  // null: a plain tensor
};

// Columns [begin, end) of a source tensor.
struct Columns {
  uint64_t begin = 0;
  uint64_t end = 0;
};

enum class Transform : uint8_t {
  kNone,
  kTransposeTaps,  // gdn/convolution: source [C,1,T], parameter [T,C]
  kMinusOne,       // source 1 + w, parameter w
  kLogNegated,     // source −exp(a), parameter a
};

// The parameter's numbers are not the source's.
inline bool changes_values(Transform transform) {
  return transform == Transform::kMinusOne || transform == Transform::kLogNegated;
}

// What a format recipe needs to know of a parameter's use (spec/artifact.md §16).
enum class ParameterKind : uint8_t {
  kPlain,           // norms, biases, tables: not a projection
  kEmbedding,       // text/token_embedding
  kProjection,      // has inputs
  kHead,            // text/output_head, a projection
  kFineProjection,  // a projection that the general recipes never quantise
};

// One logical parameter (§15). Its rows are the pieces' rows one after the other, its columns those
// of `columns`; with kTransposeTaps the only piece is the whole source tensor and `columns` counts
// its channels.
struct ImportedParameter {
  std::string name;
  codec::Shape shape;
  std::vector<Piece> pieces;
  std::vector<Columns> columns;  // empty: as in the source; else every column once
  Transform transform = Transform::kNone;
  ParameterKind kind = ParameterKind::kPlain;
  bool fp32_direct = false;         // direct format is fp32 instead of bf16
  std::vector<std::string> inputs;  // mathematical inputs; empty: no projection
  std::string tied_to;              // name of the parameter whose data this one shares, or empty
};

struct ImportedComponent {
  std::string id;
  std::string target;  // component that this one extends, or empty
  // Of text where it has one (§11.2): domain, and rows of an indexed one.
  std::optional<std::pair<std::string, std::optional<uint64_t>>> proposal;
  Json config;                                    // normalised, §15.2 and §15.8
  std::vector<ImportedParameter> parameters;      // registry order
  std::vector<std::vector<std::string>> packing;  // candidate groups, first compatible wins
  const ImportedParameter* find(std::string_view name) const;
};

// Tensors of a component that was recognised and not asked for.
struct SkippedComponent {
  std::string id;
  uint64_t tensors = 0;
  uint64_t bytes = 0;
};

// Points into the checkpoint it was made from, which must outlive it.
struct ImportedModel {
  std::vector<ImportedComponent> components;
  std::vector<SkippedComponent> skipped;
  std::vector<std::string> notes;  // what a person should know, one line each
  const ImportedComponent* find(std::string_view id) const;
  // Of any component; null if there is none of that name.
  ImportedParameter* find_parameter(std::string_view name);
};

}  // namespace flare::prepare
