// Fuzz target of SentencePiece .model files: what loads encodes, decodes, and streams the same.
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
    // What a caller wrote never becomes a control piece.
    for (const int32_t id : tokenizer.encode(MarkedText(text, Origin::kCaller)))
      require(!tokenizer.is_special(id));
  } catch (const flare::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer = Tokenizer::from_sentencepiece(bytes, "fuzz");
    for (const std::string_view sample : {"", " Hello, w\u00F6rld!  123\n",
                                          "a<s>b <tok>[MASK] e\u0301\u4E2D\U0001F600", "\xFF\xC3"})
      try_text(tokenizer, sample);
    try_text(tokenizer, bytes.substr(0, 200));
  } catch (const flare::Error&) {
  }
  return 0;
}
