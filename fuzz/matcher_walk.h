// A walk through a grammar by tokens that its masks allow: what they allow, it takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frontend/grammar/compiled_grammar.h"
#include "require.h"

// Every byte, some texts that cross the borders of JSON, an end and a marker.
inline std::shared_ptr<const flare::frontend::grammar::Vocabulary> small_vocabulary() {
  using flare::frontend::grammar::Token;
  using flare::frontend::grammar::Vocabulary;
  static const std::shared_ptr<const Vocabulary> made = [] {
    std::vector<Token> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, char(byte))});
    for (const char* text : {"ab", "\":", "\"}", "12", "\xE4\xBA", ", \""})
      tokens.push_back({text});
    tokens.push_back({"<end>", Token::Kind::kEnd});
    tokens.push_back({"<m>", Token::Kind::kMarker});
    return std::make_shared<Vocabulary>(std::move(tokens));
  }();
  return made;
}

// Compiles within small limits and draws up to 20 tokens by `seed`. Throws what compile() throws.
inline void walk_grammar(const flare::frontend::grammar::Grammar& grammar, uint32_t seed) {
  using namespace flare::frontend::grammar;
  const std::shared_ptr<const Vocabulary> vocabulary = small_vocabulary();
  CompileLimits limits;
  limits.warm_ms = 0;
  limits.max_bytes = size_t{16} << 20;
  limits.max_cache_bytes = size_t{4} << 20;
  Matcher matcher(compile(grammar, vocabulary, limits));
  const auto n = static_cast<uint32_t>(vocabulary->size());
  uint32_t draw = seed * 2654435761u;
  for (int step = 0; step < 20; ++step) {
    std::vector<uint32_t> mask(vocabulary->mask_words(), 0);
    if (!matcher.fill_mask(mask)) break;
    draw = draw * 1664525u + 1013904223u;
    uint32_t id = (draw >> 8) % n;
    while (!(mask[id / 32] >> (id % 32) & 1)) id = (id + 1) % n;
    require(matcher.advance(static_cast<int32_t>(id)));
  }
  matcher.rollback(matcher.advances() / 2);
  matcher.forced_bytes();
}
