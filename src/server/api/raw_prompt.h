// Prompts that are no conversation: text in which markers count, or token ids (serving.md S4.14).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/fields.h"
#include "server/service/service.h"

namespace flare::server {

struct RawPrompt {
  std::vector<int32_t> ids;
  std::string text;  // as given, or the ids decoded (empty for a model without tokenizer)
};

// A field that holds a string, strings, token ids or arrays of them: 1..max prompts, each nonempty
// and fitting the context. Strings get the tokenizer's prefix if `add_special`. Throws ApiError:
// missing_field, invalid_type, invalid_value, empty_prompt, context_length_exceeded,
// capability_unavailable (text for a model without tokenizer).
std::vector<RawPrompt> read_raw_prompts(const Fields& fields, std::string_view name,
                                        const Service& service, size_t max, bool add_special);

// Token ids of the vocabulary. `param` names the array in errors.
std::vector<int32_t> read_token_ids(const Json& array, const std::string& param,
                                    uint32_t vocab_size);

// The service's tokenizer. Throws ApiError capability_unavailable without one.
const frontend::Tokenizer& tokenizer_of(const Service& service);

}  // namespace flare::server
