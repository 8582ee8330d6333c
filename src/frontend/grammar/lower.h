// From grammar expressions to a program for one vocabulary.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontend/grammar/grammar.h"
#include "frontend/grammar/program.h"
#include "frontend/grammar/vocabulary.h"

namespace flare::frontend::grammar {

struct Lowered {
  Program program;
  std::vector<std::string> relaxed;
};

// Errors: ConstraintError; whatever `check`, called now and then, throws.
Lowered lower(const Grammar& grammar, const Vocabulary& vocabulary, Languages& languages,
              const std::function<void()>& check);

}  // namespace flare::frontend::grammar
