// POST /tokenize, /detokenize and /apply-template: what the frontend makes of texts.
#pragma once

#include "server/api/call.h"

namespace flare::server {

// {content, add_special, parse_special, with_pieces} or {messages, …} → {tokens}; with pieces each
// is {id, piece}, where a piece that is no UTF-8 by itself is an array of its bytes. Throws
// ApiError.
void native_tokenize(const ApiCall& call);
// {tokens} → {content}. Throws ApiError.
void native_detokenize(const ApiCall& call);
// {messages, tools, chat_template_kwargs, …} → {prompt, tokens}. Throws ApiError.
void native_apply_template(const ApiCall& call);

}  // namespace flare::server
