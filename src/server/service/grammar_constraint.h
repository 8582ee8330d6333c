// Ties constrained decoding to the engine: vocabularies of tokenizers, masks of sequences.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "frontend/grammar/compiled_grammar.h"
#include "frontend/tokenizer/tokenizer.h"
#include "runtime/seams.h"

namespace flare::server {

// The tokens of a tokenizer, those that end a turn marked so. Takes some 100 ms: once per model.
std::shared_ptr<const frontend::grammar::Vocabulary> make_vocabulary(
    const frontend::Tokenizer& tokenizer, std::span<const int32_t> end_ids);

// A compiled grammar over one sequence. Confined to the engine thread.
class GrammarConstraint : public runtime::Constraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<frontend::grammar::CompiledGrammar> grammar)
      : matcher_(std::move(grammar)) {}

  // Ids beyond the tokenizer's, which a model may have rows for, are never legal.
  bool fill_mask(std::span<uint32_t> mask) override;
  // A token that is not legal leaves nothing legal behind it, until it is rolled back.
  void advance(int32_t token) override;
  // The same for text, as one advance.
  void advance_text(std::string_view text);
  void rollback(int n) override;

 private:
  frontend::grammar::Matcher matcher_;
  int n_illegal_ = 0;  // advances behind the last legal one
};

}  // namespace flare::server
