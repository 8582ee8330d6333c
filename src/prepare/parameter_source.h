// Where a model's parameters come from: the one interface that model code binds through.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "codec/matrix.h"
#include "graph/types.h"

namespace flare::prepare {

// Logical parameters (spec/artifact.md §15) of one opened model. Binding validates: every accessor
// throws kBinding naming parameter, shape found and shape expected. Returned bytes stay valid while
// the source lives. Confined to one thread.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;

  // Public name of the model (metadata.name, else the file's or folder's).
  virtual std::string name() const = 0;
  // Where it came from, for messages.
  virtual std::filesystem::path path() const = 0;
  // The files that its parameters are read from.
  virtual std::vector<std::filesystem::path> files() const = 0;
  // Normalised component config (§15.2, §15.8): one flat object with architectures, model_type, …
  // kComponent if the component is not there.
  virtual const Json& config(std::string_view component) const = 0;
  virtual bool has(std::string_view parameter) const = 0;
  // Every logical parameter of the component, in registry order: the model must bind each once.
  virtual std::vector<std::string> parameters(std::string_view component) const = 0;
  // The parameter as a matrix [rows, cols] of row segments, stored words in place. Its bytes are to
  // be read after fill() only. Columns stand in the order that input_columns tells.
  virtual codec::Matrix matrix(std::string_view parameter, codec::Geometry geometry) = 0;
  // A small parameter of any rank as binary32 values in C order, columns as in matrix(); n is its
  // element count.
  virtual std::vector<float> values(std::string_view parameter, uint64_t n) = 0;
  // The activation policy of the use (parameter, input); kBinding if that use is not there.
  virtual graph::Policy policy(std::string_view parameter, std::string_view input) const = 0;
  // The use's auxiliary input_columns (§10.3), a permutation of 0 … cols−1: stored column c
  // multiplies column [c] of the input. Empty: stored columns have the input's order. kBinding if
  // that use is not there, if the auxiliary breaks its contract, or for any other auxiliary.
  virtual std::vector<int32_t> input_columns(std::string_view parameter,
                                             std::string_view input) = 0;
  // Text of a resource role of component text, such as "tokenizer.json"; nullopt if absent.
  virtual std::optional<std::string> resource(std::string_view role) const = 0;
  // Makes what matrices given out so far need and files do not hold: the one call that takes much
  // memory. Errors: kValue.
  virtual void fill() = 0;
  // A matrix's object, or a part of it, is not read again: memory of its whole pages may go.
  virtual void release(Bytes part) = 0;
};

// Opens a `.ninfer` artifact or a checkpoint (folder, .safetensors or GGUF file). `recipe` applies
// to checkpoints: "keep" (default when empty) reads stored words in place, other names encode in
// memory on binding. Errors: kNotFound, kUsage (unknown recipe, recipe given for an artifact), and
// those of the readers and importers. `threads` is used for encoding.
std::unique_ptr<ParameterSource> open_source(const std::filesystem::path& path,
                                             std::string_view recipe, int threads);

}  // namespace flare::prepare
