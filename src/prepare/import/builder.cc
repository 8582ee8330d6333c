// Parameters put together from source tensors.
#include "prepare/import/builder.h"

#include "base/error.h"

namespace flare::prepare {

ImportedParameter& ComponentBuilder::add(std::string name, codec::Shape shape) {
  ImportedParameter& parameter = component_.parameters.emplace_back();
  parameter.name = std::move(name);
  parameter.shape = std::move(shape);
  return parameter;
}

ImportedParameter& ComponentBuilder::plain(std::string name, std::string_view source,
                                           codec::Shape shape) {
  const checkpoint::Tensor& tensor = tensors_.take(source, shape);
  ImportedParameter& parameter = add(std::move(name), std::move(shape));
  parameter.pieces.push_back({&tensor, 0, codec::geometry_of(parameter.shape).rows});
  return parameter;
}

ImportedParameter& ComponentBuilder::encoded(std::string name, codec::Shape shape, Piece piece) {
  ImportedParameter& parameter = add(std::move(name), std::move(shape));
  parameter.pieces.push_back(std::move(piece));
  return parameter;
}

ImportedParameter& ComponentBuilder::projection(std::string name, std::string input,
                                                std::string_view source, uint64_t out,
                                                uint64_t in) {
  Piece weight = tensors_.weight(source, {out, in});
  ImportedParameter& parameter = encoded(std::move(name), {out, in}, std::move(weight));
  parameter.kind = ParameterKind::kProjection;
  parameter.inputs.push_back(std::move(input));
  return parameter;
}

ImportedParameter& ComponentBuilder::row_projection(std::string name, std::string input,
                                                    std::string_view source,
                                                    const codec::Shape& source_shape,
                                                    const std::vector<Rows>& rows) {
  const Piece all = tensors_.weight(source, source_shape);
  ImportedParameter& parameter = add(std::move(name), {0, source_shape.back()});
  for (const Rows& range : rows) {
    parameter.pieces.push_back({all.tensor, range.begin, range.end, all.encoded});
    parameter.shape[0] += range.end - range.begin;
  }
  parameter.kind = ParameterKind::kProjection;
  parameter.inputs.push_back(std::move(input));
  return parameter;
}

ImportedParameter& ComponentBuilder::part_of_vector(std::string name, std::string_view source,
                                                    uint64_t length, uint64_t begin, uint64_t n) {
  FLARE_ASSERT(n != 0 && begin % n == 0);
  const checkpoint::Tensor& tensor = tensors_.take(source, {length});
  ImportedParameter& parameter = add(std::move(name), {n});
  parameter.pieces.push_back({&tensor, begin / n, begin / n + 1});  // rows of n
  return parameter;
}

ImportedParameter& ComponentBuilder::row_of_matrix(std::string name, std::string_view source,
                                                   const codec::Shape& source_shape, uint64_t row) {
  const checkpoint::Tensor& tensor = tensors_.take(source, source_shape);
  ImportedParameter& parameter = add(std::move(name), {source_shape.back()});
  parameter.pieces.push_back({&tensor, row, row + 1});
  return parameter;
}

void ComponentBuilder::packing_group(std::string_view prefix,
                                     std::initializer_list<std::string_view> members) {
  std::vector<std::string>& group = component_.packing.emplace_back();
  for (std::string_view member : members) group.push_back(fmt::format("{}{}", prefix, member));
}

void ComponentBuilder::norm_and_mlp(const std::string& layer, const std::string& source,
                                    uint64_t hidden, uint64_t intermediate) {
  plain(layer + "post_attention_norm", source + "post_attention_layernorm.weight", {hidden});
  mlp(layer, source, hidden, intermediate);
}

void ComponentBuilder::mlp(const std::string& layer, const std::string& source, uint64_t hidden,
                           uint64_t intermediate) {
  projection(layer + "mlp/gate", layer + "ffn_input", source + "mlp.gate_proj.weight", intermediate,
             hidden);
  projection(layer + "mlp/up", layer + "ffn_input", source + "mlp.up_proj.weight", intermediate,
             hidden);
  projection(layer + "mlp/down", layer + "mlp/product", source + "mlp.down_proj.weight", hidden,
             intermediate);
  packing_group(layer + "mlp/", {"gate", "up"});
}

bool ComponentBuilder::embedding_head_norm(std::string_view prefix, uint64_t vocabulary,
                                           uint64_t hidden, bool tie_flag,
                                           std::vector<std::string>& notes) {
  constexpr std::string_view head_source = "lm_head.weight";
  const std::string embedding = fmt::format("{}embed_tokens.weight", prefix);
  encoded("text/token_embedding", {vocabulary, hidden},
          tensors_.weight(embedding, {vocabulary, hidden}, false))
      .kind = ParameterKind::kEmbedding;
  const bool tied = !tensors_.has(head_source);
  ImportedParameter& head =
      encoded("text/output_head", {vocabulary, hidden},
              tensors_.weight(tied ? embedding : head_source, {vocabulary, hidden}, !tied));
  head.kind = ParameterKind::kHead;
  head.inputs.push_back("text/final_hidden");
  if (tied) head.tied_to = "text/token_embedding";
  if (tied && !tie_flag)
    notes.push_back("tie_word_embeddings is false but lm_head.weight is absent: the head is tied");
  if (!tied && tie_flag)
    notes.push_back("tie_word_embeddings is true but lm_head.weight is present: it is used");
  plain("text/final_norm", fmt::format("{}norm.weight", prefix), {hidden});
  return tied;
}

void check_layer_count(uint64_t layers, const TensorPool& tensors, const std::string& where) {
  if (layers > tensors.size())
    throw Error(Code::kBinding,
                "{}: num_hidden_layers is {} but the checkpoint has {} tensors in all, expected at "
                "least one per layer",
                where, layers, tensors.size());
}

}  // namespace flare::prepare
