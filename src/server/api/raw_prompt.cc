// The four shapes of `prompt`.
#include "server/api/raw_prompt.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "server/api/errors.h"
#include "server/api/prompting.h"

namespace flare::server {
namespace {

constexpr std::string_view kShapes = "a string, strings, token ids or arrays of token ids";

RawPrompt text_prompt(const Service& service, const std::string& text, bool add_special) {
  tokenizer_of(service);
  return {service.encode_raw(text, add_special), text};
}

RawPrompt id_prompt(const Service& service, const Json& array, const std::string& param) {
  RawPrompt prompt{read_token_ids(array, param, service.vocab_size()), {}};
  if (service.has_tokenizer()) prompt.text = service.tokenizer().decode(prompt.ids, false);
  return prompt;
}

}  // namespace

const frontend::Tokenizer& tokenizer_of(const Service& service) {
  if (!service.has_tokenizer())
    throw ApiError{400,
                   "capability_unavailable",
                   fmt::format("model '{}' has no tokenizer, so it takes and gives token ids only",
                               service.model_name()),
                   {}};
  return service.tokenizer();
}

std::vector<int32_t> read_token_ids(const Json& array, const std::string& param,
                                    uint32_t vocab_size) {
  const auto wrong = [&](const std::string& value, std::string_view code) {
    return ApiError{
        400, std::string(code),
        fmt::format("'{}' holds {}, token ids in 0..{} expected", param, value, vocab_size - 1),
        param};
  };
  if (!array.is_array())
    throw ApiError{400, "invalid_type",
                   fmt::format("'{}' is {}, array of token ids expected", param, a_kind(array)),
                   param};
  std::vector<int32_t> ids;
  ids.reserve(array.as_array().size());
  for (const Json& item : array.as_array()) {
    const double id = item.is_number() ? item.as_double() : 0.5;
    if (id != std::floor(id)) throw wrong(a_kind(item), "invalid_type");  // 5.0 is an integer
    if (id < 0 || id >= vocab_size) throw wrong(item.to_text(), "invalid_value");
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

std::vector<RawPrompt> read_raw_prompts(const Fields& fields, std::string_view name,
                                        const Service& service, size_t max, bool add_special) {
  const std::string param(name);
  const Json* given = fields.find(name);
  if (!given) throw ApiError{400, "missing_field", fmt::format("'{}' is missing", name), param};
  std::vector<RawPrompt> prompts;
  if (given->is_string()) {
    prompts.push_back(text_prompt(service, given->as_string(), add_special));
  } else if (!given->is_array()) {
    fields.wrong_type(name, kShapes);
  } else if (!given->as_array().empty() && given->as_array()[0].is_number()) {
    prompts.push_back(id_prompt(service, *given, param));
  } else {
    const Json::Array& items = given->as_array();
    if (items.size() > max)
      fields.wrong_value(name, fmt::format("an array of {}", items.size()),
                         fmt::format("at most {} prompts", max));
    for (size_t i = 0; i < items.size(); ++i) {
      if (!items[i].is_string() && !items[i].is_array()) fields.wrong_type(name, kShapes);
      prompts.push_back(items[i].is_string()
                            ? text_prompt(service, items[i].as_string(), add_special)
                            : id_prompt(service, items[i], fmt::format("{}[{}]", name, i)));
    }
  }
  if (prompts.empty())
    throw ApiError{400, "empty_prompt", fmt::format("'{}' holds no prompt", name), param};
  for (const RawPrompt& prompt : prompts) check_prompt(service, prompt.ids, name);
  return prompts;
}

}  // namespace flare::server
