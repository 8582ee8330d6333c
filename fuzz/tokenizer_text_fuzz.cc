// Fuzz target of encoding and decoding: a text, cut between template and caller where its first
// bytes say, through one tokenizer of each kind.
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "frontend/tokenizer/tokenizer.h"
#include "frontend/tokenizer/unicode.h"
#include "require.h"

namespace {

using namespace flare::frontend;

// Small files of every model and decoder kind; the first is the bundled model's.
const std::vector<Tokenizer>& tokenizers() {
  static const std::vector<Tokenizer> all = [] {
    std::vector<Tokenizer> out;
    out.push_back(Tokenizer::from_json(
        flare::read_text_file(std::string(FLARE_SOURCE_DIR) + "/models/nano/tokenizer.json"),
        "nano"));
    for (const char* name : {"dec_llama", "model_unigram_bytes", "model_wordpiece_uncased",
                             "model_bpe_suffix", "dec_ctc", "norm_precompiled"}) {
      const std::string path =
          std::string(FLARE_SOURCE_DIR) + "/fuzz/corpus/tokenizer_json/" + name + ".json";
      out.push_back(Tokenizer::from_json(flare::read_text_file(path), name));
    }
    return out;
  }();
  return all;
}

void check(const Tokenizer& tokenizer, std::string_view text, size_t cut) {
  const std::vector<int32_t> ids = tokenizer.encode(text, {false, true});
  for (const bool skip : {false, true}) {
    const std::string whole = tokenizer.decode(ids, skip);
    StreamDecoder stream(tokenizer, skip);
    std::string parts;
    const auto take = [&](const std::string& part) {
      require(tokenizer::valid_utf8_prefix(part) == part.size());
      parts += part;
    };
    for (const int32_t id : ids) take(stream.push(id));
    take(stream.finish());
    require(parts == whole);
  }
  require(tokenizer.encode(text, {false, true}) == ids);  // now from the cache
  require(tokenizer.encode(MarkedText(text, Origin::kTemplate)) == ids);
  const std::vector<int32_t> plain = tokenizer.encode(MarkedText(text, Origin::kCaller));
  // The first has no unknown token, which any text may become.
  for (const int32_t id : plain)
    require(&tokenizer != &tokenizers().front() || !tokenizer.is_structural(id));
  MarkedText mixed(text.substr(0, cut), Origin::kCaller);
  mixed.append(text.substr(cut), Origin::kTemplate);
  tokenizer.encode(mixed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (const Tokenizer& tokenizer : tokenizers()) {
    try {
      check(tokenizer, text, text.empty() ? 0 : data[0] % text.size());
    } catch (const flare::Error&) {
    }
  }
  return 0;
}
