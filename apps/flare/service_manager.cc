// The protocols of sd_listen_fds(3) and sd_notify(3).
#include "flare/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"

namespace flare::app {
namespace {

constexpr int kFirstInherited = 3;

int number_of(const char* name) {
  const char* const text = std::getenv(name);
  int number = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
  return number;
}

}  // namespace

std::vector<int> take_inherited_sockets() {
  std::vector<int> sockets;
  const int n = number_of("LISTEN_FDS");
  if (number_of("LISTEN_PID") == ::getpid() && n > 0 && n < 64)
    for (int i = 0; i < n; ++i) sockets.push_back(kFirstInherited + i);
  for (const char* name : {"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"}) ::unsetenv(name);
  return sockets;
}

void notify_manager(std::string_view state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t n = path == nullptr ? 0 : std::strlen(path);
  if (n < 2 || n >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@')) return;
  std::memcpy(address.sun_path, path, n);
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract name
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t sent =
      ::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + n));
  ::close(fd);
}

void notify_reloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  notify_manager(
      fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1'000'000LL + now.tv_nsec / 1000));
}

}  // namespace flare::app
