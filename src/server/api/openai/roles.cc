// Checks of the fields, then the answer that the model cannot.
#include "server/api/openai/roles.h"

#include <algorithm>

#include "base/error.h"
#include "server/api/fields.h"

namespace flare::server {
namespace {

constexpr size_t kMaxInputs = 2048;
constexpr size_t kMaxDocuments = 1000;
constexpr size_t kMaxChoices = 64;

[[noreturn]] void unavailable(const ApiCall& call, std::string_view role) {
  throw ApiError{400,
                 "capability_unavailable",
                 fmt::format("model '{}' has no role for {}", call.service.model_name(), role),
                 {}};
}

const Json& needed(const Fields& fields, std::string_view name) {
  const Json* value = fields.find(name);
  if (!value)
    throw ApiError{400, "missing_field", fmt::format("'{}' is missing", name), std::string(name)};
  return *value;
}

bool is_ids(const Json& value) {
  return value.is_array() && std::ranges::all_of(value.as_array(), &Json::is_number);
}

// A string, or strings; texts may also be objects with a member `text`.
void check_texts(const Fields& fields, std::string_view name, size_t max) {
  const Json& value = needed(fields, name);
  if (value.is_string()) return;
  if (!value.is_array()) fields.wrong_type(name, "string or array of strings");
  fields.array(name, 1, max);
  for (const Json& one : value.as_array())
    if (!one.is_string() && !(one.find("text") && one.at("text").is_string()))
      fields.wrong_type(name, "string or array of strings");
}

}  // namespace

void embeddings(const ApiCall& call) {
  const Fields fields(call.body);
  const Json& input = needed(fields, "input");
  if (!input.is_string()) {
    fields.array("input", 1, kMaxInputs);
    const auto is_text = [](const Json& one) { return one.is_string() || is_ids(one); };
    if (!is_ids(input) && !std::ranges::all_of(input.as_array(), is_text))
      fields.wrong_type("input", "string, strings, ids or arrays of ids");
  }
  const auto format = fields.text("encoding_format", SIZE_MAX);
  if (format && *format != "float" && *format != "base64")
    fields.wrong_value("encoding_format", quote(*format), "float or base64");
  fields.integer("dimensions", 1, INT32_MAX);
  unavailable(call, "embeddings");
}

void rerank(const ApiCall& call) {
  const Fields fields(call.body);
  needed(fields, "query");
  fields.text("query", SIZE_MAX);
  needed(fields, "documents");
  if (!fields.find("documents")->is_array()) fields.wrong_type("documents", "array of strings");
  check_texts(fields, "documents", kMaxDocuments);
  fields.integer("top_n", 1, INT32_MAX);
  fields.boolean("return_documents");
  unavailable(call, "reranking");
}

void score(const ApiCall& call) {
  const Fields fields(call.body);
  if (fields.find("choices")) {
    needed(fields, "prompt");
    if (!is_ids(*fields.find("prompt"))) fields.text("prompt", SIZE_MAX);
    check_texts(fields, "choices", kMaxChoices);
  } else {
    check_texts(fields, "text_1", kMaxInputs);
    check_texts(fields, "text_2", kMaxInputs);
  }
  unavailable(call, "scores");
}

}  // namespace flare::server
