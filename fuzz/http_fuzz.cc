// Requests as bytes on a socket, in two pieces: a real server reads them, answers what is whole and
// ends the connection, and what it answers is HTTP.
// fuzz links: flare_http
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "require.h"
#include "server/http/http.h"

namespace {

namespace http = flare::server::http;

const std::string& socket_path() {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("flare_http_fuzz_" + std::to_string(::getpid())))
          .string();
  return path;
}

// Small limits, so that short inputs reach them. GET is answered by its head, the rest by a worker.
http::Server* start() {
  http::Options options;
  options.tcp = false;
  options.unix_path = socket_path();
  options.max_body_bytes = 64;
  options.max_header_bytes = 512;
  options.max_header_fields = 8;
  options.header_seconds = options.body_idle_seconds = options.body_seconds = 1;
  http::Hooks hooks;
  hooks.on_head = [](http::Request* request) -> std::optional<http::Answer> {
    if (request->method != "GET") return std::nullopt;
    return http::Answer{.content_type = "text/plain", .body = request->path + request->query};
  };
  std::atexit([] { ::unlink(socket_path().c_str()); });
  return new http::Server(
      options,
      [](const http::Request& request, const std::shared_ptr<http::Exchange>& exchange) {
        exchange->respond(200, "text/plain", request.body, {{"x-path", request.path}});
      },
      hooks);
}

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static http::Server* const server = start();
  (void)server;
  if (size < 1 || size > 8192) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_path().copy(address.sun_path, sizeof address.sun_path - 1);
  require(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  const size_t cut = bytes.size() * data[0] / 256;
  send_all(fd, bytes.substr(0, cut));
  send_all(fd, bytes.substr(cut));
  ::shutdown(fd, SHUT_WR);
  std::string answers;
  char block[4096];
  while (true) {
    pollfd waiting{fd, POLLIN, 0};
    int ready;
    do ready = ::poll(&waiting, 1, 10'000);
    while (ready < 0 && errno == EINTR);  // by the fuzzer's own clock
    require(ready == 1);  // it always comes to an end
    const ssize_t n = ::recv(fd, block, sizeof block, 0);
    if (n <= 0) break;
    answers.append(block, static_cast<size_t>(n));
  }
  ::close(fd);
  require(answers.empty() || answers.starts_with("HTTP/1.1 "));
  return 0;
}
