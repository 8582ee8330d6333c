// See text_input.h.
#include "ignition/text_input.h"

#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/hash/sha256.h"
#include "base/json/json.h"
#include "frontend/tokenizer/tokenizer.h"
#include "frontend/tokenizer/unicode.h"

namespace flare::app {
namespace {

constexpr uint64_t kMostText = uint64_t{1} << 30;

frontend::Tokenizer tokenizer_of(const package::FrontendBlock& block, const std::string& model) {
  std::vector<std::string_view> templates;
  for (const auto* text : {&block.chat_template, &block.tool_template})
    if (*text) templates.push_back(**text);
  if (block.tokenizer_json)
    return frontend::Tokenizer::from_json(*block.tokenizer_json, model + ": tokenizer.json",
                                          templates);
  if (block.sentencepiece_model)
    return frontend::Tokenizer::from_sentencepiece(*block.sentencepiece_model,
                                                   model + ": tokenizer.model", &templates,
                                                   {block.add_bos, block.add_eos});
  throw Error(Code::kInvalid,
              "{}: has no tokenizer, so a text means nothing to it; a corpus of token ids does",
              model);
}

std::string read_text(const std::string& path) {
  std::string text = read_text_file(path, kMostText);
  const size_t valid = frontend::tokenizer::valid_utf8_prefix(text);
  if (valid != text.size())
    throw Error(Code::kInvalid, "{}: byte {} is no UTF-8, a text expected", path, valid);
  return text;
}

}  // namespace

std::vector<Document> read_documents(const package::FrontendBlock& frontend,
                                     const std::string& model, const std::string& text_file,
                                     const std::string& corpus_file, bool special) {
  if (text_file.empty() == corpus_file.empty())
    throw Error(Code::kUsage, "{} given, expected one of --text and --corpus",
                text_file.empty() ? "no text" : "two texts");
  std::optional<frontend::Tokenizer> tokenizer;
  const auto encode = [&](const std::string& text) {
    if (!tokenizer) tokenizer.emplace(tokenizer_of(frontend, model));
    return tokenizer->encode(text, {.add_special_tokens = true, .parse_special = special});
  };
  if (!text_file.empty()) return {{text_file, encode(read_text(text_file))}};
  std::vector<Document> documents;
  const Json corpus = parse_large_json(read_text_file(corpus_file, kMostText), corpus_file);
  for (const Json& item : corpus.as_array(corpus_file)) {
    const std::string where = fmt::format("{}[{}]", corpus_file, documents.size());
    Document document{where, {}};
    if (item.is_string()) {
      document.ids = encode(item.as_string(where));
    } else {
      for (const Json& id : item.as_array(where)) {
        const uint64_t value = id.as_u64(where);
        if (value > INT32_MAX)
          throw Error(Code::kInvalid, "{}: token id {}, at most {} expected", where, value,
                      INT32_MAX);
        document.ids.push_back(static_cast<int32_t>(value));
      }
    }
    documents.push_back(std::move(document));
  }
  return documents;
}

void check_ids(const std::vector<Document>& documents, uint32_t vocab_size) {
  for (const Document& document : documents)
    for (const int32_t id : document.ids)
      if (static_cast<uint32_t>(id) >= vocab_size)
        throw Error(Code::kInvalid, "{}: token id {} is outside 0..{}", document.name, id,
                    vocab_size - 1);
}

void limit_tokens(std::vector<Document>& documents, uint64_t limit) {
  if (limit == 0) return;
  for (size_t i = 0; i < documents.size(); ++i) {
    if (documents[i].ids.size() < limit) {
      limit -= documents[i].ids.size();
      continue;
    }
    documents[i].ids.resize(limit);
    documents.resize(i + 1);
    return;
  }
}

std::string digest_of_file(const std::string& path) {
  return sha256_hex(as_bytes(read_text_file(path, kMostText)));
}

}  // namespace flare::app
