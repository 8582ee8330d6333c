// An HTTP client for streamed answers: many at once on one thread, bytes handed on as they arrive.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/http.h"

namespace flare::server::http {

struct Url {
  std::string host;
  uint16_t port = 80;
  std::string prefix;  // of every path; no slash at its end
  bool tls = false;    // https
};

// http://HOST[:PORT][/PATH], or https://…, whose port is 443. Errors: kUsage.
Url parse_url(std::string_view text);

struct Outgoing {
  std::string method = "POST";
  std::string path;  // behind the URL's prefix
  Headers headers;
  std::string body;
  std::chrono::milliseconds timeout{0};  // for the whole exchange
};

// Takes one answer. Every call comes from the thread in Client::run(), `done` last and once.
class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual void head(int status, const Headers& headers) = 0;
  virtual void data(std::string_view bytes) = 0;
  // Why the answer is not complete: "timeout", "stopped", or words of the system; empty if it is.
  virtual void done(std::string_view failure) = 0;
};

// Connections are kept and used again. Not thread-safe but for stop().
class Client {
 public:
  // An https server must show a certificate of its host name that leads to one the system trusts,
  // or to one in the PEM file `ca_file`. Errors: kNotFound, kInvalid (the file holds none).
  explicit Client(Url url, const std::string& ca_file = {});
  ~Client();
  void send(Outgoing request, std::shared_ptr<Receiver> receiver);
  // Calls `then` once.
  void after(std::chrono::nanoseconds pause, std::function<void()> then);
  // Until every answer and pause has ended; what they start counts. May be called again.
  void run();
  // Any thread. What is under way ends as "stopped", pauses end without their call, and what is
  // sent from now on is stopped at once.
  void stop();
  bool stopped() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flare::server::http
