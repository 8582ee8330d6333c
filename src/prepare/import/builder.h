// Assembly of one component's parameter list in registry order, shared by the family adapters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "prepare/import/imported_model.h"
#include "prepare/import/tensor_pool.h"

namespace flare::prepare {

// Adds parameters to a component; each source tensor is taken from the pool with its full shape.
class ComponentBuilder {
 public:
  ComponentBuilder(TensorPool& tensors, ImportedComponent& component)
      : tensors_(tensors), component_(component) {}

  // The whole source tensor, same shape.
  ImportedParameter& plain(std::string name, std::string_view source, codec::Shape shape);
  // All rows of a weight that TensorPool::weight or an EncodedSource gives.
  ImportedParameter& encoded(std::string name, codec::Shape shape, Piece piece);
  // A projection [out,in] that is a whole source tensor.
  ImportedParameter& projection(std::string name, std::string input, std::string_view source,
                                uint64_t out, uint64_t in);
  // The source tensor has this shape; for callers that list its rows before they bind them.
  void check(std::string_view source, const codec::Shape& shape) { tensors_.weight(source, shape); }
  // A projection made of row ranges of one source tensor [rows, in] or [matrices, rows, in].
  struct Rows {
    uint64_t begin, end;
  };
  ImportedParameter& row_projection(std::string name, std::string input, std::string_view source,
                                    const codec::Shape& source_shape,
                                    const std::vector<Rows>& rows);
  // Elements [begin, begin+n) of a source vector of `length`, a multiple of n away from its start.
  ImportedParameter& part_of_vector(std::string name, std::string_view source, uint64_t length,
                                    uint64_t begin, uint64_t n);
  // Row `row` of a source matrix of this shape, as a vector.
  ImportedParameter& row_of_matrix(std::string name, std::string_view source,
                                   const codec::Shape& source_shape, uint64_t row);
  void packing_group(std::string_view prefix, std::initializer_list<std::string_view> members);
  // The second half of a layer: post_attention_norm, mlp/gate, mlp/up, mlp/down. `layer` and
  // `source` are what their names begin with here and in the checkpoint.
  void norm_and_mlp(const std::string& layer, const std::string& source, uint64_t hidden,
                    uint64_t intermediate);
  // The same without the norm.
  void mlp(const std::string& layer, const std::string& source, uint64_t hidden,
           uint64_t intermediate);
  // text/token_embedding, text/output_head, text/final_norm. The head is tied exactly if
  // lm_head.weight is absent; a config flag that says otherwise becomes a note. Returns whether it
  // is tied.
  bool embedding_head_norm(std::string_view prefix, uint64_t vocabulary, uint64_t hidden,
                           bool tie_flag, std::vector<std::string>& notes);

 private:
  ImportedParameter& add(std::string name, codec::Shape shape);
  TensorPool& tensors_;
  ImportedComponent& component_;
};

// num_hidden_layers may not exceed what the checkpoint can hold: layers are listed before their
// tensors are looked up.
void check_layer_count(uint64_t layers, const TensorPool& tensors, const std::string& where);

}  // namespace flare::prepare
