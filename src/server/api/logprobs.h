// Log-probabilities of an answer's tokens in the shapes of the protocols (serving.md S8.7).
#pragma once

#include <span>
#include <string>

#include "base/json/json.h"
#include "frontend/tokenizer/tokenizer.h"
#include "runtime/request.h"

namespace flare::server {

// Chat: [{token, logprob, bytes, top_logprobs: [{token, logprob, bytes}]}]. `bytes` are exact;
// `token` is their text, with U+FFFD for broken characters.
Json chat_logprobs(const frontend::Tokenizer& tokenizer,
                   std::span<const runtime::TokenLogprobs> records);

// The same with `id` in every entry: llama.cpp's `completion_probabilities`.
Json native_logprobs(const frontend::Tokenizer& tokenizer,
                     std::span<const runtime::TokenLogprobs> records);

// The same of a prompt, behind null for its first token, which nothing precedes.
Json prompt_logprobs(const frontend::Tokenizer& tokenizer,
                     std::span<const runtime::TokenLogprobs> records);

// Completions: {tokens, token_logprobs, top_logprobs, text_offset}. `offset` is the number of
// characters before the first token, and is moved behind the last one. A record of NaN, which is
// that of a prompt's first token, is null.
Json completion_logprobs(const frontend::Tokenizer& tokenizer,
                         std::span<const runtime::TokenLogprobs> records, uint64_t* offset);

}  // namespace flare::server
