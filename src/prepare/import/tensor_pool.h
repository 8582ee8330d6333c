// The tensors of a checkpoint being imported: each is taken with its expected shape, skipped by
// name, or reported as left over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "codec/format.h"
#include "prepare/import/imported_model.h"

namespace flare::prepare {

// Names are those of Hugging Face checkpoints; for a GGUF file they are translated, and shapes are
// compared without dimensions of 1. Confined to one thread. Errors: kBinding; kSupport for element
// types without a codec.
class TensorPool {
 public:
  explicit TensorPool(const checkpoint::Checkpoint& checkpoint);

  const checkpoint::Checkpoint& checkpoint() const { return checkpoint_; }
  size_t size() const { return taken_.size(); }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // The tensor of that name, which must have exactly this shape. May be taken more than once.
  const checkpoint::Tensor& take(std::string_view name, const codec::Shape& shape);
  // Counts every tensor whose stored name has this prefix to a component that is not imported.
  void skip_component(std::string_view component, std::string_view prefix,
                      std::vector<SkippedComponent>& skipped);
  // Passes over tensors whose stored name has this suffix and that hold nothing but derived
  // constants.
  void skip_derived(std::string_view suffix);
  // Every tensor was taken or skipped.
  void finish(std::string_view architecture) const;

 private:
  const checkpoint::Tensor* find(std::string_view name) const;
  std::string stored_name(std::string_view name) const;
  size_t index_of(const checkpoint::Tensor& tensor) const;
  const checkpoint::Checkpoint& checkpoint_;
  std::vector<bool> taken_;
};

// "[2, 3]".
std::string shape_text(const codec::Shape& shape);

}  // namespace flare::prepare
