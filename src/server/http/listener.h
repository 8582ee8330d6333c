// The sockets that a server listens on: an address, a path, or what a service manager has opened.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/http/http.h"

namespace flare::server::http {

// Owns a listening socket, and the path of one that has a path.
class Listener {
 public:
  static Listener tcp(const std::string& host, uint16_t port);
  // Takes the place of a socket that nobody listens on. Mode 0600.
  static Listener unix_socket(const std::string& path);
  static Listener inherited(int fd);
  // What the options ask for, at least one. Errors: kUsage (address, path, no socket), kNetwork
  // (the address is in use), kExists (something that is no socket lies at the path).
  static std::vector<Listener> open_all(const Options& options);

  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  int fd() const { return fd_; }
  uint16_t port() const { return port_; }  // 0 for a path
  // "127.0.0.1:8000", "[::1]:8000", "unix:/path".
  const std::string& address() const { return address_; }

 private:
  Listener(int fd, std::string unlink_path);
  int fd_ = -1;
  uint16_t port_ = 0;
  std::string address_, unlink_path_;
};

// Whether an open socket can be reached from this machine alone.
bool is_local_socket(int fd);

}  // namespace flare::server::http
