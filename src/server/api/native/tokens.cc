// Texts to ids, ids to texts, conversations to prompts.
#include "server/api/native/tokens.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "frontend/tokenizer/unicode.h"
#include "server/api/fields.h"
#include "server/api/ids_json.h"
#include "server/api/openai/chat_request.h"
#include "server/api/prompting.h"
#include "server/api/raw_prompt.h"

namespace flare::server {
namespace {

void respond(const ApiCall& call, std::string body, const std::vector<std::string>& ignored) {
  call.exchange->respond(200, "application/json", std::move(body), ignored_header(call, ignored));
}

// {"tokens": …} without a Json for each id: a body may make tens of millions.
std::string tokens_text(const std::vector<int32_t>& ids) {
  std::string text = "{\"tokens\":[";
  for (size_t i = 0; i < ids.size(); ++i)
    fmt::format_to(std::back_inserter(text), "{}{}", i == 0 ? "" : ",", ids[i]);
  return text + "]}";
}

Json pieces_json(const frontend::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Json list = Json::array();
  for (const int32_t id : ids) {
    const std::string bytes = tokenizer.token_bytes(id);
    Json piece(bytes);
    if (frontend::tokenizer::valid_utf8_prefix(bytes) < bytes.size()) {
      piece = Json::array();
      for (const char byte : bytes) piece.push_back(static_cast<uint8_t>(byte));
    }
    list.push_back(Json::object({{"id", id}, {"piece", std::move(piece)}}));
  }
  return list;
}

struct Rendered {
  std::string prompt;
  std::vector<int32_t> ids;
  std::vector<std::string> ignored;
};

// As the chat endpoint renders the same fields.
Rendered rendered(const ApiCall& call) {
  ChatRequest request = read_chat_request(call.body, call.service);
  const frontend::MarkedText text = render_conversation(call.service, request.conversation);
  return {text.text(), call.service.encode_prompt(text), std::move(request.ignored)};
}

}  // namespace

void native_tokenize(const ApiCall& call) {
  const Fields fields(call.body);
  const frontend::Tokenizer& tokenizer = tokenizer_of(call.service);
  fields.without_effect("model", Shape::kText);
  const auto content = fields.text("content", SIZE_MAX);
  const bool add_special = fields.boolean("add_special").value_or(false);
  const bool parse_special = fields.boolean("parse_special").value_or(true);
  const bool with_pieces = fields.boolean("with_pieces").value_or(false);
  std::vector<std::string> ignored = fields.unread();
  std::vector<int32_t> ids;
  if (content) {
    if (fields.find("messages"))
      throw ApiError{400, "conflicting_parameters", "'content' and 'messages' exclude each other",
                     "messages"};
    ids = tokenizer.encode(*content, {add_special, parse_special});
  } else if (fields.find("messages")) {
    Rendered done = rendered(call);
    ids = std::move(done.ids);
    // Beside messages a chat's other fields may stand.
    std::erase_if(ignored, [&done](const std::string& name) {
      return std::ranges::find(done.ignored, name) == done.ignored.end();
    });
  } else {
    throw ApiError{400, "missing_field", "'content' is missing; text, or 'messages', expected",
                   "content"};
  }
  respond(call,
          with_pieces ? Json::object({{"tokens", pieces_json(tokenizer, ids)}}).to_text()
                      : tokens_text(ids),
          ignored);
}

void native_detokenize(const ApiCall& call) {
  const Fields fields(call.body);
  const frontend::Tokenizer& tokenizer = tokenizer_of(call.service);
  fields.without_effect("model", Shape::kText);
  const Json* tokens = fields.find("tokens");
  if (!tokens) throw ApiError{400, "missing_field", "'tokens' is missing", "tokens"};
  const auto ids = read_token_ids(*tokens, "tokens", static_cast<uint32_t>(tokenizer.id_limit()));
  respond(call, Json::object({{"content", tokenizer.decode(ids, false)}}).to_text(),
          fields.unread());
}

void native_apply_template(const ApiCall& call) {
  const Rendered done = rendered(call);
  respond(call, Json::object({{"prompt", done.prompt}, {"tokens", ids_json(done.ids)}}).to_text(),
          done.ignored);
}

}  // namespace flare::server
