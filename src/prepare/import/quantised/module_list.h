// Lists of modules as quantisation configs write them: names, patterns, classes.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/tokenizer/pattern.h"

namespace flare::prepare {

// How the entries of a list are meant.
enum class ModuleSyntax : uint8_t {
  // compressed-tensors: a whole name, "re:" and an expression that matches from the start of the
  // name, or a class ("Linear", "Embedding").
  kCompressedTensors,
  // ModelOpt: a name or a pattern with * and ?; what lies below a named module belongs to it.
  kWildcards,
  // Hugging Face's modules_to_not_convert: parts of a name between dots, anywhere in it; * stands
  // for one part.
  kParts,
};

// Immutable.
class ModuleList {
 public:
  // kSupport for an expression that cannot be read, and for more of them than anyone would write.
  ModuleList(const std::vector<std::string>& entries, ModuleSyntax syntax,
             const std::string& where);
  // `linear`: the module is a linear layer, else an embedding.
  bool matches(std::string_view module, bool linear) const {
    return (linear ? every_linear_ : every_embedding_) || matches_by_name(module);
  }
  // Not counting classes.
  bool matches_by_name(std::string_view module) const;

 private:
  bool matches_pattern(const std::string& pattern, std::string_view module) const;
  ModuleSyntax syntax_;
  bool every_linear_ = false;
  bool every_embedding_ = false;
  std::set<std::string, std::less<>> names_;
  std::vector<std::string> patterns_;
  std::vector<frontend::tokenizer::Pattern> expressions_;
};

}  // namespace flare::prepare
