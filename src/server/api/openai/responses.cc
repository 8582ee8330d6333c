// Whole responses and their event streams: shapes and order of serving.md S2.10.
#include "server/api/openai/responses.h"

#include <algorithm>
#include <ctime>
#include <optional>

#include "base/error.h"
#include "server/api/logprobs.h"
#include "server/api/openai/response_items.h"
#include "server/api/openai/responses_request.h"
#include "server/api/openai/text_member.h"
#include "server/api/parted_generation.h"
#include "server/api/prompting.h"

namespace flare::server {
namespace {

using runtime::FinishReason;

Json usage_json(const runtime::Usage& usage, uint64_t reasoning_tokens) {
  return Json::object(
      {{"input_tokens", usage.prompt_tokens},
       {"input_tokens_details", Json::object({{"cached_tokens", usage.cached_tokens}})},
       {"output_tokens", usage.generated_tokens},
       {"output_tokens_details", Json::object({{"reasoning_tokens", reasoning_tokens}})},
       {"total_tokens", usage.prompt_tokens + usage.generated_tokens}});
}

class ResponseAnswer : public PartedGeneration {
 public:
  ResponseAnswer(Setup setup, ResponsesRequest request, const ApiCall& call, ResponseStore& store)
      : PartedGeneration(std::move(setup)),
        request_(std::move(request)),
        store_(store),
        service_(call.service),
        owner_(call.request.key_label),
        id_(fresh_id("resp_")),
        model_(call.model),
        created_(std::time(nullptr)) {}

 private:
  // What is shown of one part.
  struct Item {
    enum class Kind { kMessage, kReasoning, kFunction, kCustom } kind;
    std::string id, call_id;
    std::optional<TextMember> input;  // kCustom
    Json logprobs;                    // kMessage: an array
  };

  void on_open() override {
    send_event("created", {{"response", response("in_progress", Json())}});
    send_event("in_progress", {{"response", response("in_progress", Json())}});
  }

  void on_part(size_t index) override {
    end_item("completed");
    items_.push_back(new_item(parts()[index]));
    const Item& item = items_.back();
    if (!stream()) return;
    send_event("output_item.added",
               {{"output_index", index}, {"item", item_json(index, "in_progress")}});
    if (item.kind == Item::Kind::kMessage)
      send_event("content_part.added",
                 place(index, "content_index", {{"part", text_part("", Json::array())}}));
    if (item.kind == Item::Kind::kReasoning && request_.summarises)
      send_event("reasoning_summary_part.added",
                 place(index, "summary_index", {{"part", summary_part("")}}));
  }

  void on_piece(size_t index, std::string_view piece) override {
    Item& item = items_[index];
    switch (item.kind) {
      case Item::Kind::kMessage:
        return send_delta("output_text.delta",
                          place(index, "content_index",
                                {{"delta", piece}, {"logprobs", take_logprobs_into(&item)}}));
      case Item::Kind::kReasoning:
        return send_delta(reasoning_event("delta"),
                          place(index, reasoning_index(), {{"delta", piece}}));
      case Item::Kind::kFunction:
        return send_delta("function_call_arguments.delta", place(index, "", {{"delta", piece}}));
      case Item::Kind::kCustom:
        send_input(index, item.input->push(piece));
    }
  }

  void on_part_end(size_t index) override {
    Item& item = items_[index];
    const Part& part = parts()[index];
    if (item.kind == Item::Kind::kCustom) send_input(index, item.input->finish(part.complete));
    open_item_ = index;
    // Whether anything else is cut, the next hook tells.
    if (part.complete) end_item("completed");
  }

  void on_complete() override {
    const FinishReason finish = *last(0).finished;
    const bool cut = finish == FinishReason::kLength || finish == FinishReason::kContext ||
                     finish == FinishReason::kDeadEnd;
    end_item(cut ? "incomplete" : "completed");
    Json whole = response(cut ? "incomplete" : "completed", usage());
    if (cut) whole.set("incomplete_details", Json::object({{"reason", "max_output_tokens"}}));
    if (!cut) whole.set("completed_at", static_cast<int64_t>(std::time(nullptr)));
    keep(whole);
    if (!stream()) return respond(whole);
    send_event(cut ? "incomplete" : "completed", {{"response", std::move(whole)}});
  }

  void on_stream_error(const ApiError& error) override {
    end_parts();
    end_item("incomplete");
    Json whole = response("failed", usage());
    whole.set("error", Json::object({{"code", "server_error"}, {"message", error.message}}));
    keep(whole);
    send_event("failed", {{"response", std::move(whole)}});
  }

  Json usage() const { return server::usage_json(last(0).usage, reasoning_tokens()); }
  void keep(const Json& whole) {
    if (!request_.store) return;
    store_.put(
        id_,
        {.owner = owner_, .response = whole, .input = std::move(request_.items), .output = done_});
  }

  Item new_item(const Part& part) const {
    if (part.kind == Part::Kind::kText)
      return {Item::Kind::kMessage, fresh_id("msg_"), {}, {}, Json::array()};
    if (part.kind == Part::Kind::kReasoning)
      return {Item::Kind::kReasoning, fresh_id("rs_"), {}, {}, {}};
    if (request_.custom_tools.contains(part.name))
      return {Item::Kind::kCustom, fresh_id("ctc_"), fresh_id("call_"), TextMember("input"), {}};
    return {Item::Kind::kFunction, fresh_id("fc_"), fresh_id("call_"), {}, {}};
  }

  void send_input(size_t index, const std::string& piece) {
    if (!piece.empty())
      send_delta("custom_tool_call_input.delta", place(index, "", {{"delta", piece}}));
  }

  // The closing events of the item that has ended, and its place in the output.
  void end_item(const char* status) {
    if (!open_item_) return;
    const size_t index = *std::exchange(open_item_, std::nullopt);
    const Item& item = items_[index];
    const std::string& text = parts()[index].text;
    done_.push_back(item_json(index, status));
    if (!stream()) return;
    switch (item.kind) {
      case Item::Kind::kMessage:
        send_event("output_text.done",
                   place(index, "content_index", {{"text", text}, {"logprobs", item.logprobs}}));
        send_event("content_part.done",
                   place(index, "content_index", {{"part", text_part(text, item.logprobs)}}));
        break;
      case Item::Kind::kReasoning:
        send_event(reasoning_event("done"), place(index, reasoning_index(), {{"text", text}}));
        if (request_.summarises)
          send_event("reasoning_summary_part.done",
                     place(index, "summary_index", {{"part", summary_part(text)}}));
        break;
      case Item::Kind::kFunction:
        send_event("function_call_arguments.done",
                   place(index, "", {{"name", parts()[index].name}, {"arguments", text}}));
        break;
      case Item::Kind::kCustom:
        send_event("custom_tool_call_input.done",
                   place(index, "", {{"input", item.input->text()}}));
    }
    send_event("output_item.done", {{"output_index", index}, {"item", done_.back()}});
  }

  static Json text_part(std::string_view text, Json logprobs) {
    return Json::object({{"type", "output_text"},
                         {"text", text},
                         {"annotations", Json::array()},
                         {"logprobs", std::move(logprobs)}});
  }
  // Those of the newest piece; all of them stay with the item.
  Json take_logprobs_into(Item* item) {
    const auto records = take_logprobs();
    if (records.empty()) return Json::array();
    Json fresh = chat_logprobs(service_.tokenizer(), records);
    for (const Json& one : fresh.as_array()) item->logprobs.push_back(one);
    return fresh;
  }
  static Json summary_part(std::string_view text) {
    return Json::object({{"type", "summary_text"}, {"text", text}});
  }

  // An item as it begins or at its end.
  Json item_json(size_t index, std::string_view status) const {
    const Item& item = items_[index];
    const Part& part = parts()[index];
    const bool begins = status == "in_progress";
    Json out = Json::object({{"id", item.id}});
    switch (item.kind) {
      case Item::Kind::kMessage:
        out.set("type", "message");
        out.set("status", status);
        out.set("role", "assistant");
        out.set("content",
                begins ? Json::array() : Json::array({text_part(part.text, item.logprobs)}));
        return out;
      case Item::Kind::kReasoning:
        return reasoning_json(std::move(out), part.text, status);
      case Item::Kind::kFunction:
        out.set("type", "function_call");
        out.set("status", status);
        out.set("call_id", item.call_id);
        out.set("name", part.name);
        out.set("arguments", begins ? "" : part.text);
        return out;
      case Item::Kind::kCustom:
        break;
    }
    out.set("type", "custom_tool_call");
    out.set("status", status);
    out.set("call_id", item.call_id);
    out.set("name", part.name);
    out.set("input", begins ? "" : item.input->text());
    return out;
  }

  Json reasoning_json(Json out, const std::string& text, std::string_view status) const {
    const bool begins = status == "in_progress";
    out.set("type", "reasoning");
    out.set("status", status);
    Json summary = Json::array(), content = Json::array();
    if (!begins && request_.summarises) summary.push_back(summary_part(text));
    // Clients put the deltas into the part that the item comes with: no event adds it.
    if (!request_.summarises)
      content.push_back(Json::object({{"type", "reasoning_text"}, {"text", begins ? "" : text}}));
    out.set("summary", std::move(summary));
    if (!request_.summarises) out.set("content", std::move(content));
    if (request_.seals_reasoning)
      out.set("encrypted_content", begins ? Json() : Json(seal_reasoning(text)));
    return out;
  }

  std::string reasoning_event(std::string_view end) const {
    return fmt::format("{}.{}", request_.summarises ? "reasoning_summary_text" : "reasoning_text",
                       end);
  }
  const char* reasoning_index() const {
    return request_.summarises ? "summary_index" : "content_index";
  }

  // Members of an event about the item `index`, and about its only part if `part` names its place.
  Json::Object place(size_t index, std::string_view part, Json::Object members) const {
    Json::Object out = {{"item_id", items_[index].id}, {"output_index", index}};
    if (!part.empty()) out.emplace_back(part, 0);
    std::ranges::move(members, std::back_inserter(out));
    return out;
  }

  void send_delta(std::string_view name, Json::Object members) {
    if (stream()) send_event(name, std::move(members));
  }
  void send_event(std::string_view name, Json::Object members) {
    const std::string type = fmt::format("response.{}", name);
    Json event = Json::object({{"type", type}, {"sequence_number", sequence_++}});
    for (auto& [member, value] : members) event.set(member, std::move(value));
    send(type, event);
  }

  Json response(std::string_view status, Json usage) const {
    Json out = Json::object({{"id", id_},
                             {"object", "response"},
                             {"created_at", created_},
                             {"status", status},
                             {"background", false},
                             {"completed_at", Json()},
                             {"error", Json()},
                             {"incomplete_details", Json()},
                             {"model", model_},
                             {"output", Json(done_)}});
    for (const auto& [name, value] : request_.echo.as_object()) out.set(name, value);
    out.set("usage", std::move(usage));
    return out;
  }

  ResponsesRequest request_;
  ResponseStore& store_;
  const Service& service_;
  const std::string owner_, id_, model_;
  const int64_t created_;
  uint64_t sequence_ = 0;
  std::vector<Item> items_;          // one for each part
  std::optional<size_t> open_item_;  // its part has ended, its closing events are not sent
  Json::Array done_;                 // items with all their events
};

ApiError not_found(const std::string& id) {
  return {404, "response_not_found", fmt::format("response {} is not stored", quote(id)), "id"};
}

std::shared_ptr<const StoredResponse> find_response(ResponseStore& store,
                                                    const http::Request& request,
                                                    const std::string& id) {
  auto found = store.get(id, request.key_label);
  if (!found) throw not_found(id);
  return found;
}

// The value of a query's parameter; empty if absent. Ids and words need no decoding.
std::string query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name)
      return std::string(pair.substr(equals + 1));
  }
  return {};
}

}  // namespace

void create_response(const ApiCall& call, ResponseStore& store) {
  ResponsesRequest request =
      read_responses_request(call.body, call.service, store, call.request.key_label);
  http::Headers headers = answer_headers(call, request.ignored, request.settings);
  std::vector<int32_t> prompt =
      encode_conversation(call.service, request.conversation, &request.settings);
  constrain_answer(call.service, request.rules, final_text(request.conversation), &request.settings,
                   &headers);
  GenerateSettings settings = request.settings;
  Generation::Setup setup{call.exchange, request.stream, std::move(headers)};
  const auto answer =
      std::make_shared<ResponseAnswer>(std::move(setup), std::move(request), call, store);
  answer->start(call.service, {{std::move(prompt), std::move(settings), 1}});
}

void count_response_tokens(const ApiCall& call, ResponseStore& store) {
  ResponsesRequest request =
      read_responses_request(call.body, call.service, store, call.request.key_label);
  http::Headers headers = answer_headers(call, request.ignored, request.settings);
  const std::vector<int32_t> prompt =
      encode_conversation(call.service, request.conversation, &request.settings);
  const Json body =
      Json::object({{"object", "response.input_tokens"}, {"input_tokens", prompt.size()}});
  call.exchange->respond(200, "application/json", body.to_text(), std::move(headers));
}

Json stored_response(ResponseStore& store, const http::Request& request, const std::string& id) {
  return find_response(store, request, id)->response;
}

Json stored_input_items(ResponseStore& store, const http::Request& request, const std::string& id) {
  const auto found = find_response(store, request, id);
  const std::string_view query = request.query;
  size_t limit = 20;
  if (const std::string given = query_value(query, "limit"); !given.empty()) {
    const bool is_number =
        given.size() <= 3 && given.find_first_not_of("0123456789") == std::string::npos;
    limit = is_number ? std::stoul(given) : 0;
    if (limit < 1 || limit > 100)
      throw ApiError{400, "invalid_value",
                     fmt::format("'limit' is {}, 1..100 expected", quote(given)), "limit"};
  }
  const std::string order = query_value(query, "order");
  if (!order.empty() && order != "asc" && order != "desc")
    throw ApiError{400, "invalid_value",
                   fmt::format("'order' is {}, asc or desc expected", quote(order)), "order"};
  Json::Array items = found->input;
  if (order != "asc") std::ranges::reverse(items);
  if (const std::string after = query_value(query, "after"); !after.empty()) {
    const auto at =
        std::ranges::find_if(items, [&](const Json& item) { return item.at("id") == Json(after); });
    if (at == items.end())
      throw ApiError{400, "invalid_value",
                     fmt::format("'after' is {}, the id of an item expected", quote(after)),
                     "after"};
    items.erase(items.begin(), at + 1);
  }
  const bool more = items.size() > limit;
  if (more) items.resize(limit);
  const auto edge = [&](auto get) { return items.empty() ? Json() : get().at("id"); };
  const Json first = edge([&] { return items.front(); });
  const Json last = edge([&] { return items.back(); });
  return Json::object({{"object", "list"},
                       {"data", Json(std::move(items))},
                       {"first_id", first},
                       {"last_id", last},
                       {"has_more", more}});
}

Json delete_response(ResponseStore& store, const http::Request& request, const std::string& id) {
  if (!store.remove(id, request.key_label)) throw not_found(id);
  return Json::object({{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace flare::server
