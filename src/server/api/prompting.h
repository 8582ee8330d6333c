// From a request's conversation to a prompt and the rules of its answer, for every protocol.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/answer_format.h"
#include "server/api/call.h"
#include "server/http/http.h"
#include "server/service/service.h"

namespace flare::server {

inline constexpr size_t kMaxCacheKeyBytes = 256;  // of cache_salt, session and the like

// What a request asks of its answer beyond length and sampling.
struct AnswerRules {
  std::optional<frontend::ToolChoice> tool_choice;  // nullopt: no tools, or none is to be called
  AnswerFormat format;
};

// `cache_salt`, and the conversation that `session` or `prompt_cache_key` names (serving.md S10.5,
// S10.6). Throws ApiError.
void read_cache_fields(const Fields& fields, GenerateSettings* settings);

// A conversation as the template renders it. Throws ApiError: capability_unavailable,
// template_error, and what rendering refuses.
frontend::MarkedText render_conversation(const Service& service, const Conversation& conversation);

// The prompt's ids; what it decides about the answer (form, frontiers) goes to `settings`. Throws
// ApiError as rendering, and empty_prompt, context_length_exceeded.
std::vector<int32_t> encode_conversation(const Service& service, const Conversation& conversation,
                                         GenerateSettings* settings);

// Ids of a raw prompt, or as given. Throws ApiError empty_prompt, context_length_exceeded.
void check_prompt(const Service& service, std::span<const int32_t> prompt, std::string_view param);

// Compiles `rules` into settings->grammar. `prefill`: text of the answer that the prompt ends with.
// Framing of calls alone is given up where it cannot be had; what a request asks for is not. Throws
// ApiError with the codes of serving.md S6 and S7. What is widened is named in `headers`.
void constrain_answer(const Service& service, const AnswerRules& rules, std::string_view prefill,
                      GenerateSettings* settings, http::Headers* headers);

// Text of a message that the prompt continues outside of reasoning; else empty.
std::string_view final_text(const Conversation& conversation);

// x-flare-ignored for names nothing here knows. Throws unknown_field for these if the call is
// strict.
http::Headers ignored_header(const ApiCall& call, const std::vector<std::string>& ignored);

// Headers of every answer: that one, and x-flare-seed.
http::Headers answer_headers(const ApiCall& call, const std::vector<std::string>& ignored,
                             const GenerateSettings& settings);

}  // namespace flare::server
