// Fuzz target of GBNF: a grammar compiles or is refused; what its masks allow, it takes.
#include <cstdint>
#include <string_view>

#include "matcher_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flare::frontend::grammar;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    walk_grammar(parse_gbnf(text), static_cast<uint32_t>(size));
  } catch (const ConstraintError&) {
  }
  return 0;
}
