// One request's answer in the making, whatever its protocol: choices that start together, their
// events one at a time, and one end.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "server/api/errors.h"
#include "server/http/http.h"
#include "server/service/service.h"

namespace flare::server {

// A protocol derives from it and writes what the hooks tell. The hooks are called one at a time, on
// the engine's thread (the first may come from the thread of start()); they must be quick and must
// not throw. Made by std::make_shared: the engine's events keep it alive.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // One prompt and how many choices are made of it.
  struct Run {
    std::vector<int32_t> prompt;
    GenerateSettings settings;
    int n = 1;
  };

  struct Setup {
    std::shared_ptr<http::Exchange> exchange;
    bool stream = false;
    http::Headers headers = {};
    std::string ping = std::string(http::kCommentPing);  // bytes of a keep-alive event
  };

  virtual ~Generation() = default;
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // Queues the choices of all runs, which are numbered through in this order. If one is refused,
  // all are given up: throws ApiError, and no hook is called. The service outlives the answer.
  void start(Service& service, std::vector<Run> runs);

 protected:
  explicit Generation(Setup setup) : setup_(std::move(setup)) {}

  // Streams: before the first event, or its error, is written.
  virtual void on_open() {}
  // That a choice has its place (`admitted`: the usage of its prompt, nothing else), new text or
  // tokens of it, or with `finished` its end, which is none of those that are errors.
  virtual void on_event(size_t choice, const TextEvent& event) = 0;
  // Every choice has ended: respond(), or what ends the stream; the caller closes it.
  virtual void on_complete() = 0;
  // An error behind the head of a stream; the caller closes it. Before it, the error is the
  // response, in the shape of the request's path.
  virtual void on_stream_error(const ApiError& error) { send(openai_error(error)); }

  bool stream() const { return setup_.stream; }
  // A whole answer.
  void respond(const Json& body);
  // One event of the stream: `data: …`, with a name `event: …` before it.
  void send(const Json& data);
  void send(std::string_view name, const Json& data);
  void send_text(std::string event) { setup_.exchange->write(std::move(event)); }

  size_t n_choices() const { return choices_.size(); }
  // The last event of a choice that has ended, by an error too.
  const TextEvent& last(size_t choice) const { return *choices_[choice].last; }
  // Of all choices; those of one run share a prompt, which counts once.
  runtime::Usage total_usage() const;
  uint64_t reasoning_tokens() const;

 private:
  struct Choice {
    size_t run = 0;
    std::optional<TextEvent> last;
  };
  void take(size_t choice, const TextEvent& event);
  void begin_observation(Service& service, const std::vector<Run>& runs);
  void note(size_t choice, const TextEvent& event);
  void open();
  void fail(const ApiError& error);

  const Setup setup_;
  std::shared_ptr<observe::Observation> observation_;  // set by start(); may be null
  std::mutex mutex_;  // guards the rest, and is held while a hook runs
  std::vector<Choice> choices_;
  size_t n_finished_ = 0;
  bool opened_ = false;
  bool over_ = false;
};

// "chatcmpl-" and the like, with 128 random bits.
std::string fresh_id(std::string_view prefix);

// Why an answer ended, where the protocol's word does not tell: the stop string, one of `stop_ids`,
// "context", "constraint_dead_end", or null.
Json stop_reason(const TextEvent& last, const std::vector<int32_t>& stop_ids);

}  // namespace flare::server
