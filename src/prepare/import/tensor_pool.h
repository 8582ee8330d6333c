// The tensors of a checkpoint being imported: each is taken with its expected shape, skipped by
// name, or reported as left over.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "codec/format.h"
#include "prepare/import/imported_model.h"
#include "prepare/import/quantised/quantisation.h"

namespace flare::prepare {

// Names are those of Hugging Face checkpoints; for a GGUF file they are translated, and shapes are
// compared without dimensions of 1. Confined to one thread. Errors: kBinding; kSupport for element
// types without a codec.
class TensorPool {
 public:
  // `quantisation` may be null: every weight is a plain tensor. `components`: what is to be
  // imported where the adapter knows it.
  explicit TensorPool(const checkpoint::Checkpoint& checkpoint,
                      const Quantisation* quantisation = nullptr,
                      std::vector<std::string> components = {"text"});

  const checkpoint::Checkpoint& checkpoint() const { return checkpoint_; }
  size_t size() const { return taken_.size(); }
  bool wants(std::string_view component) const;
  // A tensor of that name, or a weight of that name in a quantised form.
  bool has(std::string_view name) const;
  // The tensor of that name, which must have exactly this shape and hold real numbers. May be taken
  // more than once.
  const checkpoint::Tensor& take(std::string_view name, const codec::Shape& shape);
  // All rows of a weight "MODULE.weight" [out, in], stored plainly or by its module's scheme; see
  // Quantisation::scheme_of for `linear`. May be taken more than once.
  Piece weight(std::string_view name, const codec::Shape& shape, bool linear = true);

  // For schemes, by stored names. Null if there is none; it stays to be taken.
  const checkpoint::Tensor* find_stored(std::string_view name) const;
  // The tensor of that name, one of these types, with one of these shapes.
  const checkpoint::Tensor& take_stored(std::string_view name,
                                        const std::vector<checkpoint::DType>& types,
                                        const std::vector<codec::Shape>& shapes);
  // The same of a tensor that must be there and that nothing uses: skip_unused notes `what`.
  void take_unused(std::string_view name, const std::vector<checkpoint::DType>& types,
                   const std::vector<codec::Shape>& shapes, std::string_view what);
  // "FILE: tensor 'NAME'", for messages.
  std::string place(const checkpoint::Tensor& tensor) const;
  // Counts every tensor whose stored name has this prefix to a component that is not imported.
  void skip_component(std::string_view component, std::string_view prefix,
                      std::vector<SkippedComponent>& skipped);
  // Passes over tensors whose stored name has this suffix and that hold nothing but derived
  // constants.
  void skip_derived(std::string_view suffix);
  // Passes over what Quantisation::unused names, with a note for each kind; and notes which weights
  // are plain tensors although the config says otherwise.
  void skip_unused(std::vector<std::string>& notes);
  // Every tensor was taken or skipped.
  void finish(std::string_view architecture) const;

 private:
  const checkpoint::Tensor* find(std::string_view name) const;
  std::string stored_name(std::string_view name) const;
  size_t index_of(const checkpoint::Tensor& tensor) const;
  Piece take_repacked(std::string_view name, const checkpoint::Tensor& tensor,
                      const codec::Shape& shape);
  std::vector<float> take_factors(const checkpoint::Tensor& tensor, const codec::Shape& shape);
  void check_shape(const checkpoint::Tensor& tensor, const std::vector<codec::Shape>& shapes) const;
  const checkpoint::Checkpoint& checkpoint_;
  const Quantisation* quantisation_;
  std::vector<std::string> components_;
  std::vector<bool> taken_;
  std::map<std::string, std::shared_ptr<const EncodedSource>, std::less<>> encoded_;  // by name
  std::map<std::string_view, uint64_t> unused_;  // tensors by what they hold
  std::vector<std::string> plain_;               // modules that have a scheme and a plain tensor
};

// "[2, 3]".
std::string shape_text(const codec::Shape& shape);

}  // namespace flare::prepare
