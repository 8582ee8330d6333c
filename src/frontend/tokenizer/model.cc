// Which kind of model a component is.
#include "frontend/tokenizer/model.h"

#include "frontend/tokenizer/pre_tokenizer.h"

namespace flare::frontend::tokenizer {

Model::Model(const Component& component) : kind_(read(component)) {}

Model::Kind Model::read(const Component& component) {
  const auto make = [&]<typename T>() { return Kind(std::in_place_type<T>, component); };
  // Old files have no type; the members tell the kinds apart.
  const Json* type = component.find("type");
  if (type != nullptr ? component.type() == "BPE" : component.find("merges") != nullptr)
    return make.template operator()<Bpe>();
  const Json* vocab = component.find("vocab");
  if (type != nullptr ? component.type() == "Unigram" : vocab != nullptr && vocab->is_array())
    return make.template operator()<Unigram>();
  if (type != nullptr ? component.type() == "WordPiece"
                      : component.find("max_input_chars_per_word") != nullptr)
    return make.template operator()<WordPiece>();
  if (type == nullptr || component.type() == "WordLevel")
    return make.template operator()<WordLevel>();
  component.refuse_type();
}

void Model::encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch& scratch) const {
  if (piece.empty()) return;
  if (const auto* bpe = std::get_if<Bpe>(&kind_))
    bpe->encode(piece, out, scratch.bpe);
  else if (const auto* unigram = std::get_if<Unigram>(&kind_))
    unigram->encode(piece, out, scratch.unigram);
  else if (const auto* word_piece = std::get_if<WordPiece>(&kind_))
    word_piece->encode(piece, out);
  else
    std::get<WordLevel>(kind_).encode(piece, out);
}

void Model::encode_bytes(std::string_view piece, std::vector<int32_t>& out,
                         ModelScratch& scratch) const {
  if (const auto* bpe = std::get_if<Bpe>(&kind_)) return bpe->encode_bytes(piece, out, scratch.bpe);
  scratch.characters.clear();
  append_characters_of_bytes(piece, scratch.characters);
  encode(scratch.characters, out, scratch);
}

}  // namespace flare::frontend::tokenizer
