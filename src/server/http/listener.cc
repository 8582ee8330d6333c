// POSIX behind listener.h.
#include "server/http/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

#include "base/error.h"

namespace flare::server::http {
namespace {

constexpr int kBacklog = 1024;

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
  sockaddr_un path;
};

SocketAddress own_address(int fd) {
  SocketAddress address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, &address.any, &size) != 0) address.any.sa_family = AF_UNSPEC;
  return address;
}

// Size of the address; 0 where `host` is none.
socklen_t parse_address(const std::string& host, uint16_t port, SocketAddress* out) {
  const std::string number = host == "localhost" ? "127.0.0.1" : host;
  if (::inet_pton(AF_INET, number.c_str(), &out->v4.sin_addr) == 1) {
    out->v4.sin_family = AF_INET;
    out->v4.sin_port = htons(port);
    return sizeof out->v4;
  }
  if (::inet_pton(AF_INET6, number.c_str(), &out->v6.sin6_addr) == 1) {
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port = htons(port);
    return sizeof out->v6;
  }
  return 0;
}

sockaddr_un path_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    throw Error(Code::kUsage, "--listen unix:{}: a path of 1 to {} bytes expected", path,
                sizeof address.sun_path - 1);
  path.copy(address.sun_path, path.size());
  return address;
}

int open_socket(int family) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) throw Error(Code::kNetwork, "no socket: {}", errno_text());
  return fd;
}

// Makes room for a socket at `path`: one that refuses connections was left by a server that is
// gone.
void clear_path(const std::string& path, const sockaddr_un& address) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return;
  if (!S_ISSOCK(status.st_mode))
    throw Error(Code::kExists, "--listen unix:{}: no socket lies there, expected one or nothing",
                path)
        .set_hint("choose another path");
  const int probe = open_socket(AF_UNIX);
  const bool answered =
      ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const bool is_left = !answered && errno == ECONNREFUSED;
  const std::string why = answered ? "it answers" : errno_text();
  ::close(probe);
  if (!is_left)
    throw Error(Code::kNetwork,
                "--listen unix:{}: another server may listen there ({}), expected none", path, why)
        .set_hint("choose another path");
  ::unlink(path.c_str());
}

}  // namespace

Listener::Listener(int fd, std::string unlink_path)
    : fd_(fd), unlink_path_(std::move(unlink_path)) {
  const SocketAddress own = own_address(fd);
  char text[INET6_ADDRSTRLEN] = {};
  if (own.any.sa_family == AF_INET) {
    port_ = ntohs(own.v4.sin_port);
    address_ =
        fmt::format("{}:{}", ::inet_ntop(AF_INET, &own.v4.sin_addr, text, sizeof text), port_);
  } else if (own.any.sa_family == AF_INET6) {
    port_ = ntohs(own.v6.sin6_port);
    address_ =
        fmt::format("[{}]:{}", ::inet_ntop(AF_INET6, &own.v6.sin6_addr, text, sizeof text), port_);
  } else {
    address_ = fmt::format("unix:{}", own.path.sun_path);
  }
}

Listener::Listener(Listener&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      port_(other.port_),
      address_(std::move(other.address_)),
      unlink_path_(std::exchange(other.unlink_path_, {})) {}

Listener::~Listener() {
  if (!unlink_path_.empty()) ::unlink(unlink_path_.c_str());
  if (fd_ >= 0) ::close(fd_);
}

Listener Listener::tcp(const std::string& host, uint16_t port) {
  SocketAddress address{};
  const socklen_t size = parse_address(host, port, &address);
  if (size == 0) throw Error(Code::kUsage, "--host {}: an IP address expected", quote(host));
  const int fd = open_socket(address.any.sa_family);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd, &address.any, size) == 0 && ::listen(fd, kBacklog) == 0) return Listener(fd, {});
  const std::string why = errno_text();
  ::close(fd);
  throw Error(Code::kNetwork, "{}:{}: cannot be bound: {}", host, port, why)
      .set_hint("choose another --port; 0 picks a free one");
}

Listener Listener::unix_socket(const std::string& path) {
  const sockaddr_un address = path_address(path);
  clear_path(path, address);
  const int fd = open_socket(AF_UNIX);
  const mode_t before = ::umask(0177);  // never more open, not even for a moment
  const bool bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                     ::listen(fd, kBacklog) == 0;
  const std::string why = errno_text();
  ::umask(before);
  if (bound) return Listener(fd, path);
  ::close(fd);
  throw Error(Code::kNetwork, "--listen unix:{}: cannot be bound: {}", path, why)
      .set_hint("choose another path");
}

Listener Listener::inherited(int fd) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
    throw Error(Code::kUsage, "descriptor {} of the service manager: no listening stream socket",
                fd);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  return Listener(fd, {});
}

std::vector<Listener> Listener::open_all(const Options& options) {
  std::vector<Listener> all;
  for (const int fd : options.inherited) all.push_back(inherited(fd));
  if (!all.empty()) return all;
  if (options.tcp) all.push_back(tcp(options.host, options.port));
  if (!options.unix_path.empty()) all.push_back(unix_socket(options.unix_path));
  if (all.empty()) throw Error(Code::kUsage, "nothing to listen on, an address or a path expected");
  return all;
}

bool is_local_socket(int fd) {
  const SocketAddress own = own_address(fd);
  switch (own.any.sa_family) {
    case AF_UNIX:
      return true;
    case AF_INET:
      return (ntohl(own.v4.sin_addr.s_addr) >> 24) == 127;
    case AF_INET6:
      return IN6_IS_ADDR_LOOPBACK(&own.v6.sin6_addr);
    default:
      return false;
  }
}

bool is_local_only(const Options& options) {
  if (!options.inherited.empty()) {
    for (const int fd : options.inherited)
      if (!is_local_socket(fd)) return false;
    return true;
  }
  if (!options.tcp) return true;
  SocketAddress address{};
  if (parse_address(options.host, 0, &address) == 0) return false;
  return address.any.sa_family == AF_INET ? (ntohl(address.v4.sin_addr.s_addr) >> 24) == 127
                                          : IN6_IS_ADDR_LOOPBACK(&address.v6.sin6_addr);
}

bool listens_on_network(const Options& options) {
  for (const int fd : options.inherited)
    if (own_address(fd).any.sa_family != AF_UNIX) return true;
  return options.inherited.empty() && options.tcp;
}

}  // namespace flare::server::http
