// Readiness of a descriptor behind connection.h.
#include "server/http/connection.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace flare::server::http {
namespace {

namespace asio = boost::asio;
using asio::use_awaitable;
using boost::system::error_code;

constexpr size_t kReadBytes = 64 << 10;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Connection::Connection(asio::io_context& io, int fd) : io_(io), socket_(io, fd), event_(io) {}

asio::awaitable<bool> Connection::handshake(std::shared_ptr<const TlsContext> tls,
                                            TimePoint deadline) {
  tls_.emplace(std::move(tls), socket_.native_handle());
  while (true) {
    const Io outcome = tls_->handshake();
    if (outcome == Io::kDone) co_return true;
    const bool waits = outcome == Io::kWantRead || outcome == Io::kWantWrite;
    if (!waits || !is_open() || std::chrono::steady_clock::now() >= deadline) co_return false;
    arm(outcome == Io::kWantRead ? kIn : kOut);
    co_await sleep(deadline);
  }
}

// A closed descriptor's number may be another connection's already.
Connection::Read Connection::read_now(std::string* to) {
  if (!is_open()) return Read::kFailed;
  char space[kReadBytes];  // not the connection's: a thousand idle ones would keep a thousand
  size_t n = 0;
  Read result = Read::kData;
  if (tls_) {
    const Io outcome = tls_->read({reinterpret_cast<std::byte*>(space), kReadBytes}, &n);
    read_wants_room_ = outcome == Io::kWantWrite;
    if (outcome != Io::kDone) {
      n = 0;
      result = outcome == Io::kEnd      ? Read::kEnd
               : outcome == Io::kFailed ? Read::kFailed
                                        : Read::kNothing;
    }
  } else {
    const ssize_t got = ::recv(socket_.native_handle(), space, kReadBytes, 0);
    n = got > 0 ? static_cast<size_t>(got) : 0;
    if (got <= 0) result = got == 0 ? Read::kEnd : would_block() ? Read::kNothing : Read::kFailed;
  }
  to->append(space, n);
  return result;
}

asio::awaitable<Connection::Read> Connection::read(std::string* to, TimePoint deadline) {
  while (true) {
    const Read result = read_now(to);
    if (result != Read::kNothing) co_return result;
    if (std::chrono::steady_clock::now() >= deadline) co_return Read::kTimeout;
    co_await wait(deadline, Watch::kInput);
  }
}

asio::awaitable<void> Connection::wait(TimePoint deadline, Watch watch) {
  if (watch == Watch::kInput) arm(read_wants_room_ ? kOut : kIn);
  if (watch == Watch::kFailure) arm(kFault);
  co_await sleep(deadline);
}

// recv() says nothing new behind the end of the input, whatever happens.
bool Connection::has_failed() const {
  pollfd state{const_cast<Connection*>(this)->socket_.native_handle(), 0, 0};
  return !is_open() || (::poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP)) != 0);
}

std::optional<size_t> Connection::write_now(std::string_view bytes) {
  if (!is_open()) return std::nullopt;
  if (tls_) {
    size_t n = 0;
    const Io outcome = tls_->write(as_bytes(bytes), &n);
    write_wants_input_ = outcome == Io::kWantRead;
    if (outcome == Io::kDone) return n;
    if (outcome == Io::kWantRead || outcome == Io::kWantWrite) return 0;
    return std::nullopt;
  }
  const ssize_t n = ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (n >= 0) return static_cast<size_t>(n);
  return would_block() ? std::optional<size_t>(0) : std::nullopt;
}

asio::awaitable<void> Connection::wait_room(TimePoint deadline) {
  arm(write_wants_input_ ? kIn : kOut);
  co_await sleep(deadline);
}

// One outstanding wait per direction: its end wakes whoever sleeps then.
void Connection::arm(Direction direction) {
  using Wait = asio::posix::descriptor_base;
  constexpr Wait::wait_type kWaits[] = {Wait::wait_read, Wait::wait_write, Wait::wait_error};
  if (armed_[direction] || !is_open()) return;
  armed_[direction] = true;
  socket_.async_wait(kWaits[direction], [self = shared_from_this(), direction](error_code) {
    self->armed_[direction] = false;
    self->wake();
  });
}

asio::awaitable<void> Connection::sleep(TimePoint deadline) {
  if (!woken_) {
    event_.expires_at(deadline);
    sleeping_ = true;
    error_code ignored;
    co_await event_.async_wait(asio::redirect_error(use_awaitable, ignored));
    sleeping_ = false;
  }
  woken_ = false;
}

void Connection::wake() {
  woken_ = true;
  if (sleeping_) event_.cancel();
}

void Connection::wake_soon() {
  asio::post(io_, [self = shared_from_this()] { self->wake(); });
}

void Connection::shutdown_send() {
  if (!is_open()) return;
  if (tls_) tls_->close_notify();
  ::shutdown(socket_.native_handle(), SHUT_WR);
}

void Connection::close() {
  error_code ignored;
  socket_.close(ignored);
  wake();
}

}  // namespace flare::server::http
