// Tokens as text and bytes, and their logarithms.
#include "server/api/logprobs.h"

#include <cmath>

#include "frontend/output/scanner.h"

namespace flare::server {
namespace {

Json entry(const frontend::Tokenizer& tokenizer, int32_t id, float logprob, bool with_id) {
  const std::string bytes = tokenizer.token_bytes(id);
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<uint8_t>(byte));
  Json out = Json::object();
  if (with_id) out.set("id", id);
  out.set("token", frontend::output::valid_utf8(bytes));
  out.set("logprob", logprob);
  out.set("bytes", std::move(list));
  return out;
}

Json entries(const frontend::Tokenizer& tokenizer, std::span<const runtime::TokenLogprobs> records,
             bool with_id) {
  Json list = Json::array();
  for (const runtime::TokenLogprobs& record : records) {
    Json one = entry(tokenizer, record.id, record.logprob, with_id);
    Json top = Json::array();
    for (const auto& [id, logprob] : record.top)
      top.push_back(entry(tokenizer, id, logprob, with_id));
    one.set("top_logprobs", std::move(top));
    list.push_back(std::move(one));
  }
  return list;
}

uint64_t characters(const std::string& utf8) {
  uint64_t n = 0;
  for (const char byte : utf8) n += (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  return n;
}

}  // namespace

Json chat_logprobs(const frontend::Tokenizer& tokenizer,
                   std::span<const runtime::TokenLogprobs> records) {
  return entries(tokenizer, records, false);
}

Json native_logprobs(const frontend::Tokenizer& tokenizer,
                     std::span<const runtime::TokenLogprobs> records) {
  return entries(tokenizer, records, true);
}

Json prompt_logprobs(const frontend::Tokenizer& tokenizer,
                     std::span<const runtime::TokenLogprobs> records) {
  Json all = Json::array({Json()});
  Json known = entries(tokenizer, records, true);
  for (Json& entry : known.mutable_array()) all.push_back(std::move(entry));
  return all;
}

Json completion_logprobs(const frontend::Tokenizer& tokenizer,
                         std::span<const runtime::TokenLogprobs> records, uint64_t* offset) {
  Json tokens = Json::array(), own = Json::array(), top = Json::array(), offsets = Json::array();
  for (const runtime::TokenLogprobs& record : records) {
    const std::string text = frontend::output::valid_utf8(tokenizer.token_bytes(record.id));
    tokens.push_back(text);
    const bool known = !std::isnan(record.logprob);
    own.push_back(known ? Json(record.logprob) : Json());
    offsets.push_back(*offset);
    *offset += characters(text);
    Json likeliest = Json::object();
    for (const auto& [id, logprob] : record.top) {
      const std::string other = frontend::output::valid_utf8(tokenizer.token_bytes(id));
      if (!likeliest.find(other)) likeliest.set(other, logprob);  // the likelier comes first
    }
    top.push_back(known ? std::move(likeliest) : Json());
  }
  return Json::object({{"tokens", std::move(tokens)},
                       {"token_logprobs", std::move(own)},
                       {"top_logprobs", std::move(top)},
                       {"text_offset", std::move(offsets)}});
}

}  // namespace flare::server
