// Routes in one table, one row each.
#include "server/app.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <limits>

#include "base/error.h"
#include "base/log.h"
#include "base/version.h"
#include "server/api/anthropic/messages.h"
#include "server/api/body.h"
#include "server/api/errors.h"
#include "server/api/fields.h"
#include "server/api/native/completion.h"
#include "server/api/native/props.h"
#include "server/api/native/tokens.h"
#include "server/api/openai/chat.h"
#include "server/api/openai/completions.h"
#include "server/api/openai/responses.h"
#include "server/api/openai/roles.h"
#include "server/web/web.h"

namespace flare::server {
namespace {

constexpr std::string_view kJson = "application/json";

void respond_json(http::Exchange& exchange, const Json& body, int status = 200) {
  exchange.respond(status, kJson, body.to_text());
}

// Keeps the one answer that is given to it.
class KeptAnswer : public http::Exchange {
 public:
  explicit KeptAnswer(const http::Request& request) : request_(request) {}
  const std::string& request_id() const override { return request_.id; }
  const std::string& request_path() const override { return request_.path; }
  const std::string& cache_salt() const override { return request_.cache_salt; }
  bool respond(int status, std::string_view content_type, std::string body,
               http::Headers headers) override {
    answer = {status, std::string(content_type), std::move(body), std::move(headers)};
    return true;
  }
  void begin_stream(http::Headers, std::string) override {}
  void offer_stream(http::Headers, std::string) override {}
  void write(std::string) override {}
  void end() override {}
  void on_disconnect(std::function<void()>) override {}

  http::Answer answer;

 private:
  const http::Request& request_;
};

std::string rfc3339(int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm utc{};
  gmtime_r(&time, &utc);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

}  // namespace

// A path that ends with '/' takes one more segment, the tail; "/" is itself alone.
struct App::Route {
  std::string_view method;
  std::string_view path;
  void (App::*handler)(const Call&);
  Entry entry = Entry::kKey;
};

const App::Route App::kRoutes[] = {
    {"GET", "/health", &App::health, Entry::kProbe},
    {"GET", "/live", &App::live, Entry::kProbe},
    {"GET", "/ready", &App::ready, Entry::kProbe},
    {"GET", "/version", &App::version, Entry::kProbe},
    {"GET", "/metrics", &App::metrics, Entry::kMetrics},
    {"GET", "/v1/flare/status", &App::status},
    {"GET", "/v1/models", &App::list_models},
    {"GET", "/v1/models/", &App::show_model},
    {"POST", "/v1/chat/completions", &App::chat},
    {"POST", "/v1/completions", &App::complete},
    {"POST", "/v1/messages", &App::message},
    {"POST", "/v1/messages/count_tokens", &App::count_message},
    {"POST", "/v1/responses", &App::respond},
    {"POST", "/v1/responses/input_tokens", &App::count_response_input},
    {"GET", "/v1/responses/", &App::show_response},
    {"DELETE", "/v1/responses/", &App::delete_response},
    {"POST", "/v1/responses/", &App::no_such_path},
    {"POST", "/v1/embeddings", &App::embed},
    {"POST", "/v1/rerank", &App::rerank},
    {"POST", "/v2/rerank", &App::rerank},
    {"POST", "/rerank", &App::rerank},
    {"POST", "/v1/score", &App::score},
    {"POST", "/score", &App::score},
    {"POST", "/completion", &App::complete_natively},
    {"POST", "/tokenize", &App::tokenize},
    {"POST", "/detokenize", &App::detokenize},
    {"POST", "/apply-template", &App::apply_template},
    {"GET", "/props", &App::props},
    {"GET", "/", &App::page, Entry::kOpen},
    {"GET", "/web/", &App::page, Entry::kOpen},
};

void App::handle(http::Request request, std::shared_ptr<http::Exchange> exchange) {
  try {
    dispatch(request, exchange);
  } catch (const ApiError& error) {
    count_rejection(*exchange, error);
    respond_error(*exchange, error);
  } catch (const std::exception& defect) {
    log_error("{} {}: {}", request.method, quote(request.path), defect.what());
    const ApiError error{500, "internal_error", "an internal error; the log has the details", {}};
    count_rejection(*exchange, error);
    respond_error(*exchange, error);
  }
}

// A request that generates nothing because it ended here.
void App::count_rejection(const http::Exchange& exchange, const ApiError& error) {
  const auto api = observe::api_of_path(exchange.request_path());
  if (!api) return;
  observe::RequestRecord record;
  record.api = *api;
  record.id = exchange.request_id();
  record.status = error.status;
  record.error_code = error.code;
  record.outcome = observe::Outcome::kRejected;
  observer_.rejected(record);
}

// Under the path that a route is declared with, since a client's can be anything. Scrapes leave no
// trace (serving.md S13.1).
void App::count_response(std::string_view path, int status) {
  std::string_view label = "other";
  for (const Route& route : kRoutes) {
    const bool takes_tail = route.path.ends_with('/') && route.path.size() > 1;
    if (path == route.path || (takes_tail && path.starts_with(route.path))) label = route.path;
  }
  if (label != "/metrics") observer_.metrics().responded(label, status);
}

void App::open(Service& service) {
  service.set_observer(&observer_);
  opened_unix_ = std::time(nullptr);
  service_ = &service;
}

// The row for path and method, and what its path ends with. nullptr: `allowed` lists the methods
// that the path takes, if it is known.
const App::Route* App::find_route(const http::Request& request, std::string_view* tail,
                                  std::string* allowed) {
  const std::string_view method =
      request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
  for (const Route& route : kRoutes) {
    *tail = {};
    if (route.path.ends_with('/') && route.path.size() > 1) {
      if (!request.path.starts_with(route.path) || request.path.size() == route.path.size())
        continue;
      *tail = std::string_view(request.path).substr(route.path.size());
    } else if (request.path != route.path) {
      continue;
    }
    if (route.method == method) return &route;
    *allowed += (allowed->empty() ? "" : ", ") + std::string(route.method);
    if (route.method == "GET") *allowed += ", HEAD";
  }
  return nullptr;
}

void App::dispatch(const http::Request& request, std::shared_ptr<http::Exchange> exchange) {
  std::string_view tail;
  std::string allowed;
  if (const Route* route = find_route(request, &tail, &allowed))
    return (this->*route->handler)({request, tail, std::move(exchange)});
  if (!allowed.empty())
    throw ApiError{405, "method_not_allowed",
                   fmt::format("{} does not take {}", quote(request.path), quote(request.method)),
                   allowed};
  throw ApiError{404, "not_found", fmt::format("no such path: {}", quote(request.path)), {}};
}

http::Hooks App::hooks() {
  return {
      .on_head = [this](http::Request* request) { return judge(request); },
      .refusal =
          [](const http::Request& request, int status, std::string_view code, std::string message) {
            return error_answer(request.path, request.id,
                                {status, std::string(code), std::move(message), {}});
          },
      .responded = [this](std::string_view path, int status) { count_response(path, status); },
      .connections_changed = [this](uint32_t open) { observer_.metrics().connections(open); }};
}

namespace {

// x-request-timeout-ms (serving.md S9). Throws invalid_value.
uint32_t timeout_of(const http::Request& request) {
  constexpr std::string_view kName = "x-request-timeout-ms";
  const std::string_view text = request.header(kName);
  if (text.empty()) return 0;
  uint32_t ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
  if (error != std::errc() || end != text.data() + text.size() || ms == 0)
    throw ApiError{400, "invalid_value",
                   fmt::format("header {} is {}, expected milliseconds, 1..{}", kName, quote(text),
                               std::numeric_limits<uint32_t>::max()),
                   std::string(kName)};
  return ms;
}

// Headers that decide something say it once, so that nobody in front reads another value.
std::optional<ApiError> check_headers(const http::Request& request) {
  for (const std::string_view name :
       {"origin", "authorization", "x-api-key", "content-type", "x-request-timeout-ms"})
    if (request.has_several(name))
      return ApiError{400, "invalid_request",
                      fmt::format("header {} has several values, one expected", name),
                      std::string(name)};
  return std::nullopt;
}

}  // namespace

std::optional<http::Answer> App::judge(http::Request* request) {
  if (const auto error = check_headers(*request))
    return error_answer(request->path, request->id, *error);
  const std::shared_ptr<const Access> access = this->access();
  if (const auto error = access->check_site(request))
    return error_answer(request->path, request->id, *error);
  if (auto answer = Access::preflight(*request)) return answer;
  std::string_view tail;
  std::string allowed;
  const Route* route = find_route(*request, &tail, &allowed);
  if (route != nullptr && route->entry == Entry::kProbe) return probe(*route, *request);
  const bool open =
      route != nullptr && (route->entry == Entry::kOpen ||
                           (route->entry == Entry::kMetrics && options_.metrics_public));
  if (open) return std::nullopt;
  if (const auto error = access->check_key(request))
    return error_answer(request->path, request->id, *error);
  try {
    request->timeout_ms = timeout_of(*request);
  } catch (const ApiError& error) {
    return error_answer(request->path, request->id, error);
  }
  // With a single key there is nobody to keep apart.
  if (access->has_several_keys() && !options_.share_cache) request->cache_salt = request->key_label;
  return std::nullopt;
}

http::Answer App::probe(const Route& route, const http::Request& request) {
  // Not owned: handlers of probes answer before they return.
  KeptAnswer kept(request);
  const std::shared_ptr<http::Exchange> exchange(std::shared_ptr<void>(), &kept);
  try {
    (this->*route.handler)({request, {}, exchange});
  } catch (const ApiError& error) {
    return error_answer(request.path, request.id, error);
  }
  return std::move(kept.answer);
}

Service& App::service() const {
  Service* service = service_;
  if (!service) throw ApiError{503, "model_loading", "the model is still loading", {}};
  return *service;
}

void App::health(const Call& call) {
  if (service().engine().has_failed())
    throw ApiError{503, "engine_failed", "the engine has failed", {}};
  respond_json(*call.exchange, Json::object({{"status", "ok"}}));
}

void App::live(const Call& call) { respond_json(*call.exchange, Json::object({{"status", "ok"}})); }

void App::ready(const Call& call) {
  const runtime::Engine& engine = service().engine();
  if (engine.has_failed()) throw ApiError{503, "engine_failed", "the engine has failed", {}};
  if (draining_) throw ApiError{503, "server_draining", "the server is shutting down", {}};
  if (!engine.has_place()) throw ApiError{503, "server_overloaded", "the queue is full", {}};
  respond_json(*call.exchange, Json::object({{"status", "ready"}}));
}

void App::version(const Call& call) {
  respond_json(*call.exchange, Json::object({{"name", "flare"}, {"version", kVersion}}));
}

observe::Scrape App::scrape() const {
  observe::Scrape scrape{.counts = observer_.metrics().counts(),
                         .process = observe::read_process_facts(),
                         .aliases = options_.metric_aliases};
  if (Service* service = service_) {
    scrape.engine = service->engine().stats();
    scrape.memory = service->engine().memory_plan();
    scrape.model = served_names().front();
  }
  return scrape;
}

observe::Overview App::overview() const {
  observe::Overview overview;
  overview.numbers = scrape();
  overview.now = std::chrono::steady_clock::now();
  overview.latency = observer_.recent_latency();
  overview.trouble = observer_.recent_trouble();
  Service* service = service_;
  if (!service) return overview;
  runtime::Engine& engine = service->engine();
  overview.phase = overview.numbers.engine->failed ? observe::Phase::kFailed
                   : draining_                     ? observe::Phase::kDraining
                                                   : observe::Phase::kReady;
  overview.device = engine.device_name();
  overview.max_pending = engine.max_pending();
  overview.rows = engine.running_rows();
  return overview;
}

void App::metrics(const Call& call) {
  call.exchange->respond(200, observe::kExpositionType, observe::exposition(scrape()));
}

void App::status(const Call& call) { respond_json(*call.exchange, status_json(overview())); }

std::vector<std::string> App::served_names() const {
  if (!options_.model_ids.empty()) return options_.model_ids;
  return {service().model_name()};
}

Json App::model_json(const std::string& name) const {
  const Service& model = service();
  const int64_t opened = opened_unix_;
  Json capabilities = Json::array();
  if (model.has_template() && model.has_tokenizer()) capabilities.push_back("chat");
  return Json::object({{"id", name},
                       {"object", "model"},
                       {"type", "model"},
                       {"created", opened},
                       {"created_at", rfc3339(opened)},
                       {"owned_by", "flare"},
                       {"display_name", name},
                       {"max_model_len", model.max_context()},
                       {"capabilities", std::move(capabilities)}});
}

void App::list_models(const Call& call) {
  const auto names = served_names();
  Json data = Json::array();
  for (const std::string& name : names) data.push_back(model_json(name));
  respond_json(*call.exchange, Json::object({{"object", "list"},
                                             {"data", std::move(data)},
                                             {"first_id", names.front()},
                                             {"last_id", names.back()},
                                             {"has_more", false}}));
}

void App::show_model(const Call& call) {
  const auto names = served_names();
  const auto found = std::ranges::find(names, call.tail);
  if (found == names.end())
    throw ApiError{404, "model_not_found", fmt::format("no such model: {}", quote(call.tail)),
                   "model"};
  respond_json(*call.exchange, model_json(*found));
}

std::string App::chosen_model(const Json& body, bool any_model) const {
  const auto names = served_names();
  const Fields fields(body);
  const auto wanted = fields.text("model", SIZE_MAX);
  if (!wanted) return names.front();
  if (any_model || std::ranges::find(names, *wanted) != names.end()) return *wanted;
  throw ApiError{
      404, "model_not_found",
      fmt::format("model {} is not served here; {} is", quote(*wanted), quote(names.front())),
      "model"};
}

void App::generate(const Call& call, const Protocol& protocol, bool any_model) {
  if (draining_) throw ApiError{503, "server_draining", "the server is shutting down", {}};
  inspect(call, protocol, any_model);
}

void App::inspect(const Call& call, const Protocol& protocol, bool any_model) {
  Service& model = service();
  const Json body = read_json_body(call.request);
  protocol({model, call.request, body, call.exchange,
            chosen_model(body, any_model || options_.any_model), options_.strict_fields});
}

void App::chat(const Call& call) { generate(call, chat_completions); }
void App::complete(const Call& call) { generate(call, completions); }
// Clients of Messages send the names of other people's models (serving.md S1.5).
void App::message(const Call& call) { generate(call, create_message, true); }
void App::count_message(const Call& call) { inspect(call, count_message_tokens, true); }
void App::respond(const Call& call) {
  generate(call, [this](const ApiCall& api) { create_response(api, responses_); });
}
void App::count_response_input(const Call& call) {
  inspect(call, [this](const ApiCall& api) { count_response_tokens(api, responses_); });
}
void App::show_response(const Call& call) {
  const size_t slash = call.tail.find('/');
  const std::string id(call.tail.substr(0, slash));
  if (slash == std::string_view::npos)
    return respond_json(*call.exchange, stored_response(responses_, call.request, id));
  if (call.tail.substr(slash) != "/input_items") no_such_path(call);
  respond_json(*call.exchange, stored_input_items(responses_, call.request, id));
}
void App::delete_response(const Call& call) {
  if (call.tail.find('/') != std::string_view::npos) no_such_path(call);
  respond_json(*call.exchange,
               server::delete_response(responses_, call.request, std::string(call.tail)));
}
void App::no_such_path(const Call& call) {
  throw ApiError{404, "not_found", fmt::format("no such path: {}", quote(call.request.path)), {}};
}
void App::embed(const Call& call) { inspect(call, embeddings); }
void App::rerank(const Call& call) { inspect(call, server::rerank); }
void App::score(const Call& call) { inspect(call, server::score); }
void App::complete_natively(const Call& call) { generate(call, native_completion); }
void App::tokenize(const Call& call) { inspect(call, native_tokenize); }
void App::detokenize(const Call& call) { inspect(call, native_detokenize); }
void App::apply_template(const Call& call) { inspect(call, native_apply_template); }
void App::props(const Call& call) {
  respond_json(*call.exchange, props_json(service(), served_names()));
}

// Needs no model: the page says itself that it is loading.
void App::page(const Call& call) {
  const web::File* file =
      options_.web ? web::find(call.tail.empty() ? "page.html" : call.tail) : nullptr;
  if (!file)
    throw ApiError{404, "not_found", fmt::format("no such path: {}", quote(call.request.path)), {}};
  web::respond(*file, call.request, *call.exchange);
}

}  // namespace flare::server
