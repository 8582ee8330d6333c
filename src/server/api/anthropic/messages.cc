// Whole messages and their event streams: shapes and order of serving.md S2.11.
#include "server/api/anthropic/messages.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash/sha256.h"
#include "frontend/output/parser.h"
#include "server/api/anthropic/messages_request.h"
#include "server/api/parted_generation.h"
#include "server/api/prompting.h"

namespace flare::server {
namespace {

using runtime::FinishReason;

constexpr std::string_view kPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

// What clients send back with reasoning; nobody reads it then.
std::string signature_of(const std::string& reasoning) {
  return "flare" + sha256_hex(as_bytes(reasoning));
}

std::string_view stop_reason_text(const TextEvent& last, const std::vector<int32_t>& stop_ids) {
  switch (*last.finished) {
    case FinishReason::kStopId:
      if (last.called) return "tool_use";
      return std::ranges::find(stop_ids, last.stop_id) != stop_ids.end() ? "stop_sequence"
                                                                         : "end_turn";
    case FinishReason::kStopped:
      return "stop_sequence";
    case FinishReason::kContext:
      return "model_context_window_exceeded";
    default:
      return "max_tokens";
  }
}

// Arguments as a value: of a cut call the members that are complete (serving.md S6.7).
Json input_of(const std::string& arguments, bool complete) {
  try {
    Json input = parse_json(complete ? arguments : frontend::complete_members(arguments), "input",
                            {.max_depth = 256});
    if (input.is_object()) return input;
  } catch (const Error&) {
    // Too deep to be shown.
  }
  return Json::object();
}

class MessageAnswer : public PartedGeneration {
 public:
  MessageAnswer(Setup setup, const MessagesRequest& request, std::string model,
                std::string request_id)
      : PartedGeneration(std::move(setup)),
        omit_thinking_(request.omit_thinking),
        marked_tokens_(request.settings.marked_tokens),
        stop_ids_(request.settings.stop_ids),
        id_(fresh_id("msg_")),
        model_(std::move(model)),
        request_id_(std::move(request_id)) {}

 private:
  void on_start(const runtime::Usage& usage) override {
    if (!stream()) return;
    runtime::Usage read = usage;
    read.generated_tokens = 0;
    send("message_start",
         Json::object({{"type", "message_start"},
                       {"message", message(Json::array(), Json(), Json(), usage_json(read, 0))}}));
  }

  void on_part(size_t index) override {
    call_ids_.push_back(parts()[index].kind == Part::Kind::kCall ? fresh_id("toolu_") : "");
    if (stream())
      send("content_block_start", Json::object({{"type", "content_block_start"},
                                                {"index", index},
                                                {"content_block", block(index, false)}}));
  }

  void on_piece(size_t index, std::string_view piece) override {
    if (!stream()) return;
    switch (parts()[index].kind) {
      case Part::Kind::kText:
        return send_delta(index, "text_delta", "text", piece);
      case Part::Kind::kCall:
        return send_delta(index, "input_json_delta", "partial_json", piece);
      case Part::Kind::kReasoning:
        if (!omit_thinking_) send_delta(index, "thinking_delta", "thinking", piece);
    }
  }

  void on_part_end(size_t index) override {
    if (!stream()) return;
    const Part& part = parts()[index];
    if (part.kind == Part::Kind::kReasoning)
      send_delta(index, "signature_delta", "signature", signature_of(part.text));
    send("content_block_stop", Json::object({{"type", "content_block_stop"}, {"index", index}}));
  }

  void on_complete() override {
    const Json reason(stop_reason_text(last(0), stop_ids_));
    const Json sequence =
        last(0).finished == FinishReason::kStopped ? Json(last(0).stop_string) : Json();
    const Json usage = usage_json(last(0).usage, reasoning_tokens());
    if (stream()) {
      send("message_delta",
           Json::object(
               {{"type", "message_delta"},
                {"delta", Json::object({{"stop_reason", reason}, {"stop_sequence", sequence}})},
                {"usage", usage}}));
      return send("message_stop", Json::object({{"type", "message_stop"}}));
    }
    Json content = Json::array();
    for (size_t i = 0; i < parts().size(); ++i) content.push_back(block(i, true));
    respond(message(std::move(content), reason, sequence, usage));
  }

  void on_stream_error(const ApiError& error) override {
    send("error", anthropic_error(error, request_id_));
  }

  void send_delta(size_t index, std::string_view type, std::string_view name,
                  std::string_view piece) {
    send("content_block_delta",
         Json::object({{"type", "content_block_delta"},
                       {"index", index},
                       {"delta", Json::object({{"type", type}, {std::string(name), piece}})}}));
  }

  // A block at its end, or as it begins.
  Json block(size_t index, bool whole) const {
    const Part& part = parts()[index];
    switch (part.kind) {
      case Part::Kind::kText:
        return Json::object({{"type", "text"}, {"text", whole ? part.text : ""}});
      case Part::Kind::kReasoning:
        return Json::object({{"type", "thinking"},
                             {"thinking", whole && !omit_thinking_ ? part.text : ""},
                             {"signature", whole ? signature_of(part.text) : ""}});
      case Part::Kind::kCall:
        break;
    }
    return Json::object({{"type", "tool_use"},
                         {"id", call_ids_[index]},
                         {"name", part.name},
                         {"input", whole ? input_of(part.text, part.complete) : Json::object()}});
  }

  Json message(Json content, Json reason, Json sequence, Json usage) const {
    return Json::object({{"id", id_},
                         {"type", "message"},
                         {"role", "assistant"},
                         {"model", model_},
                         {"content", std::move(content)},
                         {"stop_reason", std::move(reason)},
                         {"stop_sequence", std::move(sequence)},
                         {"usage", std::move(usage)}});
  }

  // The prompt in three parts: read from the cache, kept up to the last mark, and the rest.
  Json usage_json(const runtime::Usage& usage, uint64_t thinking) const {
    const uint32_t cached = usage.cached_tokens;
    const uint32_t kept = marked_tokens_ > cached ? marked_tokens_ - cached : 0;
    return Json::object({{"input_tokens", usage.prompt_tokens - cached - kept},
                         {"cache_creation_input_tokens", kept},
                         {"cache_read_input_tokens", cached},
                         {"output_tokens", usage.generated_tokens},
                         {"output_tokens_details", Json::object({{"thinking_tokens", thinking}})}});
  }

  const bool omit_thinking_;
  const uint32_t marked_tokens_;
  const std::vector<int32_t> stop_ids_;
  const std::string id_, model_, request_id_;
  std::vector<std::string> call_ids_;  // one for each part; empty for what is no call
};

}  // namespace

void create_message(const ApiCall& call) {
  MessagesRequest request = read_messages_request(call.body, call.service, false);
  http::Headers headers = answer_headers(call, request.ignored, request.settings);
  std::vector<int32_t> prompt =
      encode_conversation(call.service, request.conversation, &request.settings);
  constrain_answer(call.service, request.rules, final_text(request.conversation), &request.settings,
                   &headers);
  const auto answer = std::make_shared<MessageAnswer>(
      Generation::Setup{call.exchange, request.stream, std::move(headers), std::string(kPing)},
      request, call.model, call.request.id);
  answer->start(call.service, {{std::move(prompt), request.settings, 1}});
}

void count_message_tokens(const ApiCall& call) {
  MessagesRequest request = read_messages_request(call.body, call.service, true);
  http::Headers headers = answer_headers(call, request.ignored, request.settings);
  const std::vector<int32_t> prompt =
      encode_conversation(call.service, request.conversation, &request.settings);
  call.exchange->respond(200, "application/json",
                         Json::object({{"input_tokens", prompt.size()}}).to_text(),
                         std::move(headers));
}

}  // namespace flare::server
