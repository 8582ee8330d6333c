// What one request of a load showed: when its pieces came, what was counted, why it failed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "server/http/client.h"

namespace flare::server::load {

using Clock = std::chrono::steady_clock;

struct Record {
  uint32_t repetition = 0, session = 0, turn = 0;
  double start_s = 0;  // since the repetition began
  // Since the request was sent: to the first event that carries text, reasoning or a call, to the
  // last of them, and to the end of the answer.
  double first_s = 0, last_s = 0, total_s = 0;
  std::vector<double> gaps_s;  // between such events
  uint32_t events = 0;         // such events
  int status = 0;              // of HTTP; 0: none came
  // Empty: complete. "timeout", "stopped", "connect", "cut" (ended early), "stream_error" (an error
  // within the stream), "bad_event", else the HTTP status.
  std::string failure;
  std::string detail;  // of a failure, in the words of server or system
  double retry_after_s = 0;
  std::string text;                             // the answer, without reasoning
  std::optional<uint64_t> prompt_tokens;        // by the server's count
  std::optional<uint64_t> cached_tokens;        // the same
  std::optional<uint64_t> output_tokens;        // the same
  std::optional<uint64_t> drafts, drafts_kept;  // of the server's timings

  bool complete() const { return failure.empty(); }
  // The server's count, else that of the events.
  uint64_t tokens() const { return output_tokens.value_or(events); }
};

// Events of a text/event-stream, in pieces cut anywhere: comments and unknown fields are dropped.
class EventSplitter {
 public:
  // Calls `take` with the data of every event that `bytes` completes.
  void feed(std::string_view bytes, const std::function<void(std::string_view)>& take);

 private:
  void line(std::string_view text, const std::function<void(std::string_view)>& take);
  std::string open_;  // an unfinished line
  std::string data_;  // of the unfinished event
  bool has_data_ = false;
};

// Reads one streamed answer of /v1/chat/completions or /v1/completions into a record.
class AnswerReader : public http::Receiver {
 public:
  AnswerReader(Record record, Clock::time_point begin, std::function<void(Record)> done)
      : record_(std::move(record)), begin_(begin), sent_(Clock::now()), done_(std::move(done)) {}
  void head(int status, const http::Headers& headers) override;
  void data(std::string_view bytes) override;
  void done(std::string_view failure) override;

 private:
  void event(std::string_view text);
  void read(const Json& event);
  void read_counts(const Json& event);
  void conclude(std::string_view failure);
  double since_sent() const;

  Record record_;
  const Clock::time_point begin_, sent_;
  std::function<void(Record)> done_;
  EventSplitter splitter_;
  std::string body_;  // of an answer that is no stream
  bool finished_ = false;
};

}  // namespace flare::server::load
