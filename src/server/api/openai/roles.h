// Embeddings, reranking and scores: roles that a package may have besides generating.
#pragma once

#include "server/api/call.h"

namespace flare::server {

// POST /v1/embeddings, /v1/rerank, /v1/score. No package has these roles yet, so a sound request
// ends in capability_unavailable. Throw ApiError.
void embeddings(const ApiCall& call);
void rerank(const ApiCall& call);
void score(const ApiCall& call);

}  // namespace flare::server
