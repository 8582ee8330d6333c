// The engine's view of a grammar.
#include "server/service/grammar_constraint.h"

#include <algorithm>

namespace flare::server {

using frontend::grammar::Token;
using frontend::grammar::Vocabulary;

std::shared_ptr<const Vocabulary> make_vocabulary(const frontend::Tokenizer& tokenizer,
                                                  std::span<const int32_t> end_ids) {
  std::vector<Token> tokens;
  tokens.reserve(static_cast<size_t>(tokenizer.id_limit()));
  for (int32_t id = 0; id < tokenizer.id_limit(); ++id) {
    Token token{tokenizer.token_bytes(id)};
    if (std::find(end_ids.begin(), end_ids.end(), id) != end_ids.end())
      token.kind = Token::Kind::kEnd;
    else if (tokenizer.is_structural(id) || tokenizer.is_special(id))
      token.kind = Token::Kind::kMarker;
    tokens.push_back(std::move(token));
  }
  return std::make_shared<Vocabulary>(std::move(tokens));
}

bool GrammarConstraint::fill_mask(std::span<uint32_t> mask) {
  if (n_illegal_ == 0) matcher_.fill_mask(mask);
  return true;
}

void GrammarConstraint::advance(int32_t token) {
  if (n_illegal_ > 0 || !matcher_.advance(token)) ++n_illegal_;
}

void GrammarConstraint::advance_text(std::string_view text) {
  if (n_illegal_ > 0 || !matcher_.advance_text(text)) ++n_illegal_;
}

void GrammarConstraint::rollback(int n) {
  const int illegal = std::min(n, n_illegal_);
  n_illegal_ -= illegal;
  matcher_.rollback(n - illegal);
}

}  // namespace flare::server
