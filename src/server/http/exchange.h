// Output of one request on its way from any thread to the transport's.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

#include "server/http/http.h"

namespace flare::server::http {

// The mutex guards what changes. `wake` tells the transport that there may be something to take; it
// is called from any thread, under the mutex.
class QueuedExchange : public Exchange {
 public:
  QueuedExchange(const Request& request, uint64_t max_unread, std::function<void()> wake)
      : id_(request.id),
        path_(request.path),
        salt_(request.cache_salt),
        timeout_(request.timeout_ms),
        max_unread_(max_unread),
        wake_(std::move(wake)) {}

  const std::string& request_id() const override { return id_; }
  const std::string& request_path() const override { return path_; }
  const std::string& cache_salt() const override { return salt_; }
  std::chrono::steady_clock::time_point arrived() const override { return arrived_; }
  std::optional<std::chrono::steady_clock::time_point> deadline() const override {
    if (timeout_.count() == 0) return std::nullopt;
    return arrived_ + timeout_;
  }
  bool respond(int status, std::string_view content_type, std::string body,
               Headers headers) override;
  void begin_stream(Headers headers, std::string ping) override;
  void offer_stream(Headers headers, std::string ping) override;
  void write(std::string bytes) override;
  void end() override;
  void on_disconnect(std::function<void()> gone) override;

  // The rest is the transport's.
  struct Output {
    bool started = false, offered = false, streaming = false, ended = false, gone = false;
    std::string bytes;
  };
  Output take();
  bool is_gone();
  // The first ping is due: what is offered begins.
  void begin_offered();
  void client_gone();
  // Of an answer that has started.
  int status() const { return status_; }
  const std::string& content_type() const { return content_type_; }
  const Headers& headers() const { return headers_; }
  const std::string& ping() const { return ping_; }

 private:
  std::function<void()> mark_gone();

  const std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();
  const std::string id_, path_, salt_;
  const std::chrono::milliseconds timeout_;  // 0: none
  const uint64_t max_unread_;
  const std::function<void()> wake_;
  std::mutex mutex_;
  bool started_ = false, offered_ = false, streaming_ = false, ended_ = false, gone_ = false;
  int status_ = 200;
  std::string content_type_;
  Headers headers_;
  std::string ping_;
  std::deque<std::string> queue_;
  uint64_t queued_bytes_ = 0;
  std::function<void()> on_gone_;
};

}  // namespace flare::server::http
