// One client's socket, plain or encrypted, as coroutines of the transport thread use it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/tls.h"

namespace flare::server::http {

// Confined to the transport thread, but for wake_soon(). The socket never blocks: calls try, and
// one wait covers input, room for output, wake-ups and a deadline.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Owns the socket.
  Connection(boost::asio::io_context& io, int fd);

  // Encrypts from here on; false: the client failed or took too long.
  boost::asio::awaitable<bool> handshake(std::shared_ptr<const TlsContext> tls, TimePoint deadline);

  enum class Read { kData, kEnd, kFailed, kTimeout, kNothing };
  // Appends what has arrived to `to`, at most 64 KiB; never waits (kNothing: there is none).
  Read read_now(std::string* to);
  // Waits for something to append.
  boost::asio::awaitable<Read> read(std::string* to, TimePoint deadline);
  // What a wait ends for, besides wake() and its deadline.
  enum class Watch { kInput, kFailure, kNothing };
  boost::asio::awaitable<void> wait(TimePoint deadline, Watch watch);
  // Whether the client is gone for good: it reset the connection. One that has sent its last byte
  // (Read::kEnd) may have closed or may still read; what is written to it tells.
  bool has_failed() const;

  // Writes a first part; 0 where there is no room, nullopt where the connection failed.
  std::optional<size_t> write_now(std::string_view bytes);
  // Suspends until there may be room, wake() or the deadline.
  boost::asio::awaitable<void> wait_room(TimePoint deadline);

  void wake();       // transport thread
  void wake_soon();  // any thread
  // Nothing more will be written.
  void shutdown_send();
  void close();
  bool is_open() const { return socket_.is_open(); }

 private:
  enum Direction { kIn, kOut, kFault };
  void arm(Direction direction);
  boost::asio::awaitable<void> sleep(TimePoint deadline);

  boost::asio::io_context& io_;
  boost::asio::posix::stream_descriptor socket_;
  std::optional<TlsStream> tls_;
  boost::asio::steady_timer event_;
  bool woken_ = false, sleeping_ = false;
  bool armed_[3] = {};  // by direction
  // What the encryption needs first: it may have to write in order to read, and the reverse.
  bool read_wants_room_ = false, write_wants_input_ = false;
};

}  // namespace flare::server::http
