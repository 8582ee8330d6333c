// Sessions are chains of callbacks on the client's thread; nothing here waits.
#include "server/load/runner.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace flare::server::load {
namespace {

constexpr uint32_t kFewWords = 32;
constexpr uint32_t kManyWords = 160;
constexpr double kLongestPause =
    2;  // seconds that a refused session waits, whatever the server says

// The prompt of a conversation for a server without roles.
std::string plain_text(const Json& messages) {
  std::string text;
  for (const Json& message : messages.as_array()) {
    if (!text.empty()) text += "\n\n";
    text += message.at("content").as_string();
  }
  return text;
}

http::Outgoing request_of(const Target& target, const Json& messages, uint32_t max_tokens) {
  Json body = Json::object({{"model", target.model}});
  if (target.chat)
    body.set("messages", messages);
  else
    body.set("prompt", plain_text(messages));
  body.set("max_tokens", max_tokens);
  body.set("temperature", 0);
  body.set("stream", true);
  body.set("stream_options", Json::object({{"include_usage", true}}));
  if (target.ignore_eos) body.set("ignore_eos", true);
  http::Outgoing request;
  request.path = target.chat ? "/v1/chat/completions" : "/v1/completions";
  request.headers = target.headers;
  request.headers.emplace_back("Content-Type", "application/json");
  request.headers.emplace_back("Accept", "text/event-stream");
  request.body = body.to_text();
  request.timeout = std::chrono::seconds(target.timeout_s);
  return request;
}

// A whole answer, kept.
class Whole : public http::Receiver {
 public:
  void head(int s, const http::Headers&) override { status = s; }
  void data(std::string_view bytes) override {
    if (text.size() < (size_t{8} << 20)) text += bytes;
  }
  void done(std::string_view why) override { failure = why; }
  int status = 0;
  std::string text, failure;
};

}  // namespace

uint64_t Point::longest() const {
  const uint64_t later = turns - 1;
  return prompt_tokens + uint64_t{turns} * output_tokens + later * (prompt_tokens / 8);
}

Json Runner::get(const Target& target, const std::string& path) {
  const auto answer = std::make_shared<Whole>();
  http::Outgoing request;
  request.method = "GET";
  request.path = path;
  request.headers = target.headers;
  request.timeout = std::chrono::seconds(target.timeout_s);
  client_.send(std::move(request), answer);
  client_.run();
  if (!answer->failure.empty())
    throw Error(Code::kNetwork, "{}: {}", path, answer->failure)
        .set_hint(answer->failure.starts_with("TLS")
                      ? "--ca-file names the certificates that are trusted"
                      : "is the server running there?");
  if (answer->status != 200) {
    Error error(Code::kNetwork, "{}: the server answers {}: {}", path, answer->status,
                quote(answer->text.substr(0, 200)));
    if (answer->status == 401) error.set_hint("--api-key-file names the file of the key");
    throw error;
  }
  try {
    return parse_json(answer->text, path);
  } catch (const Error&) {
    throw Error(Code::kNetwork, "{}: the server answers no JSON: {}", path,
                quote(answer->text.substr(0, 200)))
        .set_hint("is it a server of language models?");
  }
}

Record Runner::ask(const Target& target, const Json& messages, uint32_t max_tokens) {
  Record result;
  client_.send(request_of(target, messages, max_tokens),
               std::make_shared<AnswerReader>(Record{}, Clock::now(), [&result](Record record) {
                 result = std::move(record);
               }));
  client_.run();
  return result;
}

void Runner::discover(Target* target) {
  const Json models = get(*target, "/v1/models");
  const Json* data = models.find("data");
  if (data && data->is_array()) {
    for (const Json& model : data->as_array()) {
      const Json* id = model.is_object() ? model.find("id") : nullptr;
      if (!id || !id->is_string()) continue;
      if (target->model.empty()) target->model = id->as_string();
      const Json* longest = model.find("max_model_len");
      if (id->as_string() == target->model && longest && longest->is_integer())
        target->max_context = static_cast<uint32_t>(std::max(0.0, longest->as_double()));
    }
  }
  if (target->model.empty())
    throw Error(Code::kNetwork, "/v1/models: no model in {}", quote(models.to_text()))
        .set_hint("name it with --model-id");
  calibrate(target);
}

uint64_t Runner::count(Target* target, uint32_t words) {
  Conversations texts(Scenario::kUniform, words, {}, words);
  Record record = ask(*target, texts.begin(0), 1);
  if (record.failure == "400" && target->ignore_eos) {
    target->ignore_eos = false;
    record = ask(*target, texts.begin(0), 1);
  }
  if (!record.complete())
    throw Error(Code::kNetwork, "the first question fails: {}{}{}", record.failure,
                record.detail.empty() ? "" : ", ", record.detail);
  return record.prompt_tokens.value_or(words);
}

void Runner::calibrate(Target* target) {
  const uint64_t few = count(target, kFewWords);
  const uint64_t many = count(target, kManyWords);
  target->scale = TokenScale::through(kFewWords, few, kManyWords, many);
}

// One repetition of a point. Everything happens on the client's thread.
struct Runner::Repetition {
  http::Client& client;
  const Target& target;
  const Point& point;
  const std::function<void(const Record&)>& told;
  const uint32_t number;
  Conversations conversations;
  std::mt19937_64 arrivals;
  PointResult& result;
  Clock::time_point begin{};
  Clock::time_point last{};
  uint32_t begun = 0;

  void start() {
    begin = last = Clock::now();
    if (point.rate > 0) return arrive();
    for (uint32_t i = 0; i < std::min(point.concurrency, point.sessions); ++i) next();
  }
  // A Poisson process: the pauses between arrivals are exponential.
  void arrive() {
    if (begun >= point.sessions) return;
    const double u = std::generate_canonical<double, 53>(arrivals);
    const auto pause = std::chrono::duration<double>(-std::log1p(-u) / point.rate);
    client.after(std::chrono::duration_cast<std::chrono::nanoseconds>(pause), [this] {
      next();
      arrive();
    });
  }
  void next() {
    if (begun >= point.sessions || client.stopped()) return;
    const uint32_t session = begun++;
    turn(session, 0, conversations.begin(session));
  }
  void turn(uint32_t session, uint32_t i, Json messages) {
    Record record;
    record.repetition = number;
    record.session = session;
    record.turn = i;
    http::Outgoing request = request_of(target, messages, point.output_tokens);
    client.send(
        std::move(request),
        std::make_shared<AnswerReader>(std::move(record), begin,
                                       [this, messages = std::move(messages)](Record done) mutable {
                                         ended(std::move(done), std::move(messages));
                                       }));
  }
  void ended(Record record, Json messages) {
    last = Clock::now();
    const bool goes_on = record.complete() && record.turn + 1 < point.turns && !client.stopped();
    const uint32_t session = record.session, i = record.turn + 1;
    const double pause = std::min(kLongestPause, record.retry_after_s);
    if (goes_on) conversations.go_on(&messages, record.text);
    record.text.clear();
    told(record);
    result.records.push_back(std::move(record));
    if (goes_on) return turn(session, i, std::move(messages));
    if (point.rate > 0) return;
    if (pause > 0)
      client.after(std::chrono::milliseconds(static_cast<int64_t>(pause * 1000)),
                   [this] { next(); });
    else
      next();
  }
};

PointResult Runner::run(const Target& target, const Point& point,
                        const std::function<void(const Record&)>& told) {
  PointResult result;
  result.point = point;
  for (uint32_t r = 0; r < point.repetitions && !client_.stopped(); ++r) {
    const uint64_t seed = point.seed * 1000003 + r;
    Repetition repetition{
        .client = client_,
        .target = target,
        .point = point,
        .told = told,
        .number = r,
        .conversations = Conversations(point.scenario, point.prompt_tokens, target.scale, seed),
        .arrivals = std::mt19937_64(seed + 1),
        .result = result};
    if (const Json shared = repetition.conversations.shared(); !shared.is_null())
      ask(target, shared, 1);
    if (client_.stopped()) break;
    repetition.start();
    client_.run();
    result.wall_s.push_back(
        std::chrono::duration<double>(repetition.last - repetition.begin).count());
  }
  result.interrupted = client_.stopped();
  return result;
}

}  // namespace flare::server::load
