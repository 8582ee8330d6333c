// Fuzz target of tokenizer.json: what loads encodes, decodes, and streams as it decodes at once.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "frontend/tokenizer/tokenizer.h"
#include "tokenizer_streams.h"

namespace {

using namespace flare::frontend;

void try_text(const Tokenizer& tokenizer, std::string_view text) {
  try {
    const std::vector<int32_t> ids = tokenizer.encode(text, {true, true});
    check_streams(tokenizer, ids);
    require(tokenizer.encode(MarkedText(text, Origin::kTemplate)) ==
            tokenizer.encode(text, {false, true}));
  } catch (const flare::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(text, "fuzz");
    for (const std::string_view sample :
         {"", " Hello, w\u00F6rld!  123\n", "a<s>b <mask> e\u0301\u4E2D\U0001F600", "\xFF\xC3"})
      try_text(tokenizer, sample);
    try_text(tokenizer, text.substr(0, 200));
    for (int32_t id = 0; id < std::min(tokenizer.id_limit(), 300); ++id) tokenizer.token_bytes(id);
  } catch (const flare::Error&) {
  }
  return 0;
}
