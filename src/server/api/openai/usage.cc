// Token counts in OpenAI's names.
#include "server/api/openai/usage.h"

namespace flare::server {

Json usage_json(const runtime::Usage& usage, uint64_t reasoning_tokens) {
  return Json::object(
      {{"prompt_tokens", usage.prompt_tokens},
       {"completion_tokens", usage.generated_tokens},
       {"total_tokens", usage.prompt_tokens + usage.generated_tokens},
       {"prompt_tokens_details", Json::object({{"cached_tokens", usage.cached_tokens}})},
       {"completion_tokens_details", Json::object({{"reasoning_tokens", reasoning_tokens}})}});
}

}  // namespace flare::server
