// How a checkpoint stores its weights: the config of a quantised safetensors checkpoint, read into
// a scheme for every module (spec/models/quantised_checkpoints.md).
//
// Each method of quantisation is a file that gives a QuantisationReader (methods.h lists them),
// each storage a class of Scheme that opens a module's tensors as one EncodedSource.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "prepare/import/encoded_source.h"

namespace flare::prepare {

class TensorPool;

// How the weights of some modules are stored. Immutable.
class Scheme {
 public:
  virtual ~Scheme() = default;
  // Whether the module's codes are in the checkpoint; if not, its weight is a plain tensor.
  virtual bool stores(const TensorPool& tensors, std::string_view module) const = 0;
  // Takes every tensor of the module but its bias from the pool; the weight is [out, in] = shape.
  // Errors: kBinding for a missing companion and for shapes, kSupport for types and for what the
  // scheme cannot be, naming file, tensor, what was found and what was expected.
  virtual std::shared_ptr<const EncodedSource> open(TensorPool& tensors, std::string_view module,
                                                    const codec::Shape& shape) const = 0;
};

// The schemes of one checkpoint. A module is a tensor's name without ".weight".
class Quantisation {
 public:
  virtual ~Quantisation() = default;
  // How the config says the module is stored; null: as a plain tensor. `linear`: it is a linear
  // layer, which configs mean by "Linear"; else an embedding.
  virtual const Scheme* scheme_of(std::string_view module, bool linear) const = 0;
  // The config says how quantised modules are stored, and only their codes which ones are: a plain
  // tensor is nothing to note.
  virtual bool codes_decide() const { return false; }
  // Tensors for execution alone that may stand beside any module, by the ends of their names; those
  // that no scheme took are passed over with a note of `what`.
  struct Unused {
    std::string_view suffix;
    std::string_view what;
  };
  virtual std::vector<Unused> unused() const = 0;
};

// `config` is the quantization_config, `where` names file and member for messages. Errors:
// kBinding, kSupport, naming the key and its value.
using QuantisationReader = std::unique_ptr<Quantisation> (*)(const Json& config,
                                                             const std::string& where);

// From quantization_config (older: compression_config) of config.json, else hf_quant_config.json or
// quantize_config.json; null if the checkpoint has none of them. kSupport for an unknown method.
std::unique_ptr<Quantisation> read_quantisation(const checkpoint::Checkpoint& checkpoint);

}  // namespace flare::prepare
