// A client of plain sockets, and handlers for servers under test.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <string>

#include "base/error.h"
#include "server/http/http.h"

namespace flare::server::http {

inline constexpr int kPatienceMs = 20'000;

// A connection that reads what it is told to and no more.
class RawClient {
 public:
  explicit RawClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  explicit RawClient(const std::string& path)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~RawClient() { close(); }
  int fd() const { return fd_; }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void half_close() { ::shutdown(fd_, SHUT_WR); }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;  // the server may have closed already
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  // Everything up to and including `mark`; what came so far if the connection ends.
  std::string read_until(std::string_view mark) {
    size_t at;
    while ((at = pending_.find(mark)) == std::string::npos && more()) {
    }
    return cut(at == std::string::npos ? pending_.size() : at + mark.size());
  }
  std::string read_bytes(size_t n) {
    while (pending_.size() < n && more()) {
    }
    return cut(std::min(n, pending_.size()));
  }
  std::string read_to_end() {
    while (more()) {
    }
    return cut(pending_.size());
  }
  // One response with Content-Length: head and body.
  std::pair<std::string, std::string> response() {
    std::string head = read_until("\r\n\r\n");
    const size_t at = head.find("Content-Length: ");
    const size_t n = at == std::string::npos ? 0 : std::stoul(head.substr(at + 16));
    return {head, read_bytes(n)};
  }

 private:
  bool more() {
    pollfd waiting{fd_, POLLIN, 0};
    if (::poll(&waiting, 1, kPatienceMs) <= 0) {
      ADD_FAILURE() << "the server says nothing";
      return false;
    }
    char block[4096];
    const ssize_t n = ::recv(fd_, block, sizeof block, 0);
    if (n > 0) pending_.append(block, static_cast<size_t>(n));
    return n > 0;
  }
  std::string cut(size_t n) {
    std::string out = pending_.substr(0, n);
    pending_.erase(0, n);
    return out;
  }
  int fd_;
  std::string pending_;
};

inline Options local() {
  Options options;
  options.port = 0;
  return options;
}

// Answers with what it got: "METHOD path?query|header x-test|body".
inline void echo(Request request, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond(200, "text/plain",
                    fmt::format("{} {}?{}|{}|{}", request.method, request.path, request.query,
                                request.header("X-TEST"), request.body),
                    {{"x-extra", "1"}});
}

// Sends `bytes` on a fresh connection and returns all that comes back before it is closed.
inline std::string last_words(const Server& server, std::string_view bytes) {
  RawClient client(server.port());
  client.send(bytes);
  return client.read_to_end();
}

// A handler that lends its exchange to the test.
class Stage {
 public:
  Handler handler() {
    return [this](const Request&, std::shared_ptr<Exchange> exchange) {
      const std::lock_guard lock(mutex_);
      exchange_ = std::move(exchange);
      come_.notify_all();
    };
  }
  std::shared_ptr<Exchange> next() {
    std::unique_lock lock(mutex_);
    come_.wait(lock, [this] { return exchange_ != nullptr; });
    return std::exchange(exchange_, nullptr);
  }

 private:
  std::mutex mutex_;
  std::condition_variable come_;
  std::shared_ptr<Exchange> exchange_;
};

inline constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

// True once on_disconnect has run.
inline bool told_gone(Exchange& exchange) {
  auto told = std::make_shared<std::promise<void>>();
  exchange.on_disconnect([told] { told->set_value(); });
  return told->get_future().wait_for(std::chrono::milliseconds(kPatienceMs)) ==
         std::future_status::ready;
}

}  // namespace flare::server::http
