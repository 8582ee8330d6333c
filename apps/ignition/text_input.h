// Texts as token ids, for the commands that run a model over them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "package/prepared.h"

namespace flare::app {

struct Document {
  std::string name;  // for reports
  std::vector<int32_t> ids;
};

// One document of a file's text, or the documents of a corpus file: a JSON list of texts, or of
// lists of token ids. Texts are encoded as the model wants them, its leading token (BOS) included;
// `special`: markers such as <|im_end|> match in them. Errors: kNotFound, kInvalid (no tokenizer
// for a text, no list), kUsage (not exactly one of the two files).
std::vector<Document> read_documents(const package::FrontendBlock& frontend,
                                     const std::string& model, const std::string& text_file,
                                     const std::string& corpus_file, bool special);

// kInvalid naming the document of an id that the model does not have.
void check_ids(const std::vector<Document>& documents, uint32_t vocab_size);

// Keeps the first `limit` tokens of all documents together; 0: all.
void limit_tokens(std::vector<Document>& documents, uint64_t limit);

// SHA-256 over the files' bytes, hex.
std::string digest_of_file(const std::string& path);

}  // namespace flare::app
