// The text resources of a GGUF file, rewritten as the files of a Hugging Face checkpoint, so that
// the frontend knows one description.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/gguf.h"

namespace flare::prepare {

// tokenizer.json, tokenizer_config.json, generation_config.json or chat_template.jinja; nullopt if
// the file has nothing for that role. Vocabularies of type "gpt2" become byte-level BPE with the
// patterns that tokenizer.ggml.pre names, those of type "llama" BPE whose merges follow from the
// scores, those of type "bert" WordPiece. Errors: kSupport for another type or pattern, kDirectory
// for keys of a wrong kind, kBinding for lists of different lengths and ids out of range.
std::optional<std::string> gguf_resource(const checkpoint::GgufFile& file, std::string_view role);

}  // namespace flare::prepare
